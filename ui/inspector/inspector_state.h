#pragma once

#include <QColor>
#include <QString>
#include <functional>
#include <memory>
#include <vector>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/chat/turn_metrics.h"
#include "engine/engine_types.h"
#include "engine/measure/memory_ledger.h"
#include "engine/quant/calibration_profile.h"

namespace vitrine::ui {

/// How a conversation is called and coloured in lists and maps.
struct OwnerLook {
  QString title;  ///< any characters
  QColor colour;
};

/// A turn that runs, as far as it has come.
struct LiveTurn {
  bool running = false;
  int promptTokens = 0, reusedTokens = 0;
  int prefillDone = 0, prefillTotal = 0;
  std::vector<float> tokenMs;
  std::vector<engine::StallCause> tokenCauses;
  std::vector<engine::TokenId> tokenIds;
};

/// All that the inspector's tabs draw, at one moment. Values and const pointers; a tab keeps a
/// copy and paints it.
struct InspectorState {
  app::ModelInfoPtr info;                                  ///< null: no model
  std::shared_ptr<const engine::Model> model;              ///< its shapes; null: no model
  std::shared_ptr<const engine::EngineSnapshot> snapshot;  ///< never null
  engine::EngineConfig wanted;  ///< differs from info->running while a switch is under way
  bool loading = false;
  QString loadStage;
  double loadFraction = 0;

  std::vector<engine::CalibrationPtr> profiles;  ///< of all models, newest first

  QString conversation;  ///< the key that the engine knows this chat's blocks by; may be empty
  QString branch;        ///< likewise the branch on screen
  /// Tokens of each chat of the person after its last turn (those without figures left out).
  std::vector<int> chatLengths;
  /// The chat's path as a prompt, its last answer included; null: no chat.
  std::function<std::vector<engine::ChatMessage>()> chatMessages;
  std::vector<app::TurnMetrics> turns;  ///< on the active path, oldest first; only known ones
  std::vector<std::vector<engine::TokenId>> turnTokens;  ///< of the answers of `turns`
  std::vector<app::TurnMetrics> otherTurns;              ///< on this chat's other branches
  int turnsVersion = 0;  ///< another one whenever turns are others
  app::CacheProofState proof;
  double proofSeconds = 0;
  bool canVerify = false;  ///< a chat with answers is open, and the engine is at rest with it
  LiveTurn live;
  engine::MemoryLedger memory;
  std::function<OwnerLook(const QString& conversation)> ownerLook;
};

/// Blocks, bytes and positions that one conversation holds, all its branches together.
struct ConversationUse {
  int tokens = 0;
  int blocks = 0;
  std::uint64_t bytes = 0;
};
ConversationUse useOf(const engine::EngineSnapshot& snapshot, const QString& conversation);

/// What the branch on screen uses of the cache: its own blocks and those it shares with other
/// branches and chats, as the engine counted at its last turn (or counts while one runs). Nothing
/// once the chat's blocks are gone from the pool.
ConversationUse branchUseOf(const InspectorState& state);

}  // namespace vitrine::ui

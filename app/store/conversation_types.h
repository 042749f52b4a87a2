#pragma once

#include <QDateTime>
#include <QJsonObject>
#include <QMetaType>
#include <QString>
#include <optional>
#include <vector>

#include "engine/engine_types.h"

namespace vitrine::app {

using ConversationId = qint64;  ///< 0: none
using MessageId = qint64;       ///< 0: none

enum class Role { kSystem, kUser, kAssistant };
QString nameOf(Role role);  // "system", "user", "assistant"
Role roleFromString(const QString& text);

enum class MessageState {
  kComplete,
  kStreaming,  ///< being written by a running program
  kStopped,    ///< cut by the person or by a crash; the text is what there was
  kFailed,     ///< no answer came; `error` says why
};
QString nameOf(MessageState state);  // "complete", "streaming", "stopped", "failed"

/// How a system prompt reaches a model whose template refuses system messages.
enum class SystemPromptUse { kAsSystem, kMergeIntoFirstUser, kDrop };

/// "stop", "drop_oldest", "keep_pinned"; none for any other text.
std::optional<engine::ContextPolicy> contextPolicyFromString(const QString& text);

/// What a person sees as one chat, without its messages.
struct Conversation {
  ConversationId id = 0;
  QString uuid;
  QString title;
  bool titleIsAutomatic = true;
  QString systemPrompt;
  SystemPromptUse systemPromptUse = SystemPromptUse::kAsSystem;
  /// What happens when the context is full; none: as the settings say.
  std::optional<engine::ContextPolicy> contextPolicy;
  QJsonObject sampling;  ///< only what differs from the defaults
  int colour = 0;        ///< 0 to 7
  bool pinned = false;
  QDateTime created, updated;
  QDateTime trashed;  ///< invalid: not in the trash
  MessageId activeLeaf = 0;
};

/// One node of a conversation's tree.
struct Message {
  MessageId id = 0;
  ConversationId conversation = 0;
  MessageId parent = 0;  ///< 0: a root (the first message of a branch)
  Role role = Role::kUser;
  QString text;
  std::vector<engine::TokenId> tokenIds;  ///< of an answer: what the model generated
  MessageState state = MessageState::kComplete;
  QString error;
  QDateTime created;
  QJsonObject metrics;  ///< see turn_metrics.h
  QString model;        ///< which model answered
  bool pinned = false;  ///< stays in the prompt by ContextPolicy::kKeepPinned
};

}  // namespace vitrine::app

Q_DECLARE_METATYPE(vitrine::app::Conversation)
Q_DECLARE_METATYPE(vitrine::app::Message)

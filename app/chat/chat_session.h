#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QTimer>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "app/chat/turn_metrics.h"
#include "app/chat/turn_request.h"
#include "app/store/conversation_types.h"
#include "engine/base/result.h"
#include "engine/engine_types.h"

namespace vitrine::app {

class ConversationStore;
class EngineClient;
class Settings;

/// What a person can do about a turn that failed.
enum class WayOut {
  kRetry,
  kMergeSystemPrompt,  ///< put the system prompt before the first user message
  kDropSystemPrompt,   ///< leave it out
  kDropOldestTurns,    ///< leave out the oldest turns from now on
  kNewConversation,    ///< the window opens a new chat with the typed text
  kEditMessage,        ///< the window opens the message for editing
  kLoadModel,
  kRunOnCpu,  ///< the GPU failed: the same model on the CPU, and the turn again
};

struct TurnFailure {
  engine::Error error;
  std::vector<WayOut> waysOut;
  QString typedText;  ///< what the person had sent; never lost
};

/// A message on the path from the root to the active leaf, as the chat shows it.
struct MessageRow {
  Message message;
  TurnMetrics metrics;
  int branchIndex = 0;  ///< place among its siblings, from 0
  int branchCount = 1;
  bool inContext = true;  ///< false: left out of the last prompt because the context was full
};

/// The check of a chat's cache that runs or ran last.
struct CacheProofState {
  bool running = false;
  engine::RequestId request = 0;
  int done = 0, total = 0;  ///< tokens of the cold prefill; 0 of 0: not told
  std::optional<engine::CacheProof> result;
  QString error;
  bool cancelled = false;
};

enum class TurnPhase { kIdle, kWaiting, kPrefilling, kAnswering };

/// One open conversation: the path of messages, and the turn that runs. Every change is in the
/// store before it is on screen (a streaming answer within half a second).
///
/// States of the turn: idle → waiting → prefilling → answering → idle; stop() and failures lead
/// back to idle from each. An empty or stopped answer never spoils later turns: empty ones are
/// left out of the prompt, and user messages that meet then are sent as one.
class ChatSession final : public QObject {
  Q_OBJECT
 public:
  /// Requires: `store`, `engine` and `settings` outlive it.
  ChatSession(ConversationStore& store, EngineClient& engine, Settings& settings,
              ConversationId conversation, QObject* parent = nullptr);
  ~ChatSession() override;  ///< stops a running turn and keeps what came of it

  const Conversation& conversation() const { return m_conversation; }
  const std::vector<MessageRow>& rows() const { return m_rows; }
  TurnPhase phase() const { return m_phase; }
  bool isRunning() const { return m_phase != TurnPhase::kIdle; }
  /// Figures of answers that are not on the path (other branches), newest last; at most 64.
  std::vector<TurnMetrics> turnsOffPath() const;
  /// Row of the answer that is being written, or −1.
  int streamingRow() const { return m_streamingRow; }
  /// The engine's id of the running turn; 0: none.
  engine::RequestId runningRequest() const { return m_request; }
  /// Of the turn that runs or ran last, for EngineClient::reportFirstPaint(): a short answer ends
  /// before it is painted. 0: none.
  engine::RequestId lastRequest() const { return m_lastRequest; }
  int prefillDone() const { return m_prefillDone; }
  int prefillTotal() const { return m_prefillTotal; }
  /// The last failure until the next turn starts.
  const std::optional<TurnFailure>& failure() const { return m_failure; }

  // What a person does. On an error nothing has changed, and the text stays with the caller.
  engine::Result<void> send(const QString& text);
  void stop();
  /// A new answer to the question of this answer (or to this question), as a new branch.
  engine::Result<void> regenerate(MessageId message);
  /// A question with another text, as a new branch with its own answer.
  engine::Result<void> edit(MessageId message, const QString& text);
  /// Shows the sibling `step` places further (−1, +1) with the newest path below it.
  engine::Result<void> selectBranch(MessageId message, int step);
  /// Shows the branch that the engine knows by this name (CacheOwner::branch): the path that leads
  /// to that message, and below it the first version of each.
  engine::Result<void> showBranch(const QString& name);
  /// Does what failure() offers; kNewConversation, kEditMessage and kLoadModel are the window's.
  engine::Result<void> resolve(WayOut way);

  engine::Result<void> setSystemPrompt(const QString& text);
  engine::Result<void> setSampling(const QJsonObject& sampling);
  /// None: as the settings say.
  engine::Result<void> setContextPolicy(std::optional<engine::ContextPolicy> policy);
  /// In force for the next turn: this chat's, or the settings'.
  engine::ContextPolicy contextPolicy() const;
  /// Whether a message stays in the prompt by ContextPolicy::kKeepPinned.
  engine::Result<void> setPinned(MessageId message, bool pinned);
  /// In force for the next turn: the program's defaults, the model's, the person's, this chat's.
  engine::SamplingParams sampling() const;

  /// What sending this text now would ask the engine; nothing is sent.
  TurnRequest nextTurn(const QString& text) const;
  /// What regenerating the last answer would ask.
  TurnRequest repeatedTurn() const;

  int contextUsed() const;   ///< tokens after the last turn; 0: not known
  int contextLimit() const;  ///< 0: no model
  /// What the engine knows the branch on screen by.
  QString branchName() const;
  /// Tokens of a text by the loaded model's tokenizer; 0 without a model.
  int countTokens(const QString& text) const;

  // Questions about the cache; nothing changes, and answers that run go on.

  /// What send(text) would reuse, compute and take: ends in forecastReady() or forecastFailed(),
  /// unless another text or a turn comes first. False where there is nothing to ask about.
  bool forecast(const QString& text);
  void dropForecast();
  /// Compares what is cached of the path on screen with a cold prefill.
  engine::Result<void> verifyCache();
  void cancelCacheProof();
  const CacheProofState& cacheProof() const { return m_proof; }
  double cacheProofSeconds() const;  ///< since it was started; 0: none runs

  /// Reads everything again (another program changed the file).
  void reload();

 signals:
  void pathReset();
  void messageAdded(int row);
  void messageChanged(int row);
  void conversationChanged();  ///< title, system prompt, settings
  void turnStarted(int promptTokens, int reusedTokens);
  /// `remainingMs` until the first token, by estimate; −1: not known.
  void prefillProgressed(int done, int total, double remainingMs);
  void tokensArrived(const std::vector<vitrine::engine::GeneratedToken>& tokens);
  void turnFinished(int row);
  void turnFailed(const vitrine::app::TurnFailure& failure);
  void phaseChanged(vitrine::app::TurnPhase phase);
  void contextUsage(int usedTokens, int limitTokens);
  void forecastReady(const vitrine::engine::Forecast& forecast);
  void forecastFailed(const vitrine::engine::Error& error);
  void cacheProofChanged();
  void storeFailed(const QString& message);  ///< a write failed: the disk is full, …

 private:
  engine::Result<void> canStart() const;
  engine::Result<void> ask(MessageId parent, const QString& text);
  engine::Result<void> answer(MessageId question);
  Message newAnswer(MessageId question) const;
  void beginTurn(bool pathChanges);
  void postRequest();
  void endTurn(MessageState state);
  void rebuildPath();
  void markDropped(const std::vector<std::vector<int>>& origins, const std::vector<int>& dropped,
                   bool notify);
  std::vector<Message> path() const;
  bool hasPins() const;
  std::vector<WayOut> waysOut(engine::ErrorCode code) const;
  void setPhase(TurnPhase phase);
  void saveProgress();
  void noteStoreFailure(const engine::Result<void>& written);
  engine::Result<void> showLeaf(MessageId leaf);
  void emitUsage();
  int rowOf(MessageId id) const;
  const Message* node(MessageId id) const;
  using Children = std::unordered_map<MessageId, std::vector<MessageId>>;
  Children childrenByParent() const;

  void onTurnStarted(quint64 id, int prompt, int reused, const std::vector<int>& dropped);
  void onPrefill(quint64 id, int done, int total, double remainingMs);
  void onTokens(quint64 id, const QString& text, const std::vector<engine::GeneratedToken>& tokens);
  void onFinished(quint64 id, const engine::TurnReport& report);
  void onFailed(quint64 id, const engine::Error& error);
  void onFirstPaint(quint64 id, double milliseconds);
  void onForecast(quint64 id, const engine::Forecast& forecast);
  void onCacheVerified(quint64 id, const engine::CacheProof& proof);
  bool isFailedQuestion(quint64 id, const engine::Error& error);
  void runOnCpu(MessageId failed);
  void onSwitched(quint64 id, bool done);

  ConversationStore& m_store;
  EngineClient& m_engine;
  Settings& m_settings;
  Conversation m_conversation;
  std::map<MessageId, Message> m_tree;            // all nodes
  std::vector<MessageRow> m_rows;                 // the path
  std::vector<std::vector<int>> m_promptOrigins;  // see PromptMessages::origins; last prompt

  // The turn that runs, or ran last.
  TurnPhase m_phase = TurnPhase::kIdle;
  engine::RequestId m_request = 0;  // 0: idle
  engine::RequestId m_lastRequest = 0;
  Message m_answer;
  TurnMetrics m_metrics;
  QElapsedTimer m_sinceSend;
  int m_streamingRow = -1;
  int m_promptTokens = 0, m_generatedTokens = 0;
  int m_prefillDone = 0, m_prefillTotal = 0;
  bool m_storeFailureShown = false;
  std::optional<TurnFailure> m_failure;
  engine::RequestId m_switchRequest = 0;  // of the switch after which m_repeated is asked again
  MessageId m_repeated = 0;
  engine::RequestId m_forecastRequest = 0;  // the latest; 0: none
  CacheProofState m_proof;
  mutable std::map<MessageId, TurnMetrics> m_offPath;  // figures read for turnsOffPath()
  QElapsedTimer m_proofClock;
  QTimer m_saveTimer{this};  // single shot, only while an answer has unsaved text
};

}  // namespace vitrine::app

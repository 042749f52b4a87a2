#include "app/chat/chat_session.h"

#include <algorithm>

#include "app/chat/engine_client.h"
#include "app/chat/prompt_messages.h"
#include "app/settings.h"
#include "app/store/conversation_store.h"
#include "app/text.h"

namespace vitrine::app {
namespace {

using namespace engine;

// What is on screen for a second must be in the file; this leaves room for a slow write.
constexpr int kSaveIntervalMs = 400;

}  // namespace

ChatSession::ChatSession(ConversationStore& store, EngineClient& engine, Settings& settings,
                         ConversationId conversation, QObject* parent)
    : QObject(parent), m_store(store), m_engine(engine), m_settings(settings) {
  m_conversation.id = conversation;
  m_saveTimer.setSingleShot(true);
  m_saveTimer.setInterval(kSaveIntervalMs);
  connect(&m_saveTimer, &QTimer::timeout, this, &ChatSession::saveProgress);
  connect(&m_engine, &EngineClient::turnStarted, this, &ChatSession::onTurnStarted);
  connect(&m_engine, &EngineClient::prefillProgressed, this, &ChatSession::onPrefill);
  connect(&m_engine, &EngineClient::tokensReady, this, &ChatSession::onTokens);
  connect(&m_engine, &EngineClient::turnFinished, this, &ChatSession::onFinished);
  connect(&m_engine, &EngineClient::turnFailed, this, &ChatSession::onFailed);
  connect(&m_engine, &EngineClient::forecastReady, this, &ChatSession::onForecast);
  connect(&m_engine, &EngineClient::cacheVerified, this, &ChatSession::onCacheVerified);
  connect(&m_engine, &EngineClient::firstPainted, this, &ChatSession::onFirstPaint);
  connect(&m_engine, &EngineClient::modelLoaded, this, &ChatSession::emitUsage);
  connect(&m_engine, &EngineClient::modelUnloaded, this, &ChatSession::emitUsage);
  connect(&m_engine, &EngineClient::modelLoaded, this,
          [this](quint64 id) { onSwitched(id, true); });
  connect(&m_engine, &EngineClient::loadFailed, this,
          [this](quint64 id) { onSwitched(id, false); });
  connect(&m_store, &ConversationStore::conversationChanged, this, [this](qint64 id) {
    if (id != m_conversation.id) return;
    if (auto fresh = m_store.conversation(id)) {
      m_conversation = *fresh;
      emit conversationChanged();
    }
  });
  reload();
}

ChatSession::~ChatSession() {
  m_engine.disconnect(this);
  m_store.disconnect(this);
  dropForecast();
  cancelCacheProof();
  if (!isRunning()) return;
  m_engine.cancel(m_request);
  m_answer.state = MessageState::kStopped;
  m_answer.metrics = toJson(m_metrics);
  (void)m_store.finish(m_answer);
}

// ---------------------------------------------------------------- what a person does

Result<void> ChatSession::canStart() const {
  if (isRunning()) {
    return fail(ErrorCode::kInvalidArgument,
                "an answer is being written in this chat; stop it or wait for its end");
  }
  if (!m_engine.info()) {
    return fail(ErrorCode::kNotFound, "{}",
                m_engine.isLoading() ? "the model is still loading; send again in a moment"
                                     : "no model is loaded; choose one first");
  }
  if (m_conversation.uuid.isEmpty()) {
    return fail(ErrorCode::kNotFound, "this conversation is no longer there");
  }
  return {};
}

Result<void> ChatSession::send(const QString& text) {
  m_sinceSend.start();
  VITRINE_TRY(canStart());
  return ask(m_rows.empty() ? 0 : m_rows.back().message.id, text);
}

Result<void> ChatSession::edit(MessageId id, const QString& text) {
  m_sinceSend.start();
  VITRINE_TRY(canStart());
  const Message* old = node(id);
  if (old == nullptr || old->role != Role::kUser) {
    return fail(ErrorCode::kInvalidArgument, "only a question of this chat can be edited");
  }
  return ask(old->parent, text);
}

Result<void> ChatSession::regenerate(MessageId id) {
  m_sinceSend.start();
  VITRINE_TRY(canStart());
  const Message* message = node(id);
  if (message == nullptr) {
    return fail(ErrorCode::kNotFound, "there is no such message in this chat");
  }
  if (message->role == Role::kUser) return answer(message->id);
  if (message->text.isEmpty() && message->tokenIds.empty()) {
    // Nothing came of it, so there is nothing to keep as a branch.
    Message again = newAnswer(message->parent);
    again.id = message->id;
    again.created = message->created;
    VITRINE_ASSIGN(m_answer, m_store.restart(std::move(again)));
    m_tree[m_answer.id] = m_answer;
    m_conversation.activeLeaf = m_answer.id;
    beginTurn(true);
    return {};
  }
  return answer(message->parent);
}

Result<void> ChatSession::ask(MessageId parent, const QString& text) {
  if (text.trimmed().isEmpty())
    return fail(ErrorCode::kInvalidArgument, "there is nothing to send");
  Message question;
  question.conversation = m_conversation.id;
  question.parent = parent;
  question.role = Role::kUser;
  question.text = text;
  const bool first = m_tree.empty();
  VITRINE_ASSIGN(auto turn, m_store.appendTurn(std::move(question), newAnswer(0)));
  if (first && m_conversation.titleIsAutomatic) {
    noteStoreFailure(m_store.setAutomaticTitle(m_conversation.id, titleFromText(text)));
  }
  const bool grows = parent == (m_rows.empty() ? 0 : m_rows.back().message.id);
  m_answer = turn.second;
  m_tree[turn.first.id] = turn.first;
  m_tree[turn.second.id] = turn.second;
  m_conversation.activeLeaf = m_answer.id;
  beginTurn(!grows);
  return {};
}

Result<void> ChatSession::answer(MessageId question) {
  VITRINE_ASSIGN(m_answer, m_store.append(newAnswer(question)));
  m_tree[m_answer.id] = m_answer;
  m_conversation.activeLeaf = m_answer.id;
  beginTurn(true);
  return {};
}

Message ChatSession::newAnswer(MessageId question) const {
  Message message;
  message.conversation = m_conversation.id;
  message.parent = question;
  message.role = Role::kAssistant;
  message.state = MessageState::kStreaming;
  if (const ModelInfoPtr info = m_engine.info()) {
    // Written at the start: if the program dies, the ids still have their vocabulary's name.
    message.model = toQString(info->name);
    message.metrics = {{QStringLiteral("model"), message.model},
                       {QStringLiteral("model_fingerprint"), toQString(info->fingerprint)}};
  }
  return message;
}

void ChatSession::stop() {
  if (isRunning()) m_engine.cancel(m_request);
}

Result<void> ChatSession::resolve(WayOut way) {
  VITRINE_TRY(canStart());
  const MessageId failed =
      m_answer.id != 0 || m_rows.empty() ? m_answer.id : m_rows.back().message.id;
  switch (way) {
    case WayOut::kRetry:
      break;
    case WayOut::kMergeSystemPrompt:
    case WayOut::kDropSystemPrompt:
      VITRINE_TRY(
          m_store.setSystemPromptUse(m_conversation.id, way == WayOut::kMergeSystemPrompt
                                                            ? SystemPromptUse::kMergeIntoFirstUser
                                                            : SystemPromptUse::kDrop));
      break;
    case WayOut::kDropOldestTurns:
      VITRINE_TRY(
          setContextPolicy(hasPins() ? ContextPolicy::kKeepPinned : ContextPolicy::kDropOldest));
      break;
    case WayOut::kRunOnCpu:
      runOnCpu(failed);
      return {};
    case WayOut::kNewConversation:
    case WayOut::kEditMessage:
    case WayOut::kLoadModel:
      return fail(ErrorCode::kInvalidArgument, "this is for the window to do");
  }
  return regenerate(failed);
}

/// For this run of the program: the next one may find the GPU well again.
void ChatSession::runOnCpu(MessageId failed) {
  EngineConfig config = m_engine.config();
  config.backend = BackendKind::kCpu;
  m_repeated = failed;
  m_switchRequest = m_engine.reconfigure(config);
}

void ChatSession::onSwitched(quint64 id, bool done) {
  if (id == 0 || id != m_switchRequest) return;
  m_switchRequest = 0;
  if (!done || isRunning()) return;
  const Result<void> again = regenerate(m_repeated);
  if (!again) emit storeFailed(toQString(again.error().message));
}

Result<void> ChatSession::setSystemPrompt(const QString& text) {
  return m_store.setSystemPrompt(m_conversation.id, text);
}

Result<void> ChatSession::setSampling(const QJsonObject& sampling) {
  return m_store.setSampling(m_conversation.id, sampling);
}

SamplingParams ChatSession::sampling() const {
  return samplingInForce(m_conversation, m_engine, m_settings);
}

// ---------------------------------------------------------------- the turn

// The answer is in the store; the engine starts, then the views hear of it.
void ChatSession::beginTurn(bool pathChanges) {
  std::vector<bool> wasInContext;
  for (const MessageRow& row : m_rows) wasInContext.push_back(row.inContext);
  rebuildPath();
  if (!pathChanges) {  // what is grey stays so until the engine says what it leaves out this time
    for (std::size_t i = 0; i < wasInContext.size() && i < m_rows.size(); ++i) {
      m_rows[i].inContext = wasInContext[i];
    }
  }
  postRequest();
  if (pathChanges) {
    emit pathReset();
  } else {
    for (std::size_t i = wasInContext.size(); i < m_rows.size(); ++i) {
      emit messageAdded(static_cast<int>(i));
    }
  }
  setPhase(TurnPhase::kWaiting);
}

void ChatSession::postRequest() {
  m_failure.reset();
  m_storeFailureShown = false;
  m_promptTokens = m_generatedTokens = m_prefillDone = m_prefillTotal = 0;
  dropForecast();
  TurnRequest turn = makeTurnRequest(m_conversation, path(), branchName(), m_engine, m_settings);
  m_metrics = {};
  m_metrics.sampling = toJson(turn.request.sampling);
  if (const ModelInfoPtr info = m_engine.info()) {
    m_metrics.model = toQString(info->name);
    m_metrics.modelFingerprint = toQString(info->fingerprint);
    m_metrics.quantization = toQString(info->quantization);
    m_metrics.contextTokens = info->contextTokens;
  }
  m_promptOrigins = std::move(turn.origins);
  m_metrics.beforeRequestMs = static_cast<double>(m_sinceSend.nsecsElapsed()) / 1e6;
  m_request = m_lastRequest = m_engine.generate(std::move(turn.request));
  m_streamingRow = rowOf(m_answer.id);
}

void ChatSession::onTurnStarted(quint64 id, int prompt, int reused,
                                const std::vector<int>& dropped) {
  if (id != m_request) return;
  m_promptTokens = prompt;
  m_prefillDone = reused;
  m_prefillTotal = prompt;
  if (m_streamingRow >= 0) markDropped(m_promptOrigins, dropped, true);
  setPhase(TurnPhase::kPrefilling);
  emit turnStarted(prompt, reused);
  emitUsage();
}

void ChatSession::onPrefill(quint64 id, int done, int total, double remainingMs) {
  if (m_proof.running && id == m_proof.request) {
    m_proof.done = done;
    m_proof.total = total;
    emit cacheProofChanged();
  }
  if (id != m_request) return;
  m_prefillDone = done;
  m_prefillTotal = total;
  emit prefillProgressed(done, total, remainingMs);
}

void ChatSession::onTokens(quint64 id, const QString& text,
                           const std::vector<GeneratedToken>& tokens) {
  if (id != m_request) return;
  m_answer.text += text;
  for (const GeneratedToken& token : tokens) m_answer.tokenIds.push_back(token.id);
  m_generatedTokens += static_cast<int>(tokens.size());
  if (!m_saveTimer.isActive()) m_saveTimer.start();
  setPhase(TurnPhase::kAnswering);
  if (m_streamingRow >= 0 && !text.isEmpty()) {
    m_rows[static_cast<std::size_t>(m_streamingRow)].message.text += text;
    emit messageChanged(m_streamingRow);
  }
  emit tokensArrived(tokens);
  emitUsage();
}

void ChatSession::onFinished(quint64 id, const TurnReport& report) {
  if (id != m_request) return;
  const bool cancelled = report.stopReason == StopReason::kCancelled;
  m_metrics.report = report;
  m_metrics.report.text.clear();
  m_metrics.report.tokenIds.clear();
  m_metrics.sampling.insert(QStringLiteral("seed"), QString::number(report.seed));
  const QString text = toQString(report.text);
  // The report is the whole answer; what is on screen is kept even where it says less.
  if (!cancelled || text.size() >= m_answer.text.size()) {
    m_answer.text = text;
    m_answer.tokenIds = report.tokenIds;
  }
  const int row = m_streamingRow;
  endTurn(cancelled ? MessageState::kStopped : MessageState::kComplete);
  emit turnFinished(row);
  emitUsage();
}

void ChatSession::onFailed(quint64 id, const Error& error) {
  if (isFailedQuestion(id, error) || id != m_request) return;
  if (error.code == ErrorCode::kCancelled) {
    const int row = m_streamingRow;
    endTurn(MessageState::kStopped);
    emit turnFinished(row);
    return;
  }
  m_answer.error = toQString(error.message);
  TurnFailure failure{error, waysOut(error.code), {}};
  if (const Message* question = node(m_answer.parent)) failure.typedText = question->text;
  m_failure = failure;
  endTurn(m_answer.text.isEmpty() ? MessageState::kFailed : MessageState::kStopped);
  emit turnFailed(failure);
  emitUsage();
}

std::vector<WayOut> ChatSession::waysOut(ErrorCode code) const {
  std::vector<WayOut> ways;
  const bool systemSent = !m_conversation.systemPrompt.isEmpty() &&
                          m_conversation.systemPromptUse == SystemPromptUse::kAsSystem;
  switch (code) {
    case ErrorCode::kTemplate:
      if (systemSent) ways = {WayOut::kMergeSystemPrompt, WayOut::kDropSystemPrompt};
      ways.insert(ways.end(), {WayOut::kEditMessage, WayOut::kNewConversation});
      break;
    case ErrorCode::kContextFull:
      ways = {WayOut::kNewConversation};
      if (m_rows.size() > 2 && contextPolicy() == ContextPolicy::kStop) {
        ways.push_back(WayOut::kDropOldestTurns);
      }
      ways.push_back(WayOut::kEditMessage);
      break;
    case ErrorCode::kOutOfMemory:
      ways = {WayOut::kRetry, WayOut::kNewConversation};
      break;
    case ErrorCode::kDeviceLost:
      ways = {WayOut::kRunOnCpu, WayOut::kEditMessage};
      break;
    case ErrorCode::kNotFound:
      ways = {WayOut::kLoadModel, WayOut::kRetry};
      break;
    default:
      ways = {WayOut::kRetry, WayOut::kEditMessage};
      break;
  }
  return ways;
}

// Stores the answer as it is and goes back to idle.
void ChatSession::endTurn(MessageState state) {
  m_saveTimer.stop();
  m_answer.state = state;
  m_answer.metrics = toJson(m_metrics);
  m_tree[m_answer.id] = m_answer;
  m_request = 0;
  noteStoreFailure(m_store.finish(m_answer));
  const int row = m_streamingRow;
  m_streamingRow = -1;
  if (row >= 0) {
    MessageRow& shown = m_rows[static_cast<std::size_t>(row)];
    shown.message = m_answer;
    shown.metrics = m_metrics;
    emit messageChanged(row);
  }
  setPhase(TurnPhase::kIdle);
}

void ChatSession::onFirstPaint(quint64 id, double milliseconds) {
  if (id != m_lastRequest) return;
  // The store's write comes before the engine's clock starts; the person waits for both.
  m_metrics.firstPaintMs = milliseconds + m_metrics.beforeRequestMs;
  if (isRunning()) return;  // stored with the rest at the end
  m_answer.metrics = toJson(m_metrics);
  m_tree[m_answer.id].metrics = m_answer.metrics;
  noteStoreFailure(m_store.setMetrics(m_answer.id, m_answer.metrics));
  if (const int row = rowOf(m_answer.id); row >= 0) {
    m_rows[static_cast<std::size_t>(row)].metrics = m_metrics;
    emit messageChanged(row);
  }
}

void ChatSession::saveProgress() {
  if (isRunning()) noteStoreFailure(m_store.saveProgress(m_answer));
}

void ChatSession::noteStoreFailure(const Result<void>& written) {
  if (written || m_storeFailureShown) return;
  m_storeFailureShown = true;  // once a turn
  emit storeFailed(toQString(written.error().message));
}

void ChatSession::setPhase(TurnPhase phase) {
  if (phase == m_phase) return;
  m_phase = phase;
  emit phaseChanged(phase);
}

}  // namespace vitrine::app

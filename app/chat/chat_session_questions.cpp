// What a session asks the engine about its cache without changing anything: what the next turn
// would cost, and whether what is cached equals what would be computed.
#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/text.h"

namespace vitrine::app {

using namespace engine;

bool ChatSession::forecast(const QString& text) {
  dropForecast();
  if (isRunning() || !m_engine.info() || text.trimmed().isEmpty()) return false;
  m_forecastRequest = m_engine.forecast(nextTurn(text).request);
  return true;
}

void ChatSession::dropForecast() {
  if (m_forecastRequest != 0) m_engine.cancel(m_forecastRequest);
  m_forecastRequest = 0;
}

void ChatSession::onForecast(quint64 id, const Forecast& forecast) {
  if (id != m_forecastRequest) return;  // of an older text
  m_forecastRequest = 0;
  emit forecastReady(forecast);
}

// ---------------------------------------------------------------- cache proof

Result<void> ChatSession::verifyCache() {
  VITRINE_TRY(canStart());
  if (m_proof.running) {
    return fail(ErrorCode::kInvalidArgument, "the cache of this chat is being checked already");
  }
  // All that was said, the last answer included: the prompt that the next turn would begin with.
  std::vector<Message> messages = path();
  const bool answered = !messages.empty() && messages.back().role == Role::kAssistant &&
                        !messages.back().text.trimmed().isEmpty();
  if (answered) {
    Message next;
    next.role = Role::kUser;
    messages.push_back(std::move(next));
  }
  GenerateRequest request =
      makeTurnRequest(m_conversation, messages, branchName(), m_engine, m_settings).request;
  auto& prompt = std::get<ChatPrompt>(request.prompt).messages;
  if (answered) prompt.pop_back();
  if (prompt.empty()) {
    return fail(ErrorCode::kNotFound, "nothing was said in this chat yet; there is no cache of it");
  }
  m_proof = {};
  m_proof.running = true;
  m_proofClock.start();
  m_proof.request = m_engine.verifyCache(std::move(request));
  emit cacheProofChanged();
  return {};
}

void ChatSession::cancelCacheProof() {
  if (m_proof.running) m_engine.cancel(m_proof.request);
}

double ChatSession::cacheProofSeconds() const {
  return m_proof.running ? static_cast<double>(m_proofClock.elapsed()) / 1000.0 : 0;
}

void ChatSession::onCacheVerified(quint64 id, const CacheProof& proof) {
  if (!m_proof.running || id != m_proof.request) return;
  m_proof.running = false;
  m_proof.result = proof;
  emit cacheProofChanged();
}

// True for a failure of a question: it is no turn's.
bool ChatSession::isFailedQuestion(quint64 id, const Error& error) {
  if (m_forecastRequest != 0 && id == m_forecastRequest) {
    m_forecastRequest = 0;
    emit forecastFailed(error);
    return true;
  }
  if (m_proof.running && id == m_proof.request) {
    m_proof.running = false;
    if (error.code != ErrorCode::kCancelled) m_proof.error = toQString(error.message);
    m_proof.cancelled = error.code == ErrorCode::kCancelled;
    emit cacheProofChanged();
    return true;
  }
  return false;
}

}  // namespace vitrine::app

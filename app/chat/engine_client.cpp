#include "app/chat/engine_client.h"

#include <type_traits>
#include <utility>

#include "app/text.h"

namespace vitrine::app {
namespace {

using namespace engine;

constexpr int kFrameMs = 16;
// Turns that nobody paints (of a chat in the background) must not pile up.
constexpr std::size_t kMaxUnpainted = 64;

template <typename T>
T* lastOfTurn(std::vector<Event>& events, RequestId id) {
  if (events.empty()) return nullptr;
  T* last = std::get_if<T>(&events.back());
  return last != nullptr && last->id == id ? last : nullptr;
}

}  // namespace

EngineClient::EngineClient(QObject* parent) : QObject(parent) {
  m_frame.setSingleShot(true);
  m_frame.setTimerType(Qt::PreciseTimer);
  connect(&m_frame, &QTimer::timeout, this, &EngineClient::deliver);
  m_engine = std::make_unique<Engine>([this](const Event& event) { receive(event); });
}

EngineClient::~EngineClient() {
  // Joins the engine's thread: no receive() after it. Deliveries that were posted die with us.
  m_engine.reset();
}

// ---------------------------------------------------------------- commands

RequestId EngineClient::load(const std::filesystem::path& path, const EngineConfig& config) {
  m_config = config;
  const RequestId id = m_engine->load(path, config);
  setLoading(id);
  emit loadStarted(id);
  return id;
}

RequestId EngineClient::reconfigure(const EngineConfig& config) {
  m_config = config;
  const RequestId id = m_engine->reconfigure(config);
  setLoading(id);
  emit loadStarted(id);
  return id;
}

void EngineClient::unload() {
  m_engine->unload();
}

RequestId EngineClient::generate(GenerateRequest request) {
  std::vector<GenerateRequest> one;
  one.push_back(std::move(request));
  return generateTogether(std::move(one)).front();
}

std::vector<RequestId> EngineClient::generateTogether(std::vector<GenerateRequest> requests) {
  QElapsedTimer clock;
  clock.start();
  const std::vector<RequestId> ids = m_engine->generateTogether(std::move(requests));
  for (const RequestId id : ids) {
    m_turns.insert(id);
    while (m_unpainted.size() >= kMaxUnpainted) m_unpainted.erase(m_unpainted.begin());
    m_unpainted.emplace(id, clock);
  }
  noteBusy();
  return ids;
}

RequestId EngineClient::forecast(GenerateRequest request) {
  return m_engine->forecast(std::move(request));
}

RequestId EngineClient::verifyCache(GenerateRequest request) {
  return m_engine->verifyCache(std::move(request));
}

void EngineClient::cancel(RequestId id) {
  m_engine->cancel(id);
}

void EngineClient::cancelLoad() {
  if (m_loading != 0) m_engine->cancel(m_loading);
}

RequestId EngineClient::inspectBlock(BlockId block) {
  return m_engine->inspectBlock(block);
}

void EngineClient::forget(const QString& conversation) {
  m_engine->forget(toUtf8(conversation));
}

void EngineClient::release(const QString& conversation) {
  m_engine->release(toUtf8(conversation));
}

void EngineClient::clearCache() {
  m_engine->clearCache();
}

void EngineClient::clearArchive() {
  m_engine->clearArchive();
}

std::shared_ptr<const EngineSnapshot> EngineClient::snapshot() const {
  return m_engine->snapshot();
}

std::shared_ptr<const Model> EngineClient::model() const {
  return m_engine->model();
}

void EngineClient::reportFirstPaint(RequestId id) {
  const auto turn = m_unpainted.find(id);
  if (turn == m_unpainted.end()) return;
  const double milliseconds = static_cast<double>(turn->second.nsecsElapsed()) / 1e6;
  m_unpainted.erase(turn);
  emit firstPainted(id, milliseconds);
}

// ---------------------------------------------------------------- events

// On the engine's thread. Follow-ups of the same turn grow the event that waits.
void EngineClient::receive(const Event& event) {
  m_router.deliver(event);
  const std::lock_guard lock(m_mutex);
  if (const auto* tokens = std::get_if<TokensReady>(&event)) {
    if (auto* last = lastOfTurn<TokensReady>(m_waiting, tokens->id)) {
      last->text += tokens->text;
      last->tokens.insert(last->tokens.end(), tokens->tokens.begin(), tokens->tokens.end());
      return;
    }
  } else if (const auto* prefill = std::get_if<PrefillProgressed>(&event)) {
    if (auto* last = lastOfTurn<PrefillProgressed>(m_waiting, prefill->id)) {
      *last = *prefill;
      return;
    }
  } else if (const auto* load = std::get_if<LoadProgressed>(&event)) {
    if (auto* last = lastOfTurn<LoadProgressed>(m_waiting, load->id)) {
      *last = *load;
      return;
    }
  }
  m_waiting.push_back(event);
  if (!m_deliveryDue) {
    m_deliveryDue = true;
    m_mailbox.post([this] { scheduleDelivery(); });
  }
}

// Now, unless the last batch was less than a frame ago.
void EngineClient::scheduleDelivery() {
  const qint64 since = m_lastFrame.isValid() ? m_lastFrame.elapsed() : kFrameMs;
  if (since >= kFrameMs) {
    deliver();
  } else {
    m_frame.start(static_cast<int>(kFrameMs - since));
  }
}

void EngineClient::deliver() {
  std::vector<Event> events;
  {
    const std::lock_guard lock(m_mutex);
    events.swap(m_waiting);
    m_deliveryDue = false;
  }
  m_lastFrame.start();

  // Several turns at once interleave their tokens: one signal a turn, at its first place.
  std::vector<Event> merged;
  merged.reserve(events.size());
  std::map<RequestId, std::size_t> tokensAt;
  for (Event& event : events) {
    if (auto* tokens = std::get_if<TokensReady>(&event)) {
      const auto [at, isNew] = tokensAt.emplace(tokens->id, merged.size());
      if (!isNew) {
        auto& first = std::get<TokensReady>(merged[at->second]);
        first.text += tokens->text;
        first.tokens.insert(first.tokens.end(), tokens->tokens.begin(), tokens->tokens.end());
        continue;
      }
    }
    merged.push_back(std::move(event));
  }
  for (Event& event : merged) m_batch.push_back(std::move(event));
  // A slot may run an event loop of its own (a dialog): a delivery inside it goes on from here in
  // order, and leaves nothing for this loop.
  while (!m_batch.empty()) {
    const Event event = std::move(m_batch.front());
    m_batch.pop_front();
    dispatch(event);
  }
}

void EngineClient::dispatch(const Event& event) {
  std::visit(
      [this](const auto& e) {
        using T = std::decay_t<decltype(e)>;
        if constexpr (std::is_same_v<T, LoadProgressed>) {
          emit loadProgressed(e.id, toQString(e.stage), e.fraction);
        } else if constexpr (std::is_same_v<T, ModelLoaded>) {
          m_info = e.info;
          m_runningConfig = e.info ? e.info->running : m_config;
          if (e.id == m_loading) setLoading(0);
          emit modelLoaded(e.id, m_info);
        } else if constexpr (std::is_same_v<T, ModelUnloaded>) {
          m_info.reset();
          emit modelUnloaded();
        } else if constexpr (std::is_same_v<T, LoadFailed>) {
          if (!e.kept) m_info.reset();
          if (e.id == m_loading) {
            if (m_info) m_config = m_runningConfig;
            setLoading(0);
          }
          emit loadFailed(e.id, e.error, e.kept);
        } else if constexpr (std::is_same_v<T, TurnStarted>) {
          m_turns.insert(e.id);  // of the API server, too
          noteBusy();
          emit turnStarted(e.id, e.promptTokens, e.reusedTokens, e.dropped);
        } else if constexpr (std::is_same_v<T, PrefillProgressed>) {
          emit prefillProgressed(e.id, e.done, e.total, e.remainingMs);
        } else if constexpr (std::is_same_v<T, TokensReady>) {
          emit tokensReady(e.id, toQString(e.text), e.tokens);
        } else if constexpr (std::is_same_v<T, ForecastReady>) {
          emit forecastReady(e.id, e.forecast);
        } else if constexpr (std::is_same_v<T, CacheVerified>) {
          emit cacheVerified(e.id, e.proof);
        } else if constexpr (std::is_same_v<T, BlockInspected>) {
          emit blockInspected(e.id, e.content);
        } else if constexpr (std::is_same_v<T, TurnFinished>) {
          emit turnFinished(e.id, e.report);
          m_turns.erase(e.id);
          noteBusy();
        } else {
          emit turnFailed(e.id, e.error);
          m_turns.erase(e.id);
          noteBusy();
        }
      },
      event);
}

void EngineClient::setLoading(RequestId id) {
  m_loading = id;
  noteBusy();
}

void EngineClient::noteBusy() {
  const bool busy = isBusy();
  if (busy == m_wasBusy) return;
  m_wasBusy = busy;
  emit busyChanged(busy);
}

}  // namespace vitrine::app

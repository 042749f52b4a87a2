#include "app/server/event_router.h"

#include <algorithm>

namespace vitrine::app {
namespace {

using engine::Event;
using engine::RequestId;

bool isEnd(const Event& event) {
  return std::holds_alternative<engine::TurnFinished>(event) ||
         std::holds_alternative<engine::TurnFailed>(event);
}

bool isOfTurn(const Event& event) {
  return isEnd(event) || std::holds_alternative<engine::TurnStarted>(event) ||
         std::holds_alternative<engine::PrefillProgressed>(event) ||
         std::holds_alternative<engine::TokensReady>(event);
}

RequestId idOf(const Event& event) {
  return std::visit([](const auto& e) { return e.id; }, event);
}

}  // namespace

TurnStream::~TurnStream() {
  if (!m_ended) m_engine.cancel(m_id);
}

std::optional<Event> TurnStream::next(std::chrono::milliseconds timeout) {
  std::unique_lock lock(m_mutex);
  if (!m_arrived.wait_for(lock, timeout, [&] { return !m_events.empty(); })) return std::nullopt;
  Event event = std::move(m_events.front());
  m_events.pop_front();
  return event;
}

void TurnStream::push(const Event& event) {
  {
    const std::lock_guard lock(m_mutex);
    m_events.push_back(event);
    m_ended |= isEnd(event);
  }
  m_arrived.notify_one();
}

void EventRouter::Histogram::add(double value) {
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
  ++counts[static_cast<std::size_t>(bucket)];
  sum += value;
}

void EventRouter::deliver(const Event& event) {
  std::shared_ptr<TurnStream> stream;  // released after the lock
  const std::lock_guard lock(m_mutex);
  if (const auto* loaded = std::get_if<engine::ModelLoaded>(&event)) m_info = loaded->info;
  if (std::holds_alternative<engine::ModelUnloaded>(event)) m_info = nullptr;
  if (!isOfTurn(event)) return;
  count(event);
  const auto found = m_streams.find(idOf(event));
  if (found == m_streams.end()) {
    if (m_starting > 0) m_early.push_back(event);
    return;
  }
  stream = found->second.lock();
  if (isEnd(event)) m_streams.erase(found);
  if (stream) stream->push(event);
}

std::shared_ptr<TurnStream> EventRouter::start(engine::Engine& engine,
                                               engine::GenerateRequest request) {
  {
    const std::lock_guard lock(m_mutex);
    ++m_starting;
  }
  // Without the lock: the engine may be delivering right now.
  const RequestId id = engine.generate(std::move(request));
  auto stream = std::make_shared<TurnStream>(engine, id);
  const std::lock_guard lock(m_mutex);
  bool ended = false;
  for (const Event& event : m_early) {
    if (idOf(event) != id) continue;
    stream->push(event);
    ended |= isEnd(event);
  }
  if (--m_starting == 0) m_early.clear();
  if (!ended) m_streams[id] = stream;
  return stream;
}

std::shared_ptr<const engine::ModelInfo> EventRouter::modelInfo() const {
  const std::lock_guard lock(m_mutex);
  return m_info;
}

EventRouter::Totals EventRouter::totals() const {
  const std::lock_guard lock(m_mutex);
  return m_totals;
}

void EventRouter::count(const Event& event) {
  // A turn that is stopped finishes; what fails by being stopped was a question about the cache.
  const auto* failed = std::get_if<engine::TurnFailed>(&event);
  if (failed != nullptr && failed->error.code != engine::ErrorCode::kCancelled) ++m_totals.failed;
  const auto* finished = std::get_if<engine::TurnFinished>(&event);
  if (finished == nullptr) return;
  const engine::TurnReport& report = finished->report;
  ++m_totals.finished[finishReason(report.stopReason)];
  if (report.generatedTokens == 0) return;
  m_totals.ttft.add(report.ttftMs / 1e3);
  if (report.generatedTokens > 1) m_totals.tpot.add(report.tpotMs / 1e3);
  m_totals.endToEnd.add((report.ttftMs + report.tpotMs * (report.generatedTokens - 1)) / 1e3);
}

const char* finishReason(engine::StopReason reason) {
  switch (reason) {
    case engine::StopReason::kEnd:
    case engine::StopReason::kStopText:
      return "stop";
    case engine::StopReason::kLength:
    case engine::StopReason::kContext:
      return "length";
    case engine::StopReason::kCancelled:
      return "abort";
  }
  return "stop";
}

}  // namespace vitrine::app

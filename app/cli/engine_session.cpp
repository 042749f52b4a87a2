#include "app/cli/engine_session.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>
#include <utility>

#include "engine/backend/gpu.h"

namespace vitrine::app::cli {

using engine::Event;
using engine::RequestId;
using engine::Result;

namespace {

std::atomic<int> g_interrupts{0};  // a signal handler can reach nothing but a global

void onInterrupt(int) {
  if (g_interrupts.fetch_add(1) > 0) _exit(130);
}

RequestId idOf(const Event& event) {
  return std::visit([](const auto& e) { return e.id; }, event);
}

}  // namespace

EngineSession::EngineSession(engine::EventListener tap)
    : m_tap(std::move(tap)), m_engine(std::make_unique<engine::Engine>([this](const Event& event) {
        if (m_tap) m_tap(event);
        const std::lock_guard lock(m_mutex);
        m_lastEvent = std::chrono::steady_clock::now();
        if (!m_waiting) return;
        m_events.push_back(event);
        m_arrived.notify_one();
      })) {
  std::signal(SIGINT, onInterrupt);
}

EngineSession::~EngineSession() {
  std::signal(SIGINT, SIG_DFL);
}

void EngineSession::beginWait() {
  g_interrupts = 0;
  const std::lock_guard lock(m_mutex);
  m_waiting = true;
}

void EngineSession::endWait() {
  const std::lock_guard lock(m_mutex);
  m_waiting = false;
  m_events.clear();
}

// The next event of this request; others are of requests nobody waits for any more.
Event EngineSession::next(RequestId id) {
  bool cancelled = false;
  std::unique_lock lock(m_mutex);
  while (true) {
    while (!m_events.empty()) {
      Event event = std::move(m_events.front());
      m_events.pop_front();
      if (idOf(event) == id) return event;
    }
    // A signal cannot notify a condition variable, so look ten times a second while waiting.
    m_arrived.wait_for(lock, std::chrono::milliseconds(100));
    if (g_interrupts.load() > 0 && !cancelled) {
      cancelled = true;
      m_engine->cancel(id);
    }
  }
}

Result<std::shared_ptr<const engine::ModelInfo>> EngineSession::load(
    const std::string& path, const engine::EngineConfig& config) {
  beginWait();
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const RequestId id = m_engine->load(path, config);
  const auto clearLine = [&] {
    if (terminal) std::fputs("\r\033[K", stderr);
  };
  while (true) {
    Event event = next(id);
    if (auto* progress = std::get_if<engine::LoadProgressed>(&event)) {
      if (terminal) {
        std::fprintf(stderr, "\r\033[K%s %3.0f %%", progress->stage.c_str(),
                     progress->fraction * 100);
      }
    } else if (auto* loaded = std::get_if<engine::ModelLoaded>(&event)) {
      clearLine();
      for (const auto& warning : loaded->info->warnings) {
        std::fprintf(stderr, "warning: %s\n", warning.c_str());
      }
      if (engine::shouldTellWhyNoGpu(loaded->info->backend)) {
        std::fprintf(stderr, "running on the CPU: %s\n", loaded->info->backend.note.c_str());
      }
      endWait();
      return loaded->info;
    } else if (auto* failed = std::get_if<engine::LoadFailed>(&event)) {
      clearLine();
      endWait();
      return tl::unexpected(failed->error);
    }
  }
}

std::shared_ptr<const engine::EngineSnapshot> EngineSession::idleSnapshot() const {
  // The engine tells of a turn's end first and describes what is left then; that takes a moment.
  constexpr auto kLongest = std::chrono::milliseconds(500);
  std::unique_lock lock(m_mutex);
  const auto ended = m_lastEvent;
  lock.unlock();
  const auto asked = std::chrono::steady_clock::now();
  auto snapshot = m_engine->snapshot();
  while (snapshot->time < ended && std::chrono::steady_clock::now() - asked < kLongest) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    snapshot = m_engine->snapshot();
  }
  return snapshot;
}

Result<engine::TurnReport> EngineSession::generate(engine::GenerateRequest request,
                                                   const OnText& onText) {
  beginWait();
  const RequestId id = m_engine->generate(std::move(request));
  while (true) {
    Event event = next(id);
    if (auto* ready = std::get_if<engine::TokensReady>(&event)) {
      if (onText && !ready->text.empty()) onText(ready->text);
    } else if (auto* finished = std::get_if<engine::TurnFinished>(&event)) {
      endWait();
      return std::move(finished->report);
    } else if (auto* failed = std::get_if<engine::TurnFailed>(&event)) {
      endWait();
      return tl::unexpected(failed->error);
    }
  }
}

Result<engine::CacheProof> EngineSession::verify(engine::GenerateRequest request) {
  beginWait();
  const RequestId id = m_engine->verifyCache(std::move(request));
  const Event event = next(id);  // the only one
  endWait();
  if (const auto* failed = std::get_if<engine::TurnFailed>(&event)) {
    return tl::unexpected(failed->error);
  }
  return std::get<engine::CacheVerified>(event).proof;
}

}  // namespace vitrine::app::cli

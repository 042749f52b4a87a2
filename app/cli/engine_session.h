#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "engine/engine.h"

namespace vitrine::app::cli {

/// The engine for a program that waits: one load or one turn at a time, from one thread.
/// Ctrl+C cancels what is awaited (a second one ends the program).
class EngineSession {
 public:
  /// `tap` also gets every event, on the engine's thread.
  explicit EngineSession(engine::EventListener tap = {});
  ~EngineSession();

  /// Loads a model and waits; progress goes to standard error when that is a terminal.
  engine::Result<std::shared_ptr<const engine::ModelInfo>> load(const std::string& path,
                                                                const engine::EngineConfig& config);

  using OnText = std::function<void(const std::string& text)>;
  /// Runs one turn and waits; `onText` gets the pieces as they come.
  engine::Result<engine::TurnReport> generate(engine::GenerateRequest request,
                                              const OnText& onText = {});

  /// Compares what is cached of the request's prompt with a cold prefill.
  engine::Result<engine::CacheProof> verify(engine::GenerateRequest request);
  /// The state once the engine has noticed that nothing runs any more.
  std::shared_ptr<const engine::EngineSnapshot> idleSnapshot() const;

  engine::Engine& engine() { return *m_engine; }

 private:
  void beginWait();
  engine::Event next(engine::RequestId id);
  void endWait();

  engine::EventListener m_tap;
  mutable std::mutex m_mutex;
  std::condition_variable m_arrived;
  std::deque<engine::Event> m_events;                   // guarded by m_mutex
  std::chrono::steady_clock::time_point m_lastEvent{};  // guarded by m_mutex
  bool m_waiting = false;  // guarded by m_mutex; events are kept only while it is set
  std::unique_ptr<engine::Engine> m_engine;  // last: its thread uses the members above
};

}  // namespace vitrine::app::cli

#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "engine/engine.h"

namespace vitrine::app::lab {

/// An engine of the lab's own, for a thread that waits: the person's chats and their cache stay
/// untouched. Used by one thread; destroying it stops what runs within one step.
class LabEngine final {
 public:
  /// Loads a model and waits. `config` is used without its archive: nothing of the lab goes to
  /// disk. kCancelled when `stop` is requested meanwhile.
  static engine::Result<std::unique_ptr<LabEngine>> open(const std::filesystem::path& model,
                                                         engine::EngineConfig config,
                                                         std::stop_token stop);
  ~LabEngine();

  /// Changes how it runs, and waits.
  engine::Result<void> reconfigure(engine::EngineConfig config);
  const engine::ModelInfo& info() const { return *m_info; }

  engine::RequestId generate(engine::GenerateRequest request);
  void cancel(engine::RequestId id) { m_engine->cancel(id); }
  /// The next event of any request; nothing if none came in time.
  std::optional<engine::Event> next(std::chrono::nanoseconds longest);
  std::shared_ptr<const engine::EngineSnapshot> snapshot() const { return m_engine->snapshot(); }

 private:
  explicit LabEngine(std::stop_token stop);
  engine::Result<void> awaitLoad(engine::RequestId id);

  std::stop_token m_stop;
  std::mutex m_mutex;
  std::condition_variable m_arrived;
  std::deque<engine::Event> m_events;  // guarded by m_mutex
  std::shared_ptr<const engine::ModelInfo> m_info;
  std::unique_ptr<engine::Engine> m_engine;  // last: its thread uses the members above
};

}  // namespace vitrine::app::lab

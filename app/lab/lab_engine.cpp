#include "app/lab/lab_engine.h"

#include <utility>

namespace vitrine::app::lab {

using engine::ErrorCode;
using engine::Event;
using engine::fail;
using engine::Result;

LabEngine::LabEngine(std::stop_token stop)
    : m_stop(std::move(stop)),
      m_engine(std::make_unique<engine::Engine>([this](const Event& event) {
        const std::lock_guard lock(m_mutex);
        m_events.push_back(event);
        m_arrived.notify_one();
      })) {}

LabEngine::~LabEngine() = default;

Result<std::unique_ptr<LabEngine>> LabEngine::open(const std::filesystem::path& model,
                                                   engine::EngineConfig config,
                                                   std::stop_token stop) {
  std::unique_ptr<LabEngine> lab(new LabEngine(std::move(stop)));
  config.archive.folder.clear();
  VITRINE_TRY(lab->awaitLoad(lab->m_engine->load(model, config)));
  return lab;
}

Result<void> LabEngine::reconfigure(engine::EngineConfig config) {
  config.archive.folder.clear();
  return awaitLoad(m_engine->reconfigure(config));
}

Result<void> LabEngine::awaitLoad(engine::RequestId id) {
  bool cancelled = false;
  while (true) {
    if (m_stop.stop_requested() && !std::exchange(cancelled, true)) m_engine->cancel(id);
    const auto event = next(std::chrono::milliseconds(50));
    if (!event) continue;
    if (const auto* loaded = std::get_if<engine::ModelLoaded>(&*event);
        loaded && loaded->id == id) {
      m_info = loaded->info;
      if (cancelled) return fail(ErrorCode::kCancelled, "the lab was stopped");
      return {};
    }
    if (const auto* failed = std::get_if<engine::LoadFailed>(&*event); failed && failed->id == id) {
      return tl::unexpected(failed->error);
    }
  }
}

engine::RequestId LabEngine::generate(engine::GenerateRequest request) {
  return m_engine->generate(std::move(request));
}

std::optional<Event> LabEngine::next(std::chrono::nanoseconds longest) {
  std::unique_lock lock(m_mutex);
  if (!m_arrived.wait_for(lock, longest, [this] { return !m_events.empty(); })) return {};
  Event event = std::move(m_events.front());
  m_events.pop_front();
  return event;
}

}  // namespace vitrine::app::lab

#include "engine/schedule/engine_loop.h"

#include <algorithm>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "engine/measure/machine.h"
#include "engine/schedule/prompt_builder.h"
#include "engine/schedule/warm_up.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::engine {

using Clock = Turn::Clock;

EngineLoop::EngineLoop(EventListener listener) : m_listener(std::move(listener)) {
  auto empty = std::make_shared<EngineSnapshot>();
  empty->time = Clock::now();
  m_snapshot = std::move(empty);
  m_loader = std::make_unique<Worker>();
  m_prompts = std::make_unique<Worker>();
  m_thread = std::thread([this] { run(); });
}

EngineLoop::~EngineLoop() {
  {
    const std::lock_guard lock(m_mutex);
    m_quit = true;
    for (auto& [id, stop] : m_stops) stop.request_stop();
  }
  m_wake.notify_one();
  m_thread.join();
  // The engine's thread has let go of a change that was waiting, so the loader is not held up.
  m_loader.reset();
  m_prompts.reset();
}

// ---------------------------------------------------------------- commands, any thread

RequestId EngineLoop::newRequest(std::stop_token& stop) {
  const RequestId id = m_nextId.fetch_add(1);
  const std::lock_guard lock(m_mutex);
  stop = m_stops[id].get_token();
  return id;
}

void EngineLoop::post(Command command) {
  {
    const std::lock_guard lock(m_mutex);
    if (m_quit) return;  // nobody will take it; a load that waits for its promise goes on
    m_commands.push_back(std::move(command));
  }
  m_wake.notify_one();
}

RequestId EngineLoop::load(std::filesystem::path path, EngineConfig config) {
  return startLoad(true, std::move(path), std::move(config));
}

RequestId EngineLoop::reconfigure(EngineConfig config) {
  return startLoad(false, {}, std::move(config));
}

RequestId EngineLoop::startLoad(bool isNewModel, std::filesystem::path path, EngineConfig config) {
  std::stop_token stop;
  const RequestId id = newRequest(stop);
  {
    const std::lock_guard lock(m_mutex);
    for (const PendingLoad& earlier : m_loads) {
      // A change of settings does not stop the load of the model that it is meant for.
      if (!isNewModel && earlier.isNewModel) continue;
      if (const auto found = m_stops.find(earlier.id); found != m_stops.end()) {
        found->second.request_stop();
      }
    }
    m_loads.push_back(PendingLoad{id, isNewModel});
    m_commands.push_back(Wake{});
  }
  m_wake.notify_one();
  m_loader->post([this, id, isNewModel, path = std::move(path), config = std::move(config), stop] {
    runLoad(id, isNewModel, path, config, stop);
  });
  return id;
}

void EngineLoop::unload() {
  std::stop_token stop;
  const RequestId id = newRequest(stop);
  {
    const std::lock_guard lock(m_mutex);
    for (const PendingLoad& earlier : m_loads) {
      if (const auto found = m_stops.find(earlier.id); found != m_stops.end()) {
        found->second.request_stop();
      }
    }
  }
  post(Unload{id});
}

void EngineLoop::cancel(RequestId id) {
  {
    const std::lock_guard lock(m_mutex);
    const auto found = m_stops.find(id);
    if (found == m_stops.end()) return;
    found->second.request_stop();
    m_commands.push_back(Wake{});
  }
  m_wake.notify_one();
}

RequestId EngineLoop::inspectBlock(BlockId block) {
  std::stop_token stop;
  const RequestId id = newRequest(stop);
  post(InspectBlock{id, block, std::move(stop)});
  return id;
}

void EngineLoop::forget(std::string conversation, bool onDisk) {
  post(Forget{std::move(conversation), onDisk});
}

void EngineLoop::clearArchive() {
  post(ClearArchive{});
}

void EngineLoop::clearCache() {
  post(ClearCache{});
}

std::shared_ptr<const EngineSnapshot> EngineLoop::snapshot() const {
  const std::lock_guard lock(m_mutex);
  return m_snapshot;
}

std::shared_ptr<const Model> EngineLoop::model() const {
  const std::lock_guard lock(m_mutex);
  return m_sharedModel;
}

// ---------------------------------------------------------------- loading thread

/// Reports a stage when it changes, and otherwise at most 20 times a second.
Progress EngineLoop::progressOf(RequestId id) {
  struct Last {
    std::string stage;
    Clock::time_point time{};
  };
  return [this, id, last = std::make_shared<Last>()](const std::string& stage, double fraction) {
    const auto now = Clock::now();
    if (stage == last->stage && fraction < 1.0 &&
        now - last->time < std::chrono::milliseconds(50)) {
      return;
    }
    last->stage = stage;
    last->time = now;
    post(Send{LoadProgressed{id, stage, fraction}});
  };
}

Result<std::unique_ptr<Loaded>> EngineLoop::prepareLoad(RequestId id, bool isNewModel,
                                                        const std::filesystem::path& path,
                                                        const EngineConfig& config,
                                                        std::stop_token stop) {
  std::shared_ptr<const Model> current;
  EngineConfig running;
  std::optional<CacheRoom> room;
  bool onDevice = false;
  {
    const std::lock_guard lock(m_mutex);
    current = m_sharedModel;
    running = m_sharedConfig;
    room = m_sharedRoom;
    onDevice = m_sharedOnDevice;
  }
  if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped before it began");
  if (room) (room->hostBytes ? *room->hostBytes : room->bytes) = availableMemoryBytes();
  GiveBack giveBack;
  if (onDevice && (config.backend == BackendKind::kCuda || config.backend == running.backend)) {
    giveBack = [this, isNewModel] { return leaveDevice(isNewModel); };
  }
  const Progress progress = progressOf(id);
  const auto start = Clock::now();
  Result<std::unique_ptr<Loaded>> loaded;
  if (isNewModel) {
    loaded = loadModel(path, config, giveBack, progress, stop);
  } else if (current) {
    loaded = prepareChange(current, running, room, config, giveBack, progress, stop);
  } else {
    loaded = fail(ErrorCode::kNotFound, "no model is loaded that could be changed");
  }
  if (!loaded && current) {
    bool hasLeft = false;
    {
      const std::lock_guard lock(m_mutex);
      hasLeft = onDevice && !m_sharedOnDevice && m_sharedModel == current;
    }
    if (hasLeft) {
      if (auto again = loadAgain(current, running, progress)) {
        (*again)->failure = std::move(loaded).error();
        loaded = std::move(again);
      }
    }
  }
  if (loaded) {
    (*loaded)->preparedMs = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
  return loaded;
}

void EngineLoop::runLoad(RequestId id, bool isNewModel, const std::filesystem::path& path,
                         const EngineConfig& config, std::stop_token stop) {
  auto loaded = prepareLoad(id, isNewModel, path, config, stop);
  if (!loaded) {
    post(EndLoad{LoadFailed{id, std::move(loaded).error(), false}});
    return;
  }
  (*loaded)->id = id;
  (*loaded)->stop = stop;
  // The next job starts from what this one brought, so wait until it is in force.
  auto applied = (*loaded)->applied.get_future();
  post(Apply{std::move(*loaded)});
  applied.wait();
}

/// Loading thread.
bool EngineLoop::leaveDevice(bool forNewModel) {
  LeaveDevice command;
  command.forNewModel = forNewModel;
  auto done = command.done.get_future();
  post(std::move(command));
  done.wait();
  const std::lock_guard lock(m_mutex);
  return !m_sharedOnDevice;
}

// ---------------------------------------------------------------- the engine's thread

bool EngineLoop::hasWork() const {
  return (m_scheduler && !m_scheduler->isIdle()) || m_pending || m_leaving;
}

void EngineLoop::run() {
  constexpr auto kSnapshotInterval = std::chrono::milliseconds(100);
  std::deque<Command> commands;
  while (true) {
    {
      std::unique_lock lock(m_mutex);
      if (m_commands.empty() && !m_quit && !hasWork()) {
        lock.unlock();
        setActive(false);
        publishSnapshot();
        lock.lock();
        waitForCommand(lock);
      }
      if (m_quit) break;
      commands.swap(m_commands);
    }
    for (Command& command : commands) {
      std::visit([this](auto& one) { handle(one); }, command);
    }
    commands.clear();
    if (!m_held.empty()) endStoppedHeld();
    if (m_leaving) dropBackendForRoom();
    if (m_pending) applyPending();
    if (m_scheduler && !m_scheduler->isIdle()) {
      setActive(true);
      const bool wasLost = m_scheduler->isDeviceLost();
      m_scheduler->step();
      if (m_scheduler->isDeviceLost() && !wasLost) noteDeviceLoss();
      if (Clock::now() - m_published >= kSnapshotInterval) publishSnapshot();
    }
  }
  m_pending.reset();
  m_leaving.reset();
  forgetAtEnd();
  dropModel();
  const std::lock_guard lock(m_mutex);
  m_commands.clear();  // breaks the promise of a load that came just now
}

void EngineLoop::handle(Send& command) {
  send(command.event);
}

void EngineLoop::handle(EndLoad& command) {
  if (m_model && !m_backend) {  // it left the device and could not come back
    dropModel();
    publishModel();
  }
  command.failure.kept = m_model != nullptr;
  send(command.failure);
}

void EngineLoop::handle(Apply& command) {
  if (!command.loaded->isNewModel && command.loaded->model != m_model) {
    send(LoadFailed{
        command.loaded->id,
        Error{ErrorCode::kNotFound, "the model was unloaded before the change was ready"},
        m_model != nullptr});
    return;
  }
  m_pending = std::move(command.loaded);
  if (m_pending->isNewModel && m_scheduler && !m_pending->stop.stop_requested()) {
    m_scheduler->cancelAll();
  }
}

void EngineLoop::handle(Unload& command) {
  dropModel();
  publishModel();
  send(ModelUnloaded{command.id});
}

void EngineLoop::handle(InspectBlock& command) {
  if (command.stop.stop_requested()) {
    send(TurnFailed{command.id, Error{ErrorCode::kCancelled, "stopped on request"}});
  } else if (!m_scheduler) {
    send(TurnFailed{command.id, Error{ErrorCode::kNotFound,
                                      "no model is loaded, so there is no "
                                      "pool of blocks"}});
  } else if (auto content = m_scheduler->inspectBlock(command.block)) {
    send(BlockInspected{command.id, std::move(*content)});
  } else {
    send(TurnFailed{command.id, std::move(content).error()});
  }
}

void EngineLoop::handle(Forget& command) {
  if (m_scheduler) m_scheduler->forget(command.conversation);
  if (m_archive && command.onDisk) m_archive->forget(command.conversation);
}

void EngineLoop::handle(ClearCache&) {
  if (m_scheduler) m_scheduler->clearCache("cache cleared");
}

// ---------------------------------------------------------------- what others see

void EngineLoop::send(const Event& event) {
  if (const auto* finished = std::get_if<TurnFinished>(&event)) forgetRequest(finished->id);
  if (const auto* failed = std::get_if<TurnFailed>(&event)) forgetRequest(failed->id);
  if (const auto* ready = std::get_if<ForecastReady>(&event)) forgetRequest(ready->id);
  if (const auto* verified = std::get_if<CacheVerified>(&event)) forgetRequest(verified->id);
  if (const auto* inspected = std::get_if<BlockInspected>(&event)) forgetRequest(inspected->id);
  if (const auto* loaded = std::get_if<ModelLoaded>(&event)) forgetRequest(loaded->id);
  if (const auto* failed = std::get_if<LoadFailed>(&event)) forgetRequest(failed->id);
  if (const auto* unloaded = std::get_if<ModelUnloaded>(&event)) forgetRequest(unloaded->id);
  m_listener(event);
}

void EngineLoop::forgetRequest(RequestId id) {
  const std::lock_guard lock(m_mutex);
  m_stops.erase(id);
  std::erase_if(m_loads, [id](const PendingLoad& load) { return load.id == id; });
}

void EngineLoop::setActive(bool active) {
  if (!m_backend || m_active == active) return;
  m_active = active;
  m_backend->setActive(active);
}

/// The model stays, and whoever asks gets the error, until it is run by another backend.
void EngineLoop::noteDeviceLoss() {
  m_records.history.emptied(ReuseCause::kEvicted, "lost with the GPU");
  saveArchive();
  publishModel();
}

void EngineLoop::publishModel() {
  const std::lock_guard lock(m_mutex);
  m_sharedModel = m_model;
  m_sharedConfig = m_config;
  m_sharedRoom.reset();
  m_sharedOnDevice = m_backend && m_backend->info().kind == BackendKind::kCuda;
  if (m_backend && !(m_scheduler && m_scheduler->isDeviceLost())) {
    m_sharedRoom = CacheRoom::of(*m_backend);
  }
  m_sharedContext = m_contextTokens;
}

void EngineLoop::publishSnapshot() {
  auto snapshot = std::make_shared<EngineSnapshot>();
  snapshot->time = m_published = Clock::now();
  if (m_scheduler) m_scheduler->describe(*snapshot);
  snapshot->prefixQueries = m_records.totals.prefixQueries;
  snapshot->prefixHits = m_records.totals.prefixHits;
  snapshot->promptTokens = m_records.totals.promptTokens;
  snapshot->generatedTokens = m_records.totals.generatedTokens;
  snapshot->steps = m_records.steps.records();
  if (m_archive) m_archive->describe(*snapshot);
  const std::lock_guard lock(m_mutex);
  if (m_scheduler && !m_scheduler->isIdle()) {
    snapshot->state = EngineState::kBusy;
  } else if (!m_loads.empty()) {
    snapshot->state = EngineState::kLoading;
  } else {
    snapshot->state = m_model ? EngineState::kReady : EngineState::kEmpty;
  }
  m_snapshot = std::move(snapshot);
}

}  // namespace vitrine::engine

#include "engine/schedule/engine_loop.h"

#include <algorithm>
#include <utility>

#include <spdlog/fmt/fmt.h>

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

RequestId EngineLoop::generate(GenerateRequest request) {
  const auto arrival = Clock::now();
  std::stop_token stop;
  const RequestId id = newRequest(stop);
  // std::function wants a copyable job.
  auto shared = std::make_shared<GenerateRequest>(std::move(request));
  m_prompts->post(
      [this, id, shared, arrival, stop] { preparePrompt(id, std::move(*shared), arrival, stop); });
  return id;
}

/// Builds the question's prompt on the thread for prompts; the engine's thread answers.
template <typename Ask>
RequestId EngineLoop::ask(GenerateRequest request) {
  std::stop_token stop;
  const RequestId id = newRequest(stop);
  auto shared = std::make_shared<GenerateRequest>(std::move(request));
  m_prompts->post([this, id, shared, stop] {
    const auto failWith = [&](Error error) { post(Send{TurnFailed{id, std::move(error)}}); };
    if (stop.stop_requested()) {
      failWith(Error{ErrorCode::kCancelled, "stopped before it was answered"});
      return;
    }
    auto found = modelForPrompt();
    if (!found) return failWith(std::move(found).error());
    const Model& model = *found->model;
    auto prompt =
        buildAnyPrompt(model.chatTemplate(), model.tokenizer(), *shared, found->contextTokens);
    if (!prompt) return failWith(std::move(prompt).error());
    Ask question;
    question.id = id;
    question.request = std::move(*shared);
    question.prompt = std::move(*prompt);
    question.model = std::move(found->model);
    question.stop = stop;
    post(std::move(question));
  });
  return id;
}

RequestId EngineLoop::forecast(GenerateRequest request) {
  return ask<AskForecast>(std::move(request));
}

RequestId EngineLoop::verifyCache(GenerateRequest request) {
  return ask<AskProof>(std::move(request));
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

void EngineLoop::runLoad(RequestId id, bool isNewModel, const std::filesystem::path& path,
                         const EngineConfig& config, std::stop_token stop) {
  std::shared_ptr<const Model> current;
  EngineConfig running;
  {
    const std::lock_guard lock(m_mutex);
    current = m_sharedModel;
    running = m_sharedConfig;
  }
  const auto start = Clock::now();
  Result<std::unique_ptr<Loaded>> loaded;
  if (stop.stop_requested()) {
    loaded = fail(ErrorCode::kCancelled, "stopped before it began");
  } else if (isNewModel) {
    loaded = loadModel(path, config, progressOf(id), stop);
  } else if (current) {
    loaded = prepareChange(current, running, config, progressOf(id), stop);
  } else {
    loaded = fail(ErrorCode::kNotFound, "no model is loaded that could be changed");
  }
  if (!loaded) {
    post(EndLoad{LoadFailed{id, std::move(loaded).error(), current != nullptr}});
    return;
  }
  (*loaded)->id = id;
  (*loaded)->stop = stop;
  (*loaded)->preparedMs = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  // The next job starts from what this one brought, so wait until it is in force.
  auto applied = (*loaded)->applied.get_future();
  current.reset();
  post(Apply{std::move(*loaded)});
  applied.wait();
}

// ---------------------------------------------------------------- prompt thread

Result<EngineLoop::ForModel> EngineLoop::modelForPrompt() const {
  const std::lock_guard lock(m_mutex);
  if (!m_sharedModel) return fail(ErrorCode::kNotFound, "no model is loaded; open one first");
  return ForModel{m_sharedModel, m_sharedContext};
}

void EngineLoop::preparePrompt(RequestId id, GenerateRequest request, Clock::time_point arrival,
                               std::stop_token stop) {
  const auto failWith = [&](Error error) { post(Send{TurnFailed{id, std::move(error)}}); };
  auto found = modelForPrompt();
  if (!found) {
    failWith(std::move(found).error());
    return;
  }
  auto& [model, contextTokens] = *found;
  if (auto valid = request.sampling.validate(); !valid) {
    failWith(std::move(valid).error());
    return;
  }
  auto prompt = buildPrompt(model->chatTemplate(), model->tokenizer(), request, contextTokens);
  if (!prompt) {
    failWith(std::move(prompt).error());
    return;
  }
  const Turn::Language language{&model->tokenizer(), &model->endTokens()};
  auto turn = std::make_unique<Turn>(id, std::move(request), std::move(*prompt), language, arrival,
                                     std::move(stop));
  post(SubmitTurn{std::move(turn), std::move(model)});
}

// ---------------------------------------------------------------- the engine's thread

bool EngineLoop::hasWork() const {
  return (m_scheduler && !m_scheduler->isIdle()) || m_pending != nullptr;
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
    if (m_pending) {
      endStoppedHeld();
      applyPending();
    }
    if (m_scheduler && !m_scheduler->isIdle()) {
      setActive(true);
      m_scheduler->step();
      if (Clock::now() - m_published >= kSnapshotInterval) publishSnapshot();
    }
  }
  m_pending.reset();
  forgetAtEnd();
  dropModel();
  const std::lock_guard lock(m_mutex);
  m_commands.clear();  // breaks the promise of a load that came just now
}

void EngineLoop::handle(SubmitTurn& command) {
  if (command.model != m_model || !m_scheduler) {
    TurnReport report = command.turn->report(StopReason::kCancelled);
    send(TurnFinished{command.turn->id(), std::move(report)});
  } else if (m_pending) {
    m_held.push_back(std::move(command.turn));
  } else {
    m_scheduler->submit(std::move(command.turn));
  }
}

/// Otherwise says why not.
bool EngineLoop::canAnswer(const Question& question) {
  if (question.stop.stop_requested()) {
    send(TurnFailed{question.id, Error{ErrorCode::kCancelled, "stopped before it was answered"}});
  } else if (question.model != m_model || !m_scheduler) {
    send(TurnFailed{question.id,
                    Error{ErrorCode::kNotFound, "the model was unloaded before it was answered"}});
  } else {
    return true;
  }
  return false;
}

void EngineLoop::handle(AskForecast& command) {
  if (!canAnswer(command)) return;
  send(ForecastReady{command.id, m_scheduler->forecast(command.prompt)});
}

void EngineLoop::handle(AskProof& command) {
  if (!canAnswer(command)) return;
  if (!fits(command.prompt, m_contextTokens)) {
    send(TurnFailed{command.id, doesNotFit(command.prompt, m_contextTokens)});
    return;
  }
  m_scheduler->verify(std::make_unique<CacheCheck>(command.id, std::move(command.prompt.tokens),
                                                   std::move(command.stop)));
}

/// A turn that waits for a change can be stopped like any other.
void EngineLoop::endStoppedHeld() {
  std::erase_if(m_held, [this](const std::unique_ptr<Turn>& turn) {
    if (!turn->stopRequested()) return false;
    send(TurnFinished{turn->id(), turn->report(StopReason::kCancelled)});
    return true;
  });
}

void EngineLoop::handle(Send& command) {
  send(command.event);
}

void EngineLoop::handle(EndLoad& command) {
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

// ---------------------------------------------------------------- changing what runs

bool EngineLoop::takesEffectAtOnce(const Loaded& loaded) const {
  return !loaded.backend && m_backend && m_backend->cacheShape().type == loaded.plan.shape.type &&
         m_config.cache.blockSize == loaded.config.cache.blockSize &&
         m_config.cache.budgetBytes == loaded.config.cache.budgetBytes &&
         m_config.contextTokens == loaded.config.contextTokens;
}

void EngineLoop::applyPending() {
  if (m_pending->stop.stop_requested()) {
    const auto dropped = std::move(m_pending);
    send(LoadFailed{dropped->id, Error{ErrorCode::kCancelled, "stopped on request"},
                    m_model != nullptr});
  } else if (takesEffectAtOnce(*m_pending)) {
    const auto change = std::move(m_pending);
    m_config = change->config;
    m_scheduler->setOptions(schedulerOptions());
    useArchive();
    publishModel();
    send(ModelLoaded{change->id, describeModel(*m_model, *m_backend, m_config, m_contextTokens)});
    change->applied.set_value();
  } else if (!m_scheduler || m_scheduler->isIdle()) {
    const auto change = std::move(m_pending);
    if (installBackend(*change)) {
      send(ModelLoaded{change->id, describeModel(*m_model, *m_backend, m_config, m_contextTokens)});
    }
    publishSnapshot();
    change->applied.set_value();
  } else {
    return;  // running turns finish first
  }
  for (auto& turn : m_held) m_scheduler->submit(std::move(turn));
  m_held.clear();
}

/// Requires: no turn runs. False if it failed; the old state is then in force where that is
/// possible.
bool EngineLoop::installBackend(Loaded& loaded) {
  setActive(false);
  saveArchive();
  m_scheduler.reset();
  ReuseCause cause = ReuseCause::kPrecision;
  std::string reason = "precision changed";
  if (loaded.backend) {
    if (m_backend && m_backend->config().nKvHeads != loaded.backend->config().nKvHeads) {
      reason = "KV heads changed";
    }
    if (loaded.isNewModel) reason = "model changed";
    m_backend = std::move(loaded.backend);
  } else {
    const KvShape before = m_backend->cacheShape();
    if (loaded.plan.shape.type == before.type) {
      cause = ReuseCause::kEvicted;
      reason = "cache resized";
    }
    if (auto made = m_backend->configureCache(loaded.plan.shape); !made) {
      const bool restored = m_backend->configureCache(before).has_value();
      if (!restored) dropModel();
      if (restored) makeScheduler();
      publishModel();
      send(LoadFailed{loaded.id, std::move(made).error(), restored});
      return false;
    }
  }
  m_model = loaded.model;
  m_config = loaded.config;
  m_contextTokens = loaded.plan.contextTokens;
  m_records.history.emptied(cause, reason);
  if (auto measured = measureSteps(loaded.preparedMs); !measured) {
    dropModel();
    publishModel();
    send(LoadFailed{loaded.id, std::move(measured).error(), false});
    return false;
  }
  makeScheduler();
  publishModel();
  return true;
}

/// Steps are measured once for each way of running, on the empty pool.
Result<void> EngineLoop::measureSteps(double preparedMs) {
  const KvShape& shape = m_backend->cacheShape();
  const std::string key =
      fmt::format("{} {} {} {} {} {} {} {} {}", m_model->fingerprint(), m_backend->info().name,
                  m_backend->info().threads, toString(m_backend->precision().weights),
                  toString(m_backend->precision().activations), m_backend->precision().groupSize,
                  toString(shape.type), shape.nKvHeads, shape.blockSize);
  StepCost& cost = m_records.costs.use(key, StepCost::Proportions::of(m_backend->config()));
  if (cost.isReady()) return {};
  constexpr double kLeastBudgetMs = 80, kShareOfLoad = 0.02;
  return warmUp(*m_backend, cost, std::max(kLeastBudgetMs, kShareOfLoad * preparedMs));
}

void EngineLoop::makeScheduler() {
  m_scheduler = std::make_unique<Scheduler>(*m_backend, schedulerOptions(), m_records,
                                            [this](const Event& event) { send(event); });
  useArchive();
}

void EngineLoop::dropModel() {
  for (auto& turn : m_held) {
    send(TurnFinished{turn->id(), turn->report(StopReason::kCancelled)});
  }
  m_held.clear();
  if (m_scheduler) m_scheduler->cancelAll();
  m_records.history.emptied(ReuseCause::kPrecision, "model changed");
  setActive(false);
  saveArchive();
  m_scheduler.reset();
  m_backend.reset();
  m_model.reset();
}

Scheduler::Options EngineLoop::schedulerOptions() const {
  Scheduler::Options options;
  options.contextTokens = m_contextTokens;
  options.prefillChunk = m_config.prefillChunk;
  options.maxSequences = m_config.maxSequences;
  options.batching = m_config.batching;
  options.cache = m_config.cache;
  if (m_backend) {
    const ModelConfig& model = m_backend->config();
    const int valueBytes = m_config.cache.type == KvType::kInt8 ? 1 : 2;
    options.valueBytesPerPosition = 2ULL * static_cast<std::uint64_t>(model.nLayers) *
                                    static_cast<std::uint64_t>(model.kvDim()) *
                                    static_cast<std::uint64_t>(valueBytes);
  }
  return options;
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

void EngineLoop::publishModel() {
  const std::lock_guard lock(m_mutex);
  m_sharedModel = m_model;
  m_sharedConfig = m_config;
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

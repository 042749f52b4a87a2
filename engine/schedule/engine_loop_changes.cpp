// Changing what runs: models, configurations, the pool.
#include "engine/schedule/engine_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "engine/schedule/warm_up.h"

namespace vitrine::engine {

bool EngineLoop::takesEffectAtOnce(const Loaded& loaded) const {
  return !loaded.backend && m_backend && m_backend->cacheShape().type == loaded.plan.shape.type &&
         m_config.cache.blockSize == loaded.config.cache.blockSize &&
         m_config.cache.budgetBytes == loaded.config.cache.budgetBytes &&
         m_config.cache.hostBudgetBytes == loaded.config.cache.hostBudgetBytes &&
         m_config.contextTokens == loaded.config.contextTokens;
}

void EngineLoop::applyPending() {
  // Where the old backend has left its device there is no way back but this one.
  if (m_pending->stop.stop_requested() && (m_backend || !m_model)) {
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
      if (change->failure) {
        send(LoadFailed{change->id, std::move(*change->failure), true});
      } else {
        send(ModelLoaded{change->id,
                         describeModel(*m_model, *m_backend, m_config, m_contextTokens)});
      }
    }
    publishSnapshot();
    change->applied.set_value();
  } else {
    return;  // running turns finish first
  }
  for (auto& turn : m_held) m_scheduler->submit(std::move(turn));
  m_held.clear();
}

void EngineLoop::handle(LeaveDevice& command) {
  m_leaving = std::move(command);
  if (m_leaving->forNewModel && m_scheduler) m_scheduler->cancelAll();
}

/// The backend that runs makes room on its device, once its turns have ended. The model stays;
/// turns wait for the next backend.
void EngineLoop::dropBackendForRoom() {
  if (m_scheduler && !m_scheduler->isIdle()) return;
  setActive(false);
  saveArchive();
  m_scheduler.reset();
  m_backend.reset();
  publishModel();
  m_leaving->done.set_value();
  m_leaving.reset();
}

/// A device that was too full for a pool of the usual size beside the old backend may have room now
/// that the old one is gone.
void EngineLoop::takeRoomLeft(Loaded& loaded) {
  const CacheRoom room = CacheRoom::of(*m_backend);
  if (!room.hostBytes) return;
  const auto plan = planCache(m_backend->config(), loaded.config, room);
  const auto onDevice = [](const CachePlan& p) { return p.shape.nBlocks - p.shape.hostBlocks; };
  if (!plan || onDevice(*plan) <= onDevice(loaded.plan)) return;
  if (m_backend->configureCache(plan->shape)) {
    loaded.plan = *plan;
  } else {
    (void)m_backend->configureCache(loaded.plan.shape);  // what it had a moment ago
  }
}

/// Requires: no turn runs. False if it failed; the old state is then in force where that is
/// possible.
bool EngineLoop::installBackend(Loaded& loaded) {
  setActive(false);
  saveArchive();
  const bool wasLost = m_scheduler && m_scheduler->isDeviceLost();
  m_scheduler.reset();
  ReuseCause cause = ReuseCause::kPrecision;
  std::string reason = "precision changed";
  if (loaded.backend) {
    if (m_backend && m_backend->config().nKvHeads != loaded.backend->config().nKvHeads) {
      reason = "KV heads changed";
    }
    if (loaded.isNewModel) {
      reason = "model changed";
    } else if (wasLost) {
      cause = ReuseCause::kEvicted;
      reason = "lost with the GPU";
    }
    const bool leavesRoom = m_backend && m_backend->info().kind == BackendKind::kCuda;
    m_backend = std::move(loaded.backend);
    if (leavesRoom) takeRoomLeft(loaded);
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
  if (loaded.isNewModel) endHeld();  // they have the old model's tokens
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
      fmt::format("{} {} {} {} {} {} {}", m_model->fingerprint(), m_backend->info().name,
                  m_backend->info().threads, precisionKey(m_backend->precision()),
                  nameOf(shape.type), shape.nKvHeads, shape.blockSize);
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

void EngineLoop::endHeld() {
  for (auto& turn : m_held) {
    send(TurnFinished{turn->id(), turn->report(StopReason::kCancelled)});
  }
  m_held.clear();
}

void EngineLoop::dropModel() {
  endHeld();
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

}  // namespace vitrine::engine

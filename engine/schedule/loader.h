#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>

#include "engine/backend/backend.h"
#include "engine/base/result.h"
#include "engine/cache/cache_plan.h"
#include "engine/engine_types.h"

namespace vitrine::engine {

/// A model that is ready to run, or the change of one; goes from the loading thread to the
/// engine's.
struct Loaded {
  RequestId id = 0;
  std::shared_ptr<const Model> model;
  /// Null: the backend stays; its pool is made again if the shape differs.
  std::unique_ptr<Backend> backend;
  EngineConfig config;
  CachePlan plan;
  std::stop_token stop;
  bool isNewModel = false;
  double preparedMs = 0;  ///< that loading or converting took
  /// What was wanted failed, and this is what ran before, made again.
  std::optional<Error> failure;
  /// Set (or broken) once the engine's thread has taken or refused it.
  std::promise<void> applied;
};

/// Makes the backend that runs give up its device, and waits until it has; false: it cannot. Called
/// where the device is too full to hold another backend beside it. Empty: nothing runs on a device.
using GiveBack = std::function<bool()>;

/// Loads a model and makes its backend with its KV pool. The long part; any thread.
Result<std::unique_ptr<Loaded>> loadModel(const std::filesystem::path& path,
                                          const EngineConfig& config, const GiveBack& giveBack,
                                          const Progress& progress, std::stop_token stop);

/// Prepares a change of a running model: converts weights only where the new configuration needs
/// others than `running`. `room`: for the pool of the backend that runs; empty where that cannot go
/// on and another is needed in any case.
Result<std::unique_ptr<Loaded>> prepareChange(std::shared_ptr<const Model> model,
                                              const EngineConfig& running,
                                              const std::optional<CacheRoom>& room,
                                              const EngineConfig& wanted, const GiveBack& giveBack,
                                              const Progress& progress, std::stop_token stop);

/// Makes what ran before, after a change that failed had made it give up its device.
Result<std::unique_ptr<Loaded>> loadAgain(std::shared_ptr<const Model> model,
                                          const EngineConfig& config, const Progress& progress);

/// What is told about a loaded model.
std::shared_ptr<const ModelInfo> describeModel(const Model& model, const Backend& backend,
                                               const EngineConfig& config, int contextTokens);

}  // namespace vitrine::engine

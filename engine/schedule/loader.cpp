#include "engine/schedule/loader.h"

#include <algorithm>
#include <utility>

#include "engine/backend/gpu.h"
#include "engine/backend/kv_regroup.h"
#include "engine/template/chat_template.h"

namespace vitrine::engine {
namespace {

Result<void> checkConfig(const EngineConfig& config) {
  if (config.threads < 0 || config.prefillChunk < 1 || config.maxSequences < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "threads ({}) must be 0 or more, the prefill chunk ({}) and the number of "
                "sequences ({}) at least 1",
                config.threads, config.prefillChunk, config.maxSequences);
  }
  return {};
}

Result<std::unique_ptr<Backend>> makeOnce(const std::shared_ptr<const Model>& model,
                                          const EngineConfig& config, const std::string& note,
                                          const Progress& progress, const std::stop_token& stop,
                                          CachePlan& plan) {
  BackendOptions options = config.backendOptions();
  options.note = note;
  VITRINE_ASSIGN(auto backend, makeBackend(config.backend, model, options, progress, stop));
  CacheRoom room = CacheRoom::of(*backend);
  constexpr int kMostTries = 8;
  for (int i = 1;; ++i) {
    VITRINE_ASSIGN(plan, planCache(backend->config(), config, room));
    auto made = backend->configureCache(plan.shape);
    if (made) return backend;
    if (!room.hostBytes || made.error().code != ErrorCode::kOutOfMemory || i == kMostTries) {
      return tl::unexpected(std::move(made).error());
    }
    // What a device says is free may not be there in one piece, or was taken meanwhile.
    const auto tried = kvBytesPerBlock(backend->config(), plan.shape) *
                       static_cast<std::uint64_t>(plan.shape.nBlocks - plan.shape.hostBlocks);
    room.bytes = std::min({room.bytes, backend->memoryForCache(), tried}) / 4 * 3;
  }
}

Result<std::unique_ptr<Backend>> makeReady(const std::shared_ptr<const Model>& model,
                                           const EngineConfig& config, const GiveBack& giveBack,
                                           const Progress& progress, std::stop_token stop,
                                           CachePlan& plan) {
  EngineConfig tried = config;
  if (giveBack) tried.backend = BackendKind::kCuda;  // kAuto would leave a full device for the CPU
  auto made = makeOnce(model, tried, {}, progress, stop, plan);
  if (!made && made.error().code == ErrorCode::kOutOfMemory && giveBack && giveBack()) {
    made = makeOnce(model, tried, {}, progress, stop, plan);
  }
  if (made || config.backend != BackendKind::kAuto || probeGpus().devices.empty() ||
      (!giveBack && made.error().code != ErrorCode::kOutOfMemory) ||
      made.error().code == ErrorCode::kCancelled) {
    return made;
  }
  VITRINE_ASSIGN(const BackendKind forced, forcedBackend());
  if (forced != BackendKind::kAuto) return made;
  tried.backend = BackendKind::kCpu;
  return makeOnce(model, tried, made.error().message, progress, stop, plan);
}

}  // namespace

Result<std::unique_ptr<Loaded>> loadModel(const std::filesystem::path& path,
                                          const EngineConfig& config, const GiveBack& giveBack,
                                          const Progress& progress, std::stop_token stop) {
  VITRINE_TRY(checkConfig(config));
  auto loaded = std::make_unique<Loaded>();
  VITRINE_ASSIGN(loaded->model, Model::load(path, progress, stop));
  VITRINE_ASSIGN(loaded->backend,
                 makeReady(loaded->model, config, giveBack, progress, stop, loaded->plan));
  loaded->config = config;
  loaded->isNewModel = true;
  return loaded;
}

Result<std::unique_ptr<Loaded>> prepareChange(std::shared_ptr<const Model> model,
                                              const EngineConfig& running,
                                              const std::optional<CacheRoom>& room,
                                              const EngineConfig& wanted, const GiveBack& giveBack,
                                              const Progress& progress, std::stop_token stop) {
  VITRINE_TRY(checkConfig(wanted));
  VITRINE_ASSIGN(const ModelConfig now, regroupedConfig(model->config(), running.kvHeads));
  VITRINE_ASSIGN(const ModelConfig then, regroupedConfig(model->config(), wanted.kvHeads));
  auto loaded = std::make_unique<Loaded>();
  loaded->config = wanted;
  if (!room || wanted.backend != running.backend || wanted.precision != running.precision ||
      wanted.threads != running.threads || wanted.device != running.device ||
      then.nKvHeads != now.nKvHeads) {
    VITRINE_ASSIGN(loaded->backend,
                   makeReady(model, wanted, giveBack, progress, stop, loaded->plan));
  } else {
    VITRINE_ASSIGN(loaded->plan, planCache(then, wanted, *room));
  }
  loaded->model = std::move(model);
  return loaded;
}

Result<std::unique_ptr<Loaded>> loadAgain(std::shared_ptr<const Model> model,
                                          const EngineConfig& config, const Progress& progress) {
  auto loaded = std::make_unique<Loaded>();
  VITRINE_ASSIGN(loaded->backend, makeOnce(model, config, {}, progress, {}, loaded->plan));
  loaded->config = config;
  loaded->model = std::move(model);
  return loaded;
}

std::shared_ptr<const ModelInfo> describeModel(const Model& model, const Backend& backend,
                                               const EngineConfig& config, int contextTokens) {
  auto info = std::make_shared<ModelInfo>();
  info->path = model.path().string();
  info->config = backend.config();
  info->ownKvHeads = model.config().nKvHeads;
  info->name = model.config().name;
  info->architecture = model.config().architecture;
  info->quantization = model.quantizationName();
  info->fingerprint = model.fingerprint();
  info->defaults = model.generationDefaults();
  info->parameters = model.parameterCount();
  info->fileBytes = model.fileBytes();
  info->contextTokens = contextTokens;
  info->warnings = model.warnings();
  info->templateSubstituteReason = model.chatTemplate().substituteReason();
  info->acceptsSystemMessage = model.chatTemplate().acceptsSystemMessage();
  info->backend = backend.info();
  info->running = config;
  info->memory = backend.memory();
  return info;
}

}  // namespace vitrine::engine

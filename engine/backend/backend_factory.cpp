#include <cstdlib>
#include <string_view>

#include "engine/backend/backend.h"
#include "engine/backend/gpu.h"
#include "engine/quant/quant_plan.h"

namespace vitrine::engine {
namespace {

Result<std::unique_ptr<Backend>> makeCuda(std::shared_ptr<const Model> model,
                                          const BackendOptions& options, const Progress& progress,
                                          std::stop_token stop) {
  const GpuProbe& probe = probeGpus();
  if (probe.devices.empty()) {
    return fail(ErrorCode::kUnsupported, "no GPU can be used: {}; choose auto or cpu",
                probe.problem);
  }
  for (const GpuDevice& device : probe.devices) {
    if (device.index != options.device) continue;
    return cudaSupport()->make(std::move(model), options, progress, std::move(stop));
  }
  std::string known;
  for (const GpuDevice& device : probe.devices) {
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", device.index, device.name);
  }
  return fail(ErrorCode::kInvalidArgument, "there is no GPU {}; there is {}", options.device,
              known);
}

/// The GPU if there is one that can run this model, else the CPU with the reason.
Result<std::unique_ptr<Backend>> makeBest(const std::shared_ptr<const Model>& model,
                                          const BackendOptions& options, const Progress& progress,
                                          const std::stop_token& stop) {
  std::string reason = probeGpus().problem;
  if (!probeGpus().devices.empty()) {
    auto made = makeCuda(model, options, progress, stop);
    if (made || made.error().code == ErrorCode::kCancelled) return made;
    reason = made.error().message;
  }
  BackendOptions cpu = options;
  if (cudaSupport() != nullptr) cpu.note = std::move(reason);
  return makeCpuBackend(model, cpu, progress, stop);
}

}  // namespace

Result<BackendKind> forcedBackend() {
  const char* forced = std::getenv("VITRINE_BACKEND");
  if (forced == nullptr || *forced == '\0') return BackendKind::kAuto;
  for (BackendKind kind :
       {BackendKind::kAuto, BackendKind::kReference, BackendKind::kCpu, BackendKind::kCuda}) {
    if (std::string_view(forced) == nameOf(kind)) return kind;
  }
  return fail(ErrorCode::kInvalidArgument,
              "VITRINE_BACKEND is \"{}\"; it may be auto, reference, cpu or cuda", forced);
}

Result<std::unique_ptr<Backend>> makeBackend(BackendKind kind, std::shared_ptr<const Model> model,
                                             const BackendOptions& options,
                                             const Progress& progress, std::stop_token stop) {
  VITRINE_TRY(checkPrecision(options.precision));
  if (kind == BackendKind::kAuto) {
    VITRINE_ASSIGN(kind, forcedBackend());
  }
  switch (kind) {
    case BackendKind::kReference:
      return makeReferenceBackend(std::move(model), options, progress, std::move(stop));
    case BackendKind::kCpu:
      return makeCpuBackend(std::move(model), options, progress, std::move(stop));
    case BackendKind::kCuda:
      return makeCuda(std::move(model), options, progress, std::move(stop));
    case BackendKind::kAuto:
      return makeBest(model, options, progress, stop);
  }
  return fail(ErrorCode::kInternal, "no backend was chosen");
}

}  // namespace vitrine::engine

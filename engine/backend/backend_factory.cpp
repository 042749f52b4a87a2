#include <cstdlib>
#include <string_view>

#include "engine/backend/backend.h"

namespace vitrine::engine {
namespace {

/// What kAuto means here: the environment's choice, else the best backend of this build.
Result<BackendKind> automaticKind() {
  const char* forced = std::getenv("VITRINE_BACKEND");
  if (forced == nullptr || *forced == '\0') return BackendKind::kCpu;
  for (BackendKind kind : {BackendKind::kReference, BackendKind::kCpu, BackendKind::kCuda}) {
    if (std::string_view(forced) == toString(kind)) return kind;
  }
  if (std::string_view(forced) == toString(BackendKind::kAuto)) return BackendKind::kCpu;
  return fail(ErrorCode::kInvalidArgument,
              "VITRINE_BACKEND is \"{}\"; it may be auto, reference, cpu or cuda", forced);
}

Result<void> checkPrecision(const WeightPrecision& precision) {
  if (precision.activations == ActivationMode::kInt8 && precision.weights != WeightMode::kInt8) {
    return fail(ErrorCode::kInvalidArgument,
                "INT8 activations need INT8 weights; the weights are {}",
                toString(precision.weights));
  }
  if (precision.groupSize != 32 && precision.groupSize != 64) {
    return fail(ErrorCode::kInvalidArgument, "an INT8 group of {} weights; it may be 32 or 64",
                precision.groupSize);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Backend>> makeBackend(BackendKind kind, std::shared_ptr<const Model> model,
                                             const BackendOptions& options,
                                             const Progress& progress, std::stop_token stop) {
  VITRINE_TRY(checkPrecision(options.precision));
  if (kind == BackendKind::kAuto) {
    VITRINE_ASSIGN(kind, automaticKind());
  }
  switch (kind) {
    case BackendKind::kReference:
      return makeReferenceBackend(std::move(model), options, progress, std::move(stop));
    case BackendKind::kCpu:
      return makeCpuBackend(std::move(model), options, progress, std::move(stop));
    case BackendKind::kCuda:
      return fail(ErrorCode::kUnsupported,
                  "this build has no CUDA backend; choose auto or cpu, or build with CUDA");
    case BackendKind::kAuto:
      break;
  }
  return fail(ErrorCode::kInternal, "no backend was chosen");
}

}  // namespace vitrine::engine

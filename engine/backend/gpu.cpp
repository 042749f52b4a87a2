#include "engine/backend/gpu.h"

#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace vitrine::engine {
namespace {

constexpr std::chrono::seconds kProbeLimit{4};

std::optional<CudaSupport>& registered() {
  static std::optional<CudaSupport> support;
  return support;
}

GpuProbe probeWithLimit(const CudaSupport& support) {
  // The thread owns what it writes to: it may outlive this call by any time.
  std::promise<GpuProbe> promise;
  std::future<GpuProbe> future = promise.get_future();
  std::thread([probe = support.probe, promise = std::move(promise)]() mutable {
    promise.set_value(probe());
  }).detach();
  if (future.wait_for(kProbeLimit) == std::future_status::ready) return future.get();
  return {
      {}, fmt::format("the GPU driver did not answer within {} seconds", kProbeLimit.count()), ""};
}

}  // namespace

bool registerCuda(CudaSupport support) {
  registered() = std::move(support);
  return true;
}

const CudaSupport* cudaSupport() {
  return registered() ? &*registered() : nullptr;
}

const GpuProbe& probeGpus() {
  // Never destroyed: the thread of a driver that hangs may still be there when the program ends.
  static const GpuProbe& probe =
      *new GpuProbe(cudaSupport() != nullptr ? probeWithLimit(*cudaSupport())
                                             : GpuProbe{{}, "this build is without CUDA", ""});
  return probe;
}

std::string describeGpuSupport() {
  const CudaSupport* support = cudaSupport();
  if (support == nullptr) return "without CUDA";
  return fmt::format("CUDA {} ({})", support->toolkit, support->architectures);
}

}  // namespace vitrine::engine

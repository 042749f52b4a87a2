#include "engine/backend/gpu.h"

#include <chrono>
#include <future>
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

/// The probe that runs, begun by the first who asks.
struct RunningProbe {
  std::shared_future<GpuProbe> answer;
  std::chrono::steady_clock::time_point deadline;

  bool isOver() const {
    return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready ||
           std::chrono::steady_clock::now() >= deadline;
  }
};

RunningProbe begin() {
  std::promise<GpuProbe> promise;
  RunningProbe running{promise.get_future().share(),
                       std::chrono::steady_clock::now() + kProbeLimit};
  if (cudaSupport() == nullptr) {
    promise.set_value({{}, "this build is without CUDA", "", false});
    return running;
  }
  // The thread owns what it writes to: it may outlive everything here.
  std::thread([probe = cudaSupport()->probe, promise = std::move(promise)]() mutable {
    promise.set_value(probe());
  }).detach();
  return running;
}

// Neither is ever destroyed: the thread of a driver that hangs may be there when the program ends.
const RunningProbe& runningProbe() {
  static const RunningProbe& running = *new RunningProbe(begin());
  return running;
}

GpuProbe waitForAnswer() {
  const RunningProbe& running = runningProbe();
  if (running.answer.wait_until(running.deadline) == std::future_status::ready) {
    return running.answer.get();
  }
  return {{},
          fmt::format("the GPU driver did not answer within {} seconds", kProbeLimit.count()),
          "",
          true};
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
  static const GpuProbe& probe = *new GpuProbe(waitForAnswer());
  return probe;
}

const GpuProbe* knownGpus() {
  return runningProbe().isOver() ? &probeGpus() : nullptr;
}

bool shouldTellWhyNoGpu(const BackendInfo& info) {
  if (info.note.empty()) return false;
  const GpuProbe* gpus = knownGpus();
  return gpus != nullptr && (gpus->broken || !gpus->devices.empty());
}

std::string describeGpuSupport() {
  const CudaSupport* support = cudaSupport();
  if (support == nullptr) return "without CUDA";
  return fmt::format("CUDA {}: {}", support->toolkit, support->architectures);
}

}  // namespace vitrine::engine

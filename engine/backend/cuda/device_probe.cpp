#include "engine/backend/cuda/device_probe.h"

#include <cuda_runtime.h>

#include <spdlog/fmt/fmt.h>

namespace vitrine::engine::cuda {
namespace {

std::string versionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Why there is no device, in words for people.
std::string problemText(cudaError_t code, int driverVersion) {
  if (code == cudaErrorInsufficientDriver && driverVersion == 0) {
    return "no GPU driver is installed";
  }
  if (code == cudaErrorInsufficientDriver) {
    return fmt::format("the GPU driver is too old: it knows CUDA {}, {} is needed",
                       versionText(driverVersion), versionText(CUDART_VERSION));
  }
  if (code == cudaSuccess || code == cudaErrorNoDevice) return "no NVIDIA GPU was found";
  if (code == cudaErrorSystemDriverMismatch) {
    return "the GPU driver was updated and not loaded yet; restart the computer";
  }
  return fmt::format("the GPU driver answered \"{}\" (error {})", cudaGetErrorString(code),
                     static_cast<int>(code));
}

}  // namespace

GpuProbe probeDevices() {
  GpuProbe probe;
  int driverVersion = 0;
  if (cudaDriverGetVersion(&driverVersion) != cudaSuccess) driverVersion = 0;
  if (driverVersion > 0) probe.driverVersion = versionText(driverVersion);
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (code != cudaSuccess || count <= 0) {
    probe.problem = problemText(code, driverVersion);
    probe.broken = driverVersion > 0 && code != cudaSuccess && code != cudaErrorNoDevice;
    return probe;
  }
  std::string tooOld;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (const cudaError_t failed = cudaGetDeviceProperties(&properties, i); failed != cudaSuccess) {
      cudaGetLastError();
      probe.problem = problemText(failed, driverVersion);
      continue;
    }
    const std::string architecture = fmt::format("sm_{}{}", properties.major, properties.minor);
    if (properties.major < kOldestMajor ||
        (properties.major == kOldestMajor && properties.minor < kOldestMinor)) {
      tooOld = fmt::format("{} ({}) is too old; sm_{}{} is needed", properties.name, architecture,
                           kOldestMajor, kOldestMinor);
      continue;
    }
    probe.devices.push_back({i, properties.name, architecture, properties.totalGlobalMem, 0});
  }
  if (!probe.devices.empty()) {
    probe.problem.clear();
  } else {
    if (!tooOld.empty()) probe.problem = tooOld;
    probe.broken = true;
  }
  return probe;
}

}  // namespace vitrine::engine::cuda

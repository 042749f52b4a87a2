#include "engine/backend/cuda/device_probe.h"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdlib>

#include <spdlog/fmt/fmt.h>

#include "engine/backend/cuda/device_memory.h"

namespace vitrine::engine::cuda {
namespace {

constexpr int kDriverNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

std::string versionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// What the driver's own library says; the runtime calls all of it "insufficient".
struct DriverAnswer {
  bool installed = false;
  bool complete = false;  ///< it has what every driver has
  int version = 0;
  int code = 0;  ///< of starting it
};

DriverAnswer askDriver() {
  DriverAnswer answer;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  answer.installed = library != nullptr;
  if (library == nullptr) return answer;
  const auto version = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  answer.complete = version != nullptr && init != nullptr;
  if (version != nullptr && version(&answer.version) != 0) answer.version = 0;
  if (init != nullptr) answer.code = init(0);
  // It stays loaded: a driver's threads may not survive an unloading.
  return answer;
}

/// CUDA_VISIBLE_DEVICES where it leaves no device; "" otherwise.
std::string hiding() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return {};
  return fmt::format("CUDA_VISIBLE_DEVICES=\"{}\" hides every GPU", visible);
}

/// Why there is no device, in words for people, and whether a driver is there all the same.
struct Problem {
  std::string text;
  bool broken = true;
};

Problem noDevice() {
  const std::string hidden = hiding();
  return {hidden.empty() ? "no NVIDIA GPU was found" : hidden, false};
}

std::string errorText(cudaError_t code) {
  return fmt::format("\"{}\" (error {})", cudaGetErrorString(code), static_cast<int>(code));
}

bool isTooOld(int version) {
  return version > 0 && version / 1000 < CUDART_VERSION / 1000;
}

Problem tooOld(int version) {
  return {fmt::format("the GPU driver is too old: it knows CUDA {}, {} is needed",
                      versionText(version), versionText(CUDART_VERSION))};
}

Problem notLoadedYet() {
  return {"the GPU driver was updated and not loaded yet; restart the computer"};
}

/// `version`: of the driver, as the runtime tells it.
Problem problemOf(cudaError_t code, int version) {
  if (code == cudaSuccess || code == cudaErrorNoDevice) return noDevice();
  if (code == cudaErrorSystemDriverMismatch) return notLoadedYet();
  if (code == cudaErrorDevicesUnavailable) {
    return {"the GPU is busy or closed to programs: " + errorText(code)};
  }
  if (code != cudaErrorInsufficientDriver) return {"the GPU driver answers " + errorText(code)};
  if (isTooOld(version)) return tooOld(version);
  const DriverAnswer driver = askDriver();
  if (!driver.installed) return {"no GPU driver is installed", false};
  if (driver.code == kDriverNoDevice) return noDevice();
  if (driver.code == static_cast<int>(cudaErrorSystemDriverMismatch)) return notLoadedYet();
  if (isTooOld(driver.version)) return tooOld(driver.version);
  if (driver.code != 0) {
    return {fmt::format("the GPU driver does not start (error {})", driver.code)};
  }
  if (!driver.complete) return {"the GPU driver is incomplete"};
  return {"the GPU driver does not fit this program: " + errorText(code)};
}

/// Why a device cannot be used; "" if it can.
std::string problemOf(const cudaDeviceProp& properties, const std::string& architecture,
                      const std::string& restriction) {
  if (properties.major < kOldestMajor ||
      (properties.major == kOldestMajor && properties.minor < kOldestMinor)) {
    return fmt::format("{} ({}) is too old; sm_{}{} is needed", properties.name, architecture,
                       kOldestMajor, kOldestMinor);
  }
  if (restriction == "prohibited") {
    return fmt::format("{} is closed to programs (its compute mode is \"prohibited\")",
                       properties.name);
  }
  return {};
}

}  // namespace

GpuProbe probeDevices() {
  GpuProbe probe;
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess) version = 0;
  if (version > 0) probe.driverVersion = versionText(version);
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (code != cudaSuccess || count <= 0) {
    const Problem problem = problemOf(code, version);
    probe.problem = problem.text;
    probe.broken = problem.broken;
    return probe;
  }
  const std::shared_ptr<const Nvml> nvml = DeviceFigures::sharedNvml();
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (const cudaError_t failed = cudaGetDeviceProperties(&properties, i); failed != cudaSuccess) {
      cudaGetLastError();
      if (probe.problem.empty()) probe.problem = problemOf(failed, version).text;
      continue;
    }
    const std::string architecture = fmt::format("sm_{}{}", properties.major, properties.minor);
    char busId[32] = {};
    if (cudaDeviceGetPCIBusId(busId, sizeof busId, i) != cudaSuccess) cudaGetLastError();
    std::string problem =
        problemOf(properties, architecture, nvml ? nvml->restriction(busId) : std::string());
    if (!problem.empty()) {
      if (probe.problem.empty()) probe.problem = std::move(problem);
      continue;
    }
    const auto memory = nvml ? nvml->memory(busId) : std::nullopt;
    probe.devices.push_back(
        {i, properties.name, architecture, properties.totalGlobalMem, memory ? memory->free : 0});
  }
  probe.broken = probe.devices.empty();
  if (!probe.broken) probe.problem.clear();
  return probe;
}

}  // namespace vitrine::engine::cuda

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "api.h"
#include "device.h"
#include "device_memory.h"
#include "harness.h"
#include "streams.h"

// Devices and errors.

using namespace cuda_on_cpu;

namespace {

thread_local int t_device = 0;
thread_local cudaError_t t_lastError = cudaSuccess;

struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;
};
#define CUDA_ON_CPU_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    CUDA_ON_CPU_ERROR(cudaSuccess, "no error"),
    CUDA_ON_CPU_ERROR(cudaErrorInvalidValue, "invalid argument"),
    CUDA_ON_CPU_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    CUDA_ON_CPU_ERROR(cudaErrorInitializationError, "initialization error"),
    CUDA_ON_CPU_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    CUDA_ON_CPU_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    CUDA_ON_CPU_ERROR(cudaErrorInsufficientDriver,
                      "CUDA driver version is insufficient for CUDA runtime version"),
    CUDA_ON_CPU_ERROR(cudaErrorDevicesUnavailable,
                      "CUDA-capable device(s) is/are busy or unavailable"),
    CUDA_ON_CPU_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    CUDA_ON_CPU_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    CUDA_ON_CPU_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    CUDA_ON_CPU_ERROR(cudaErrorNoKernelImageForDevice,
                      "no kernel image is available for execution on the device"),
    CUDA_ON_CPU_ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    CUDA_ON_CPU_ERROR(cudaErrorSharedObjectInitFailed, "shared object initialization failed"),
    CUDA_ON_CPU_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    CUDA_ON_CPU_ERROR(cudaErrorNotReady, "device not ready"),
    CUDA_ON_CPU_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    CUDA_ON_CPU_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    CUDA_ON_CPU_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                      "part or all of the requested memory range is already mapped"),
    CUDA_ON_CPU_ERROR(cudaErrorHardwareStackError, "hardware stack error"),
    CUDA_ON_CPU_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    CUDA_ON_CPU_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    CUDA_ON_CPU_ERROR(cudaErrorNotSupported, "operation not supported"),
    CUDA_ON_CPU_ERROR(cudaErrorSystemNotReady, "system not yet initialized"),
    CUDA_ON_CPU_ERROR(cudaErrorSystemDriverMismatch,
                      "system has unsupported display driver / cuda driver combination"),
    CUDA_ON_CPU_ERROR(cudaErrorStreamCaptureUnsupported,
                      "operation not permitted when stream is capturing"),
    CUDA_ON_CPU_ERROR(cudaErrorStreamCaptureInvalidated,
                      "operation failed due to a previous error during capture"),
    CUDA_ON_CPU_ERROR(cudaErrorStreamCaptureUnmatched,
                      "the capture was not initiated in this stream"),
    CUDA_ON_CPU_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    CUDA_ON_CPU_ERROR(cudaErrorStreamCaptureIsolation,
                      "dependency created on uncaptured work in another stream"),
    CUDA_ON_CPU_ERROR(
        cudaErrorStreamCaptureImplicit,
        "operation would make the legacy stream depend on a capturing blocking stream"),
    CUDA_ON_CPU_ERROR(cudaErrorCapturedEvent,
                      "operation not permitted on an event last recorded in a capturing stream"),
    CUDA_ON_CPU_ERROR(cudaErrorStreamCaptureWrongThread,
                      "attempt to terminate a thread-local capture sequence from another thread"),
    CUDA_ON_CPU_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef CUDA_ON_CPU_ERROR

const ErrorText* find(cudaError_t code) {
  const auto* found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                   [=](const ErrorText& error) { return error.code == code; });
  return found == std::end(kErrors) ? nullptr : found;
}

bool isDevice(int device) {
  return device >= 0 && device < settings().devices;
}

}  // namespace

namespace cuda_on_cpu {

std::recursive_mutex& runtimeLock() {
  static auto* lock = new std::recursive_mutex;
  return *lock;
}

cudaError_t& lastError() {
  return t_lastError;
}

int currentDevice() {
  return t_device;
}

cudaError_t driverProblem() {
  if (settings().driverVersion < CUDART_VERSION) return cudaErrorInsufficientDriver;
  return settings().devices > 0 ? cudaSuccess : cudaErrorNoDevice;
}

}  // namespace cuda_on_cpu

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* found = find(error);
  return found != nullptr ? found->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* found = find(error);
  return found != nullptr ? found->text : "unrecognized error code";
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = t_lastError;
  t_lastError = stickyError();
  return error;
}

cudaError_t cudaPeekAtLastError() {
  return t_lastError;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = settings().driverVersion;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  return apiCall("cudaGetDeviceCount", ApiKind::kWork, [&] {
    *count = driverProblem() == cudaSuccess ? settings().devices : 0;
    return driverProblem();
  });
}

cudaError_t cudaSetDevice(int device) {
  return apiCall("cudaSetDevice", ApiKind::kWork, [&] {
    if (driverProblem() != cudaSuccess) return driverProblem();
    if (!isDevice(device)) return cudaErrorInvalidDevice;
    t_device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return apiCall("cudaGetDevice", ApiKind::kWork, [&] {
    *device = t_device;
    return driverProblem();
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return apiCall("cudaGetDeviceProperties", ApiKind::kWork, [&] {
    if (driverProblem() != cudaSuccess) return driverProblem();
    if (!isDevice(device)) return cudaErrorInvalidDevice;
    const Settings& now = settings();
    cudaDeviceProp p = {};
    std::snprintf(p.name, sizeof p.name, "CUDA on CPU %d", device);
    p.uuid.bytes[15] = static_cast<char>(device);
    p.totalGlobalMem = now.memoryBytes;
    p.sharedMemPerBlock = 48 * 1024;
    p.sharedMemPerBlockOptin = now.sharedOptinBytes;
    p.sharedMemPerMultiprocessor = now.sharedOptinBytes;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = 32;
    p.maxThreadsPerBlock = p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 2147483647;
    p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.maxThreadsPerMultiProcessor = now.architecture == 75 ? 1024 : 1536;
    p.maxBlocksPerMultiProcessor = 16;
    p.major = now.architecture / 10;
    p.minor = now.architecture % 10;
    p.multiProcessorCount = now.multiprocessors;
    p.canMapHostMemory = p.concurrentKernels = p.asyncEngineCount = p.unifiedAddressing = 1;
    p.memoryBusWidth = 64;
    p.l2CacheSize = 4 << 20;
    p.pciBusID = device + 1;
    *properties = p;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p = {};
  if (const cudaError_t code = cudaGetDeviceProperties(&p, device); code != cudaSuccess) {
    return code;
  }
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = int(p.sharedMemPerBlock);
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = p.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrL2CacheSize:
      *value = p.l2CacheSize;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = int(p.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = int(p.sharedMemPerBlockOptin);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return apiCall("cudaDeviceGetPCIBusId", ApiKind::kWork, [&] {
    if (!isDevice(device)) return cudaErrorInvalidDevice;
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  return apiCall("cudaDeviceSynchronize", ApiKind::kUnsafe, [&] {
    Queue::instance().runAll();
    return stickyError();
  });
}

cudaError_t cudaDeviceReset() {
  return apiCall("cudaDeviceReset", ApiKind::kWork, [&] {
    Queue::instance().runAll();
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return apiCall("cudaMemGetInfo", ApiKind::kWork, [&] {
    if (driverProblem() != cudaSuccess) return driverProblem();
    const std::size_t used =
        settings().othersBytes + DeviceMemory::instance().used(currentDevice());
    *total = settings().memoryBytes;
    *free = *total - std::min(used, *total);
    return cudaSuccess;
  });
}

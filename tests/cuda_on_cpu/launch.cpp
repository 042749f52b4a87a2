#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <string>

#include "api.h"
#include "device.h"
#include "grid.h"
#include "harness.h"
#include "streams.h"

// Launches, and what a device refuses.

namespace cuda_on_cpu {
namespace {

constexpr int kDefaultDynamicBytes = 48 * 1024;

std::map<const void*, int>& dynamicLimits() {
  static auto* limits = new std::map<const void*, int>;
  return *limits;
}

int dynamicLimit(const void* function) {
  const auto found = dynamicLimits().find(function);
  return found == dynamicLimits().end() ? kDefaultDynamicBytes : found->second;
}

/// Null, or what a device would not accept.
const char* problemOf(const cudaLaunchConfig_t& config) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return "an empty grid";
  if (block.x == 0 || block.y == 0 || block.z == 0) return "an empty block";
  if (grid.x > 2147483647U || grid.y > 65535 || grid.z > 65535) return "too large a grid";
  if (block.x > 1024 || block.y > 1024 || block.z > 64 ||
      std::uint64_t{block.x} * block.y * block.z > kMostThreads) {
    return "too large a block";
  }
  return nullptr;
}

}  // namespace

cudaError_t launchKernel(const cudaLaunchConfig_t& config, KernelCall kernel) {
  return apiCall("cudaLaunchKernelExC", ApiKind::kWork, [&] {
    if (driverProblem() != cudaSuccess) return driverProblem();
    if (const char* problem = problemOf(config); problem != nullptr) {
      note("launch of " + kernelName(kernel.function) + ": " + problem);
      return cudaErrorInvalidConfiguration;
    }
    if (config.dynamicSmemBytes > static_cast<std::size_t>(dynamicLimit(kernel.function))) {
      note("launch of " + kernelName(kernel.function) + ": " +
           std::to_string(config.dynamicSmemBytes) +
           " bytes of dynamic shared memory, more than it may have");
      return cudaErrorInvalidValue;
    }
    return Queue::instance().add(
        config.stream, [kernel = std::move(kernel), grid = config.gridDim, block = config.blockDim,
                        bytes = config.dynamicSmemBytes] { runGrid(kernel, grid, block, bytes); });
  });
}

cudaError_t setDynamicSharedLimit(const void* function, int bytes) {
  return apiCall("cudaFuncSetAttribute", ApiKind::kWork, [&] {
    if (bytes < 0 || static_cast<std::size_t>(bytes) > settings().sharedOptinBytes) {
      note(kernelName(function) + " asks for " + std::to_string(bytes) +
           " bytes of dynamic shared memory; the device has " +
           std::to_string(settings().sharedOptinBytes));
      return cudaErrorInvalidValue;
    }
    dynamicLimits()[function] = bytes;
    return cudaSuccess;
  });
}

cudaError_t occupancy(int* blocks, const void* function, int threads, std::size_t dynamicBytes) {
  return apiCall("cudaOccupancyMaxActiveBlocksPerMultiprocessor", ApiKind::kWork, [&] {
    if (threads <= 0 || threads > kMostThreads) return cudaErrorInvalidValue;
    const int threadsPerMultiprocessor = settings().architecture == 75 ? 1024 : 1536;
    int most = std::min(16, threadsPerMultiprocessor / threads);
    if (dynamicBytes > 0) {
      most = std::min(most, static_cast<int>(settings().sharedOptinBytes / dynamicBytes));
    }
    *blocks = dynamicBytes > static_cast<std::size_t>(dynamicLimit(function)) ? 0 : most;
    return cudaSuccess;
  });
}

cudaError_t functionAttributes(cudaFuncAttributes* attributes, const void* function) {
  return apiCall("cudaFuncGetAttributes", ApiKind::kWork, [&] {
    *attributes = {};
    attributes->maxThreadsPerBlock = kMostThreads;
    attributes->numRegs = 32;
    attributes->binaryVersion = attributes->ptxVersion = settings().architecture;
    attributes->maxDynamicSharedSizeBytes = dynamicLimit(function);
    return cudaSuccess;
  });
}

}  // namespace cuda_on_cpu

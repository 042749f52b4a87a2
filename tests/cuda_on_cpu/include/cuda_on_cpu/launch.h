#pragma once

#include <memory>
#include <tuple>
#include <utility>

#include "cuda_on_cpu/language.h"
#include "cuda_on_cpu/runtime_api.h"

// Launching kernels: the toolkit's template, whose parameters are the kernel's and whose arguments
// are converted to them and copied.

namespace cuda_on_cpu {

/// A kernel with its arguments, ready for every thread of a grid to call.
struct KernelCall {
  const void* function = nullptr;
  std::shared_ptr<const void> arguments;
  void (*call)(const void* function, const void* arguments) = nullptr;
};

cudaError_t launchKernel(const cudaLaunchConfig_t& config, KernelCall kernel);
cudaError_t setDynamicSharedLimit(const void* function, int bytes);
cudaError_t occupancy(int* blocks, const void* function, int threads, std::size_t dynamicBytes);
cudaError_t functionAttributes(cudaFuncAttributes* attributes, const void* function);

template <typename... Parameters>
void callKernel(const void* function, const void* arguments) {
  std::apply(reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(function)),
             *static_cast<const std::tuple<Parameters...>*>(arguments));
}

}  // namespace cuda_on_cpu

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return cuda_on_cpu::launchKernel(
      *config, {reinterpret_cast<const void*>(kernel),
                std::make_shared<std::tuple<Parameters...>>(
                    static_cast<Parameters>(std::forward<Arguments>(arguments))...),
                &cuda_on_cpu::callKernel<Parameters...>});
}

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  return cuda_on_cpu::setDynamicSharedLimit(reinterpret_cast<const void*>(kernel), value);
}
template <typename Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel* kernel) {
  return cuda_on_cpu::functionAttributes(attributes, reinterpret_cast<const void*>(kernel));
}
template <typename Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel* kernel, int threads,
                                                          std::size_t dynamicBytes) {
  return cuda_on_cpu::occupancy(blocks, reinterpret_cast<const void*>(kernel), threads,
                                dynamicBytes);
}

#pragma once

#include <cuda_runtime.h>

#include <span>

// Kernels with one fault each, and the same kernels without it. All take `n` = 256 values, write
// `n` values, and give out[i] = what expected() says if they are right.

namespace cuda_on_cpu {

inline constexpr int kFaultValues = 256;

/// Where a fault must show.
enum Finder : unsigned {
  kByReport = 1,   ///< the harness reports it, in any build
  kByResult = 2,   ///< the result is wrong, natural order or one of eight random ones
  kByAddress = 4,  ///< AddressSanitizer or UndefinedBehaviorSanitizer
  kByThread = 8,   ///< ThreadSanitizer
  kByGuard = 16,   ///< the zones around allocations, in builds without AddressSanitizer
};

struct FaultKernel {
  const char* name;
  unsigned foundBy;
  /// `isFaulty`: false launches the correct twin. in, out [kFaultValues], counter [1] zero; device.
  cudaError_t (*launch)(cudaStream_t stream, bool isFaulty, const float* in, float* out,
                        unsigned* counter);
  float (*expected)(const float* in, int i);
};

std::span<const FaultKernel> faultKernels();

}  // namespace cuda_on_cpu

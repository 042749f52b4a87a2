#pragma once

#include "kernels/cuda/device.cuh"

// The gates of kernels/api/activation.h for one value. Large arguments do not overflow.

namespace vitrine::kernels::cuda {

__device__ __forceinline__ float silu(float x) {
  return x / (1.0F + expf(-x));
}

/// GELU, its tanh form.
__device__ __forceinline__ float gelu(float x) {
  constexpr float kRootTwoOverPi = 0.7978845608028654F;
  const float inner = kRootTwoOverPi * (x + 0.044715F * x * x * x);
  return 0.5F * x * (1.0F + tanhf(inner));
}

template <bool kGelu>
__device__ __forceinline__ float gated(float gate, float up) {
  return (kGelu ? gelu(gate) : silu(gate)) * up;
}

}  // namespace vitrine::kernels::cuda

#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/types.h"

namespace vitrine::kernels::cuda {

/// Cosines and sines of a step's rows, once for all layers: angles [rows, pairs] as (cos, sin).
/// `turns` [pairs] FP64, device: 1/(2π) of the radians that a pair turns a position, scaling and
/// frequency factors included. Taken in double and reduced to one turn before the sine, so that
/// far positions lose nothing.
void ropeAngles(cudaStream_t stream, const std::int32_t* positions, const double* turns, int rows,
                int pairs, float2* angles);

/// Biases, QK norm, RoPE, and the append of K and V to the cache (kernels/api/rope.h, kv_cache.h):
/// FP16 saturates, INT8 as quantizeInt8(). The queries are rotated in place; for an INT8 cache they
/// and the keys are transformed after that (kernels/api/hadamard.h).
struct RopeAppendParams {
  float* qkv = nullptr;  // [rows, heads.qkvDim()]
  Heads heads;
  const float* bias = nullptr;   // [heads.qkvDim()] or null
  const float* qNorm = nullptr;  // [headDim] or null
  const float* kNorm = nullptr;  // [headDim] or null
  float normEps = 1e-5F;
  const float2* angles = nullptr;  // [rows, pairs]
  int pairs = 0;                   ///< rotated pairs of a head; the rest stays
  bool halves = false;             ///< RopeStyle::kHalves
  StepRows step;
  KvLayer kv;
  float* keys = nullptr;  // [rows, heads.kvDim()] or null: also gets the keys, as after RoPE
};
void ropeAppend(cudaStream_t stream, const RopeAppendParams& params);

}  // namespace vitrine::kernels::cuda

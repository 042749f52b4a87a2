#pragma once

// Hadamard transform of heads: each block of hadamardBlock(headDim) neighbours x becomes
//     y[i] = Σ_j (−1)^popcount(i & j) · x[j] / sqrt(block)
//
//   x [rows, headDim] FP32, in place
//
// It is orthonormal and its own inverse: scores stay what they are if queries and keys are both
// transformed. An INT8 cache holds transformed keys. A few elements of a key are always much larger
// than the others and would take the steps of its scale; here they are spread over all.
//
// The reference takes butterflies over distances 1, 2, 4 …, the factor last; CUDA gives its bits.
// Source: Ashkboos et al. 2024, "QuaRot"; llama.cpp has it for quantized caches (its pull request
// 21038).
// Tolerance of a fast kernel: 1e-6 of Σ|x| / sqrt(block) of the block.

namespace vitrine::kernels {

/// The largest power of two that divides a head.
constexpr int hadamardBlock(int headDim) {
  return headDim & -headDim;
}

/// 1 / sqrt(block), the same bits everywhere.
constexpr float hadamardFactor(int block) {
  float factor = 1.0F;
  for (; block >= 4; block /= 4) factor *= 0.5F;
  return block == 2 ? factor * 0.70710678F : factor;
}

}  // namespace vitrine::kernels

#pragma once

#include "kernels/cuda/device.cuh"

// INT8 arithmetic of the products with weights.

namespace vitrine::kernels::cuda {

// FP32 whose last bit counts 1: an integer below 2^22 added to its bits is added to its value. A
// sum of dp4a that starts here needs no conversion, which is slow on many GPUs.
inline constexpr unsigned kIntegerBits = 0x4B400000U;
inline constexpr float kIntegerValue = 12582912.0F;  // 1.5 · 2^23

/// INT8 to FP32, one permute and one subtraction each: b ^ 0x80 = b + 128 becomes the low byte of
/// 2^23.
__device__ __forceinline__ void unpackInt8Fast(const uint4& words, float (&values)[16]) {
  const unsigned word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned shifted = word[i] ^ 0x80808080U;
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      // bytes 0x4B 0x00 0x00 and byte b of the word
      values[4 * i + b] =
          __uint_as_float(__byte_perm(shifted, 0x4B000000U, 0x7440U + b)) - 8388736.0F;
    }
  }
}

/// sum + Σ a · b over 16 pairs.
__device__ __forceinline__ int dotInt8(const uint4& a, const uint4& b, int sum) {
  sum = __dp4a(static_cast<int>(a.x), static_cast<int>(b.x), sum);
  sum = __dp4a(static_cast<int>(a.y), static_cast<int>(b.y), sum);
  sum = __dp4a(static_cast<int>(a.z), static_cast<int>(b.z), sum);
  return __dp4a(static_cast<int>(a.w), static_cast<int>(b.w), sum);
}

}  // namespace vitrine::kernels::cuda

#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.cuh"

// What the attention kernels share: wide loads of K and V, where a position lies, rows of results.
// Included by .cu files alone.

namespace vitrine::kernels::cuda {

inline constexpr float kLog2E = 1.4426950408889634F;
inline constexpr int kMostGroup = 16;     ///< query heads of one KV head
inline constexpr int kMostHeadDim = 256;  ///< elements
/// Block sizes are multiples of this: so many aligned positions lie in one block.
inline constexpr int kUnit = 16;

/// What both launchers ask of their arguments; throws CudaError.
void checkAttention(const AttentionParams& params);

/// kBytes of K or V in one load; the address is a multiple of kBytes.
template <int kBytes>
__device__ __forceinline__ void loadWide(const std::byte* from, unsigned (&words)[kBytes / 4]) {
  static_assert(kBytes == 8 || kBytes == 16);
  if constexpr (kBytes == 16) {
    const uint4 value = __ldg(reinterpret_cast<const uint4*>(from));
    words[0] = value.x;
    words[1] = value.y;
    words[2] = value.z;
    words[3] = value.w;
  } else {
    const uint2 value = __ldg(reinterpret_cast<const uint2*>(from));
    words[0] = value.x;
    words[1] = value.y;
  }
}

/// Elements 4 · quad … + 3 of loaded words.
template <typename Element, int kWords>
__device__ __forceinline__ float4 unpackFour(const unsigned (&words)[kWords], int quad) {
  if constexpr (sizeof(Element) == 2) {
    const float2 low = unpackHalves(words[2 * quad]);
    const float2 high = unpackHalves(words[2 * quad + 1]);
    return {low.x, low.y, high.x, high.y};
  } else {
    // 2^23 + 128 + q as bits, by one byte move each: cheaper than a conversion from integers.
    constexpr float kOffset = 8388736.0F;
    const unsigned biased = words[quad] ^ 0x80808080U;
    return {__uint_as_float(__byte_perm(biased, 0x4B000000U, 0x7540)) - kOffset,
            __uint_as_float(__byte_perm(biased, 0x4B000000U, 0x7541)) - kOffset,
            __uint_as_float(__byte_perm(biased, 0x4B000000U, 0x7542)) - kOffset,
            __uint_as_float(__byte_perm(biased, 0x4B000000U, 0x7543)) - kOffset};
  }
}

/// The first position that a row at `position` sees.
__device__ __forceinline__ int firstSeen(int position, int window) {
  return window > 0 ? max(0, position - window + 1) : 0;
}

/// What scores are multiplied by, so that exp2f() makes the weights: with a soft cap the scores
/// themselves come first.
__device__ __forceinline__ float scoreFactor(const AttentionParams& params) {
  return params.softcap > 0.0F ? params.scale : params.scale * kLog2E;
}
__device__ __forceinline__ float capScore(float score, float softcap) {
  return softcap > 0.0F ? softcap * kLog2E * tanhf(score / softcap) : score;
}
/// Relative to what exponents are taken: a maximum over nothing must not give −∞ − (−∞).
__device__ __forceinline__ float exponentBase(float maximum) {
  return maximum == -INFINITY ? 0.0F : maximum;
}

/// A run of elements, or of scales, of one KV head in a block.
__device__ __forceinline__ std::size_t elementOffset(const KvLayer& kv, int kvHead, int slot,
                                                     int elementBytes) {
  return (static_cast<std::size_t>(kvHead) * kv.blockSize + slot) * kv.headDim * elementBytes;
}
__device__ __forceinline__ float loadScale(const std::byte* block, std::size_t offset,
                                           const KvLayer& kv, int kvHead, int slot) {
  return __ldg(reinterpret_cast<const float*>(block + offset) + kvHead * kv.blockSize + slot);
}

__device__ __forceinline__ void storeResult(const Rows& y, int row, int column, float value) {
  const std::size_t at = static_cast<std::size_t>(row) * y.stride + column;
  if (y.type == RowType::kFp32) {
    static_cast<float*>(y.values)[at] = value;
  } else {
    static_cast<std::uint16_t*>(y.values)[at] =
        y.type == RowType::kFp16 ? toHalfBits(value) : toBf16Bits(value);
  }
}

/// Columns of a row from its width on are zero; the threads of one block share the work.
__device__ __forceinline__ void clearPadding(const Rows& y, int row, int width) {
  for (int column = width + static_cast<int>(threadIdx.x); column < y.stride;
       column += static_cast<int>(blockDim.x)) {
    storeResult(y, row, column, 0.0F);
  }
}

}  // namespace vitrine::kernels::cuda

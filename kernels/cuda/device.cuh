#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/check.h"
#include "kernels/cuda/types.h"

// What the kernels share: launching, sums over lanes, number formats, quantizing. Included by .cu
// files alone.

// Dynamic shared memory as `T* name`, 16-byte aligned, as long as the launch asked for. The header
// that stands in for the runtime in tests brings its own definition.
#ifndef VITRINE_DYNAMIC_SHARED
#define VITRINE_DYNAMIC_SHARED(T, name)                                 \
  extern __shared__ __align__(16) unsigned char vitrineDynamicShared[]; \
  T* const name = reinterpret_cast<T*>(vitrineDynamicShared)
#endif

namespace vitrine::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

constexpr int ceilDiv(int n, int divisor) {
  return (n + divisor - 1) / divisor;
}

inline bool isAligned(const void* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

/// Where and how wide a kernel runs.
struct Launch {
  cudaStream_t stream = nullptr;
  dim3 grid = 1;
  dim3 block = 1;
  std::size_t sharedBytes = 0;  ///< dynamic; above 48 KiB the kernel is asked to allow it
};

/// Queues a kernel; arguments are converted to its parameter types. `name` is for the error.
template <typename... Parameters>
void launchKernel(const char* name, void (*kernel)(Parameters...), const Launch& where,
                  const std::type_identity_t<Parameters>&... arguments) {
  if (where.sharedBytes > 48 * 1024) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(where.sharedBytes)),
          name);
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = where.grid;
  config.blockDim = where.block;
  config.dynamicSmemBytes = where.sharedBytes;
  config.stream = where.stream;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), name);
}

// --- Over lanes. Every lane of the warp takes part and every lane gets the result: the same bits
// in each, since a butterfly adds the same pairs on both sides.

/// Over runs of `kLanes` neighbouring lanes (a power of two).
template <int kLanes = kWarp, typename T>
__device__ __forceinline__ T warpSum(T value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, step);
  }
  return value;
}

template <int kLanes = kWarp, typename T>
__device__ __forceinline__ T warpMax(T value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, value, step);
    value = other > value ? other : value;
  }
  return value;
}

// --- Over a block of kThreads (a multiple of 32, all of them taking part). `parts` is shared
// memory for kThreads / 32 values that nobody else touches from the barrier before the call to the
// one after it: one barrier inside.

template <int kThreads, typename T>
__device__ __forceinline__ T blockSum(T value, T* parts) {
  value = warpSum(value);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  T sum = parts[0];
#pragma unroll
  for (int w = 1; w < kThreads / kWarp; ++w) sum += parts[w];
  return sum;
}

template <int kThreads, typename T>
__device__ __forceinline__ T blockMax(T value, T* parts) {
  value = warpMax(value);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  T largest = parts[0];
#pragma unroll
  for (int w = 1; w < kThreads / kWarp; ++w) largest = parts[w] > largest ? parts[w] : largest;
  return largest;
}

// --- Number formats, as kernels/api/half.h: round to nearest even.

/// Finite values that FP16 cannot hold become ±65504; infinities and NaN stay.
__device__ __forceinline__ float saturateForHalf(float value) {
  const float clamped = fminf(fmaxf(value, -65504.0F), 65504.0F);
  return fabsf(value) < INFINITY ? clamped : value;
}
__device__ __forceinline__ std::uint16_t toHalfBits(float value) {
  return __half_as_ushort(__float2half_rn(saturateForHalf(value)));
}
__device__ __forceinline__ float fromHalfBits(std::uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}
__device__ __forceinline__ std::uint16_t toBf16Bits(float value) {
  const unsigned bits = __float_as_uint(value);
  const bool isNan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  const unsigned rounded = isNan ? bits | 0x400000U : bits + 0x7FFFU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>(rounded >> 16);
}
__device__ __forceinline__ float fromBf16Bits(std::uint16_t bits) {
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

/// Two values in one word, the first in the low half.
__device__ __forceinline__ unsigned packHalves(float low, float high) {
  const __half2 pair = __floats2half2_rn(saturateForHalf(low), saturateForHalf(high));
  return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ __forceinline__ float2 unpackHalves(unsigned word) {
  return __half22float2(*reinterpret_cast<const __half2*>(&word));
}
__device__ __forceinline__ unsigned packBf16(float low, float high) {
  return toBf16Bits(low) | static_cast<unsigned>(toBf16Bits(high)) << 16;
}
__device__ __forceinline__ float2 unpackBf16(unsigned word) {
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xFFFF0000U)};
}

/// Eight values of one 16-byte load.
__device__ __forceinline__ void unpackHalves(const uint4& words, float (&values)[8]) {
  const unsigned word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = unpackHalves(word[i]);
    values[2 * i] = pair.x;
    values[2 * i + 1] = pair.y;
  }
}
__device__ __forceinline__ void unpackBf16(const uint4& words, float (&values)[8]) {
  const unsigned word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = unpackBf16(word[i]);
    values[2 * i] = pair.x;
    values[2 * i + 1] = pair.y;
  }
}
/// Four INT8 of one word, the first in the low byte.
__device__ __forceinline__ float4 unpackInt8(unsigned word) {
  return {static_cast<float>(static_cast<std::int8_t>(word & 0xFFU)),
          static_cast<float>(static_cast<std::int8_t>((word >> 8) & 0xFFU)),
          static_cast<float>(static_cast<std::int8_t>((word >> 16) & 0xFFU)),
          static_cast<float>(static_cast<std::int8_t>(word >> 24))};
}

// --- INT8 of one group, to the bit as quantizeInt8() of kernels/api/quantize.h: the largest
// magnitudeBits() of the group, then its scales, then each value.

/// A value's magnitude as an integer: the order is the same, and NaN is the largest.
__device__ __forceinline__ unsigned magnitudeBits(float value) {
  return __float_as_uint(value) & 0x7FFFFFFFU;
}
__device__ __forceinline__ unsigned magnitudeBits(const float4& v) {
  const unsigned a = max(magnitudeBits(v.x), magnitudeBits(v.y));
  const unsigned b = max(magnitudeBits(v.z), magnitudeBits(v.w));
  return max(a, b);
}

struct Int8Scale {
  float scale;    ///< what is stored: x ≈ scale · q
  float inverse;  ///< 0 where the group becomes zeros
};
__device__ __forceinline__ Int8Scale int8Scale(unsigned largestMagnitudeBits) {
  const float scale = __uint_as_float(largestMagnitudeBits) / 127.0F;
  const float inverse = 1.0F / scale;
  if (inverse == INFINITY) return {0.0F, 0.0F};  // a scale of zero, or one too small to invert
  return {scale, inverse};
}
__device__ __forceinline__ int quantizeInt8(float value, float inverse) {
  // fminf() and fmaxf() turn NaN into 127, as the comparisons of quantizeInt8() do.
  return __float2int_rn(fmaxf(fminf(value * inverse, 127.0F), -127.0F));
}
/// Four values in one word, the first in the low byte.
__device__ __forceinline__ unsigned quantizeInt8(const float4& v, float inverse) {
  return (static_cast<unsigned>(quantizeInt8(v.x, inverse)) & 0xFFU) |
         (static_cast<unsigned>(quantizeInt8(v.y, inverse)) & 0xFFU) << 8 |
         (static_cast<unsigned>(quantizeInt8(v.z, inverse)) & 0xFFU) << 16 |
         static_cast<unsigned>(quantizeInt8(v.w, inverse)) << 24;
}

}  // namespace vitrine::kernels::cuda

#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "cuda_on_cpu/language.h"

// Functions of one thread alone. Approximate device functions (__expf, …) are exact ones here.

using std::max;
using std::min;

// Loads and stores with cache hints.
#define CUDA_ON_CPU_LOAD(name) \
  template <typename T>        \
  T name(const T* address) {   \
    return *address;           \
  }
CUDA_ON_CPU_LOAD(__ldg)
CUDA_ON_CPU_LOAD(__ldca)
CUDA_ON_CPU_LOAD(__ldcg)
CUDA_ON_CPU_LOAD(__ldcs)
CUDA_ON_CPU_LOAD(__ldlu)
CUDA_ON_CPU_LOAD(__ldcv)
#undef CUDA_ON_CPU_LOAD
#define CUDA_ON_CPU_STORE(name)                          \
  template <typename T>                                  \
  void name(T* address, std::type_identity_t<T> value) { \
    *address = value;                                    \
  }
CUDA_ON_CPU_STORE(__stwb)
CUDA_ON_CPU_STORE(__stcg)
CUDA_ON_CPU_STORE(__stcs)
CUDA_ON_CPU_STORE(__stwt)
#undef CUDA_ON_CPU_STORE

// Bits.
namespace cuda_on_cpu {
template <typename To, typename From>
To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}
}  // namespace cuda_on_cpu

inline float __int_as_float(int v) {
  return cuda_on_cpu::bitCast<float>(v);
}
inline int __float_as_int(float v) {
  return cuda_on_cpu::bitCast<int>(v);
}
inline float __uint_as_float(unsigned v) {
  return cuda_on_cpu::bitCast<float>(v);
}
inline unsigned __float_as_uint(float v) {
  return cuda_on_cpu::bitCast<unsigned>(v);
}
inline double __longlong_as_double(long long v) {
  return cuda_on_cpu::bitCast<double>(v);
}
inline long long __double_as_longlong(double v) {
  return cuda_on_cpu::bitCast<long long>(v);
}
inline int __popc(unsigned v) {
  return __builtin_popcount(v);
}
inline int __popcll(unsigned long long v) {
  return __builtin_popcountll(v);
}
inline int __clz(int v) {
  return v != 0 ? __builtin_clz(static_cast<unsigned>(v)) : 32;
}
inline int __clzll(long long v) {
  return v != 0 ? __builtin_clzll(static_cast<unsigned long long>(v)) : 64;
}
inline int __ffs(int v) {
  return __builtin_ffs(v);
}
inline int __ffsll(long long v) {
  return __builtin_ffsll(v);
}
inline unsigned __brev(unsigned v) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= ((v >> i) & 1U) << (31 - i);
  return reversed;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  const std::uint64_t both = (static_cast<std::uint64_t>(high) << 32) | low;
  return static_cast<unsigned>((both << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const std::uint64_t both = (static_cast<std::uint64_t>(high) << 32) | low;
  return static_cast<unsigned>(both >> (shift & 31));
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const std::uint64_t both = (static_cast<std::uint64_t>(high) << 32) | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned byte = selector >> (4 * i) & 15U;
    unsigned value = static_cast<unsigned>(both >> (8 * (byte & 7U))) & 255U;
    if ((byte & 8U) != 0) value = (value & 128U) != 0 ? 255U : 0U;  // the sign bit, spread
    result |= value << (8 * i);
  }
  return result;
}

// Integer arithmetic.
inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 32; i += 8) {
    sum += static_cast<std::int8_t>(static_cast<unsigned>(a) >> i) *
           static_cast<std::int8_t>(static_cast<unsigned>(b) >> i);
  }
  return sum;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
  for (int i = 0; i < 32; i += 8) sum += (a >> i & 255U) * (b >> i & 255U);
  return sum;
}
inline int __mulhi(int a, int b) {
  return static_cast<int>((static_cast<std::int64_t>(a) * b) >> 32);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(a) * b) >> 32);
}
inline unsigned __vadd4(unsigned a, unsigned b) {
  unsigned result = 0;
  for (int i = 0; i < 32; i += 8) result |= (((a >> i) + (b >> i)) & 255U) << i;
  return result;
}
inline unsigned __vsub4(unsigned a, unsigned b) {
  unsigned result = 0;
  for (int i = 0; i < 32; i += 8) result |= (((a >> i) - (b >> i)) & 255U) << i;
  return result;
}

// Conversions. Out of range: the nearest integer; NaN: zero, as on the device.
namespace cuda_on_cpu {
template <typename To, typename From>
To saturatingCast(From rounded) {
  if (std::isnan(rounded)) return 0;
  // 2^31 or 2^32: the first value that does not fit
  const From end =
      std::ldexp(From(1), std::is_signed_v<To> ? 8 * int(sizeof(To)) - 1 : 8 * int(sizeof(To)));
  if (rounded >= end)
    return static_cast<To>(~To(0) ^ (std::is_signed_v<To> ? To(1) << (8 * sizeof(To) - 1) : To(0)));
  if (std::is_signed_v<To>) {
    if (rounded < -end) return static_cast<To>(To(1) << (8 * sizeof(To) - 1));
  } else if (rounded < 0) {
    return 0;
  }
  return static_cast<To>(rounded);
}
}  // namespace cuda_on_cpu
inline int __float2int_rn(float v) {
  return cuda_on_cpu::saturatingCast<int>(std::nearbyint(v));
}
inline int __float2int_rz(float v) {
  return cuda_on_cpu::saturatingCast<int>(std::trunc(v));
}
inline int __float2int_rd(float v) {
  return cuda_on_cpu::saturatingCast<int>(std::floor(v));
}
inline int __float2int_ru(float v) {
  return cuda_on_cpu::saturatingCast<int>(std::ceil(v));
}
inline unsigned __float2uint_rn(float v) {
  return cuda_on_cpu::saturatingCast<unsigned>(std::nearbyint(v));
}
inline int __double2int_rn(double v) {
  return cuda_on_cpu::saturatingCast<int>(std::nearbyint(v));
}
inline float __int2float_rn(int v) {
  return static_cast<float>(v);
}
inline float __uint2float_rn(unsigned v) {
  return static_cast<float>(v);
}
inline float __double2float_rn(double v) {
  return static_cast<float>(v);
}

// Arithmetic that is not contracted into a fused multiply-add.
namespace cuda_on_cpu {
inline float opaque(float v) {
  asm("" : "+x"(v));
  return v;
}
}  // namespace cuda_on_cpu
inline float __fmul_rn(float a, float b) {
  return cuda_on_cpu::opaque(a * b);
}
inline float __fadd_rn(float a, float b) {
  return cuda_on_cpu::opaque(cuda_on_cpu::opaque(a) + b);
}
inline float __fsub_rn(float a, float b) {
  return cuda_on_cpu::opaque(cuda_on_cpu::opaque(a) - b);
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __frcp_rn(float v) {
  return 1.0F / v;
}
inline float __fsqrt_rn(float v) {
  return std::sqrt(v);
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __saturatef(float v) {
  return v > 0.0F ? (v < 1.0F ? v : 1.0F) : 0.0F;
}

// Functions.
inline float rsqrtf(float v) {
  return 1.0F / std::sqrt(v);
}
inline double rsqrt(double v) {
  return 1.0 / std::sqrt(v);
}
inline float __frsqrt_rn(float v) {
  return static_cast<float>(1.0 / std::sqrt(double(v)));
}
inline float __expf(float v) {
  return std::exp(v);
}
inline float __exp10f(float v) {
  return std::pow(10.0F, v);
}
inline float __logf(float v) {
  return std::log(v);
}
inline float __log2f(float v) {
  return std::log2(v);
}
inline float __powf(float a, float b) {
  return std::pow(a, b);
}
inline float __sinf(float v) {
  return std::sin(v);
}
inline float __cosf(float v) {
  return std::cos(v);
}
inline void __sincosf(float v, float* sine, float* cosine) {
  *sine = std::sin(v);
  *cosine = std::cos(v);
}
/// Sine and cosine of pi * v, exact at multiples of a half.
inline void sincospi(double v, double* sine, double* cosine) {
  const double reduced = v - 2.0 * std::nearbyint(v / 2.0);  // in [-1, 1], exact
  const double quarter = std::nearbyint(reduced * 2.0);
  const double rest = (reduced - quarter / 2.0) * 3.14159265358979323846;
  const double s = std::sin(rest), c = std::cos(rest);
  switch (static_cast<int>(quarter) & 3) {
    case 0:
      *sine = s, *cosine = c;
      break;
    case 1:
      *sine = c, *cosine = -s;
      break;
    case 2:
      *sine = -s, *cosine = -c;
      break;
    default:
      *sine = -c, *cosine = s;
      break;
  }
}
inline void sincospif(float v, float* sine, float* cosine) {
  double s = 0, c = 0;
  sincospi(v, &s, &c);
  *sine = static_cast<float>(s);
  *cosine = static_cast<float>(c);
}
inline double sinpi(double v) {
  double s = 0, c = 0;
  sincospi(v, &s, &c);
  return s;
}
inline double cospi(double v) {
  double s = 0, c = 0;
  sincospi(v, &s, &c);
  return c;
}
inline float sinpif(float v) {
  return static_cast<float>(sinpi(v));
}
inline float cospif(float v) {
  return static_cast<float>(cospi(v));
}

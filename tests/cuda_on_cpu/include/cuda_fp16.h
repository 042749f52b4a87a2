#pragma once

#include <immintrin.h>

#include "cuda_runtime.h"

// FP16 on the processor's conversions (F16C): the same bits as the toolkit's own functions. Every
// result of arithmetic is rounded once.

struct __half_raw {
  unsigned short x;
};
struct __half2_raw {
  unsigned short x, y;
};

struct __half {
  unsigned short bits;

  __half() = default;
  __half(__half_raw raw) : bits(raw.x) {}
  __half(float v) : bits(_cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT)) {}
  __half(double v) : __half(roundedToOdd(v)) {}
  __half(int v) : __half(static_cast<double>(v)) {}
  operator float() const { return _cvtsh_ss(bits); }
  operator __half_raw() const { return {bits}; }

  /// To float such that rounding it again, to half, is rounding once.
  static float roundedToOdd(double v) {
    float f = static_cast<float>(v);
    if (static_cast<double>(f) == v || v != v) return f;
    if (f == INFINITY || f == -INFINITY) return f;
    unsigned raw = cuda_on_cpu::bitCast<unsigned>(f);
    const bool isAway = std::abs(static_cast<double>(f)) > std::abs(v);
    if (isAway) --raw;
    return cuda_on_cpu::bitCast<float>(raw | 1U);
  }
};
using half = __half;

struct alignas(4) __half2 {
  __half x, y;

  __half2() = default;
  __half2(__half low, __half high) : x(low), y(high) {}
};
using half2 = __half2;

// Conversions.
inline __half __float2half(float v) {
  return {v};
}
inline __half __float2half_rn(float v) {
  return {v};
}
inline __half __float2half_rz(float v) {
  return __half_raw{static_cast<unsigned short>(_cvtss_sh(v, _MM_FROUND_TO_ZERO))};
}
inline __half __float2half_rd(float v) {
  return __half_raw{static_cast<unsigned short>(_cvtss_sh(v, _MM_FROUND_TO_NEG_INF))};
}
inline __half __float2half_ru(float v) {
  return __half_raw{static_cast<unsigned short>(_cvtss_sh(v, _MM_FROUND_TO_POS_INF))};
}
inline __half __double2half(double v) {
  return {v};
}
inline __half __int2half_rn(int v) {
  return {v};
}
inline float __half2float(__half v) {
  return v;
}
inline int __half2int_rn(__half v) {
  return __float2int_rn(v);
}
inline unsigned short __half_as_ushort(__half v) {
  return v.bits;
}
inline short __half_as_short(__half v) {
  return static_cast<short>(v.bits);
}
inline __half __ushort_as_half(unsigned short v) {
  return __half_raw{v};
}
inline __half __short_as_half(short v) {
  return __half_raw{static_cast<unsigned short>(v)};
}
inline __half2 __float2half2_rn(float v) {
  return {v, v};
}
inline __half2 __floats2half2_rn(float low, float high) {
  return {low, high};
}
inline __half2 __float22half2_rn(float2 v) {
  return {v.x, v.y};
}
inline float2 __half22float2(__half2 v) {
  return {v.x, v.y};
}
inline __half2 make_half2(__half low, __half high) {
  return {low, high};
}
inline __half2 __half2half2(__half v) {
  return {v, v};
}
inline __half2 __halves2half2(__half low, __half high) {
  return {low, high};
}
inline __half __low2half(__half2 v) {
  return v.x;
}
inline __half __high2half(__half2 v) {
  return v.y;
}
inline float __low2float(__half2 v) {
  return v.x;
}
inline float __high2float(__half2 v) {
  return v.y;
}
inline __half2 __lows2half2(__half2 a, __half2 b) {
  return {a.x, b.x};
}
inline __half2 __highs2half2(__half2 a, __half2 b) {
  return {a.y, b.y};
}

// Arithmetic. Sums and products of two halves are exact in double.
inline __half __hadd(__half a, __half b) {
  return double(float(a)) + double(float(b));
}
inline __half __hsub(__half a, __half b) {
  return double(float(a)) - double(float(b));
}
inline __half __hmul(__half a, __half b) {
  return float(a) * float(b);
}
inline __half __hdiv(__half a, __half b) {
  return double(float(a)) / double(float(b));
}
inline __half __hfma(__half a, __half b, __half c) {
  return double(float(a)) * double(float(b)) + double(float(c));
}
inline __half __hneg(__half v) {
  return __ushort_as_half(v.bits ^ 0x8000U);
}
inline __half __habs(__half v) {
  return __ushort_as_half(v.bits & 0x7fffU);
}
inline bool __hisnan(__half v) {
  return (v.bits & 0x7fffU) > 0x7c00U;
}
inline int __hisinf(__half v) {
  return v.bits == 0x7c00U ? 1 : v.bits == 0xfc00U ? -1 : 0;
}
inline bool __hgt(__half a, __half b) {
  return float(a) > float(b);
}
inline bool __hlt(__half a, __half b) {
  return float(a) < float(b);
}
inline bool __hge(__half a, __half b) {
  return float(a) >= float(b);
}
inline bool __hle(__half a, __half b) {
  return float(a) <= float(b);
}
inline bool __heq(__half a, __half b) {
  return float(a) == float(b);
}
/// A NaN gives way to a number.
inline __half __hmax(__half a, __half b) {
  return std::fmax(float(a), float(b));
}
inline __half __hmin(__half a, __half b) {
  return std::fmin(float(a), float(b));
}
inline __half2 __hadd2(__half2 a, __half2 b) {
  return {__hadd(a.x, b.x), __hadd(a.y, b.y)};
}
inline __half2 __hsub2(__half2 a, __half2 b) {
  return {__hsub(a.x, b.x), __hsub(a.y, b.y)};
}
inline __half2 __hmul2(__half2 a, __half2 b) {
  return {__hmul(a.x, b.x), __hmul(a.y, b.y)};
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline __half2 __hmax2(__half2 a, __half2 b) {
  return {__hmax(a.x, b.x), __hmax(a.y, b.y)};
}
inline __half2 __hmin2(__half2 a, __half2 b) {
  return {__hmin(a.x, b.x), __hmin(a.y, b.y)};
}
inline __half2 __habs2(__half2 v) {
  return {__habs(v.x), __habs(v.y)};
}
inline __half operator+(__half a, __half b) {
  return __hadd(a, b);
}
inline __half operator-(__half a, __half b) {
  return __hsub(a, b);
}
inline __half operator*(__half a, __half b) {
  return __hmul(a, b);
}
inline __half operator/(__half a, __half b) {
  return __hdiv(a, b);
}
inline __half operator-(__half v) {
  return __hneg(v);
}
inline bool operator<(__half a, __half b) {
  return __hlt(a, b);
}
inline bool operator>(__half a, __half b) {
  return __hgt(a, b);
}
inline bool operator<=(__half a, __half b) {
  return __hle(a, b);
}
inline bool operator>=(__half a, __half b) {
  return __hge(a, b);
}
inline bool operator==(__half a, __half b) {
  return __heq(a, b);
}

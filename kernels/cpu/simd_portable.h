#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/api/half.h"

// Vectors of 16 floats in plain C++; see simd_avx512.h. The loops have a fixed length, so that a
// compiler can use whatever vectors the target always has.

namespace vitrine::kernels::cpu {
namespace {

struct Simd {
  struct F {
    float v[16];
  };
  struct I {
    std::int32_t v[16];
  };

  static constexpr int kDenseRows = 2;
  static constexpr int kDenseTiles = 1;
  static constexpr int kAttendRows = 1;
  static constexpr int kAttendVectors = 2;

  template <typename Op>
  static F each(Op op) {
    F r;
    for (int i = 0; i < 16; ++i) r.v[i] = op(i);
    return r;
  }
  static F zero() { return set1(0.0F); }
  static F set1(float x) {
    return each([&](int) { return x; });
  }
  static F load(const float* p) {
    return each([&](int i) { return p[i]; });
  }
  static void store(float* p, const F& x) { std::memcpy(p, x.v, sizeof x.v); }
  static void storeFirst(float* p, const F& x, int n) {
    for (int i = 0; i < n; ++i) p[i] = x.v[i];
  }
  static F loadFirst(const float* p, int n) {
    return each([&](int i) { return i < n ? p[i] : 0.0F; });
  }
  static F add(const F& x, const F& y) {
    return each([&](int i) { return x.v[i] + y.v[i]; });
  }
  static F sub(const F& x, const F& y) {
    return each([&](int i) { return x.v[i] - y.v[i]; });
  }
  static F mul(const F& x, const F& y) {
    return each([&](int i) { return x.v[i] * y.v[i]; });
  }
  static F div(const F& x, const F& y) {
    return each([&](int i) { return x.v[i] / y.v[i]; });
  }
  static F fma(const F& x, const F& y, const F& z) {
    return each([&](int i) { return x.v[i] * y.v[i] + z.v[i]; });
  }
  static F max(const F& x, const F& y) {
    return each([&](int i) { return x.v[i] > y.v[i] ? x.v[i] : y.v[i]; });
  }
  static F min(const F& x, const F& y) {
    return each([&](int i) { return x.v[i] < y.v[i] ? x.v[i] : y.v[i]; });
  }
  static F abs(const F& x) {
    return each([&](int i) { return std::fabs(x.v[i]); });
  }
  static F round(const F& x) {
    return each([&](int i) { return std::nearbyint(x.v[i]); });
  }
  static F scale2(const F& x, const F& n) {
    return each([&](int i) {
      std::uint32_t bits;
      std::memcpy(&bits, &x.v[i], 4);
      bits += static_cast<std::uint32_t>(static_cast<std::int32_t>(n.v[i])) << 23;
      float scaled;
      std::memcpy(&scaled, &bits, 4);
      return scaled;
    });
  }
  static F firstLanes(const F& x, const F& other, int n) {
    return each([&](int i) { return i < n ? x.v[i] : other.v[i]; });
  }
  static float largerMagnitude(float x, float y) {
    std::uint32_t a, b;
    std::memcpy(&a, &x, 4);
    std::memcpy(&b, &y, 4);
    return a > b ? x : y;
  }
  static F maxMagnitude(const F& x, const F& y) {
    return each([&](int i) { return largerMagnitude(x.v[i], y.v[i]); });
  }
  static float largestMagnitude(const F& x) {
    float m = 0.0F;
    for (float v : x.v) m = largerMagnitude(m, v);
    return m;
  }
  /// Lane i gets what was in lane i ^ kDistance.
  template <int kDistance>
  static F swap(const F& x) {
    return each([&](int i) { return x.v[i ^ kDistance]; });
  }
  static float sum(const F& x) {
    float s = 0.0F;
    for (float v : x.v) s += v;
    return s;
  }
  static float largest(const F& x) {
    float m = x.v[0];
    for (float v : x.v) m = v > m ? v : m;
    return m;
  }

  static F loadHalf(const std::uint16_t* p) {
    return each([&](int i) { return halfToFloat(p[i]); });
  }
  static void storeHalf(std::uint16_t* p, const F& x) {
    for (int i = 0; i < 16; ++i) p[i] = floatToHalf(x.v[i]);
  }
  static F loadInt8(const std::int8_t* p) {
    return each([&](int i) { return static_cast<float>(p[i]); });
  }

  static I toInt(const F& x) {
    I r;
    for (int i = 0; i < 16; ++i) r.v[i] = static_cast<std::int32_t>(std::nearbyint(x.v[i]));
    return r;
  }
  static I addInt(const I& x, const I& y) {
    I r;
    for (int i = 0; i < 16; ++i) r.v[i] = x.v[i] + y.v[i];
    return r;
  }
  static std::int32_t sumInt(const I& x) {
    std::int32_t s = 0;
    for (std::int32_t v : x.v) s += v;
    return s;
  }

  static constexpr bool kDotsBf16 = false;
  static void storeBf16(std::byte*, const F&, const F&) {}
  static F dotBf16(const F& sum, const std::byte*, const std::byte*) { return sum; }
  static void loadBf16Pairs(const std::byte* w, F& even, F& odd) {
    std::uint16_t pairs[32];
    std::memcpy(pairs, w, sizeof pairs);
    even = each([&](int i) { return bfloat16ToFloat(pairs[2 * i]); });
    odd = each([&](int i) { return bfloat16ToFloat(pairs[2 * i + 1]); });
  }
  static void storeInt16(std::byte* p, const I& a, const I& b) {
    std::int16_t narrow[32];
    for (int i = 0; i < 16; ++i) {
      narrow[i] = static_cast<std::int16_t>(a.v[i]);
      narrow[16 + i] = static_cast<std::int16_t>(b.v[i]);
    }
    std::memcpy(p, narrow, sizeof narrow);
  }
  static constexpr std::size_t kInt8GroupBytes = 64;
  static void storeInt8(std::byte* p, const I& a, const I& b) { storeInt16(p, a, b); }
};

}  // namespace
}  // namespace vitrine::kernels::cpu

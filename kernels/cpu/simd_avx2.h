#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// Vectors of 16 floats as two AVX2 registers; see simd_avx512.h.

namespace vitrine::kernels::cpu {
namespace {

struct Simd {
  struct F {
    __m256 a, b;
  };
  struct I {
    __m256i a, b;
  };

  static constexpr int kDenseRows = 5;  // with 1 tile: 10 registers of accumulators
  static constexpr int kDenseTiles = 1;
  static constexpr int kAttendRows = 3;  // with 2 vectors
  static constexpr int kAttendVectors = 2;

  static F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static F set1(float v) { return {_mm256_set1_ps(v), _mm256_set1_ps(v)}; }
  static F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static void store(float* p, F v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
  }
  static __m256i maskFirst(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static void storeFirst(float* p, F v, int n) {
    _mm256_maskstore_ps(p, maskFirst(n), v.a);
    _mm256_maskstore_ps(p + 8, maskFirst(n - 8), v.b);
  }
  static F loadFirst(const float* p, int n) {
    return {_mm256_maskload_ps(p, maskFirst(n)), _mm256_maskload_ps(p + 8, maskFirst(n - 8))};
  }
  static F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  static F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  static F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  static F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  static F fma(F x, F y, F z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  static F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  static F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  static F abs(F x) {
    const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
    return {_mm256_and_ps(x.a, mask), _mm256_and_ps(x.b, mask)};
  }
  static F round(F x) {
    constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, kMode), _mm256_round_ps(x.b, kMode)};
  }
  static __m256 scale2(__m256 x, __m256 n) {
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), bits));
  }
  static F scale2(F x, F n) { return {scale2(x.a, n.a), scale2(x.b, n.b)}; }
  static F firstLanes(F x, F other, int n) {
    return {_mm256_blendv_ps(other.a, x.a, _mm256_castsi256_ps(maskFirst(n))),
            _mm256_blendv_ps(other.b, x.b, _mm256_castsi256_ps(maskFirst(n - 8)))};
  }
  static __m256 maxMagnitude(__m256 x, __m256 y) {
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(x), _mm256_castps_si256(y)));
  }
  static F maxMagnitude(F x, F y) { return {maxMagnitude(x.a, y.a), maxMagnitude(x.b, y.b)}; }
  static float largestMagnitude(F v) {
    const __m256i s = _mm256_castps_si256(maxMagnitude(v.a, v.b));
    __m128i t = _mm_max_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    t = _mm_max_epi32(t, _mm_unpackhi_epi64(t, t));
    t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 1));
    return _mm_cvtss_f32(_mm_castsi128_ps(t));
  }
  /// Lane i gets what was in lane i ^ kDistance.
  template <int kDistance>
  static F swap(F v) {
    static_assert(kDistance == 1 || kDistance == 2 || kDistance == 4 || kDistance == 8);
    if constexpr (kDistance == 8) return {v.b, v.a};
    if constexpr (kDistance == 4) {
      return {_mm256_permute2f128_ps(v.a, v.a, 1), _mm256_permute2f128_ps(v.b, v.b, 1)};
    }
    constexpr int kOrder = kDistance == 1 ? 0xB1 : 0x4E;
    return {_mm256_permute_ps(v.a, kOrder), _mm256_permute_ps(v.b, kOrder)};
  }
  static float sum(F v) {
    const __m256 s = _mm256_add_ps(v.a, v.b);
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
  }
  static float largest(F v) {
    const __m256 s = _mm256_max_ps(v.a, v.b);
    __m128 t = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_max_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
  }

  static F loadHalf(const std::uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  static void storeHalf(std::uint16_t* p, F v) {
    constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v.a, kMode));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(v.b, kMode));
  }
  static F loadInt8(const std::int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
  }

  static I toInt(F v) { return {_mm256_cvtps_epi32(v.a), _mm256_cvtps_epi32(v.b)}; }
  static I addInt(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
  static std::int32_t sumInt(I v) {
    const __m256i s = _mm256_add_epi32(v.a, v.b);
    __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    t = _mm_add_epi32(t, _mm_unpackhi_epi64(t, t));
    return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 1)));
  }

  static constexpr bool kDotsBf16 = false;
  static void storeBf16(std::byte*, F, F) {}
  static F dotBf16(F sum, const std::byte*, const std::byte*) { return sum; }
  /// 16 rows × 2 columns of bfloat16: the first and the second column.
  static void loadBf16Pairs(const std::byte* w, F& even, F& odd) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 32));
    const __m256i high = _mm256_set1_epi32(-65536);
    even = {_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
    odd = {_mm256_castsi256_ps(_mm256_and_si256(a, high)),
           _mm256_castsi256_ps(_mm256_and_si256(b, high))};
  }
  static __m256i pack16(I x) {
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xD8);
  }
  /// A group of 32 integers as int16, for both widths.
  static void storeInt16(std::byte* p, I a, I b) {
    auto* to = reinterpret_cast<__m256i*>(p);
    _mm256_storeu_si256(to, pack16(a));
    _mm256_storeu_si256(to + 1, pack16(b));
  }
  static constexpr std::size_t kInt8GroupBytes = 64;
  static void storeInt8(std::byte* p, I a, I b) { storeInt16(p, a, b); }
};

}  // namespace
}  // namespace vitrine::kernels::cpu

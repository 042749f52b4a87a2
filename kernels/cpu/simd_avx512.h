#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// Vectors of 16 floats, as the shared kernel templates use them. All three simd_*.h have the same
// members; every source file that includes one is compiled for that instruction set only.

namespace vitrine::kernels::cpu {
namespace {

struct Simd {
  using F = __m512;
  using I = __m512i;

  // Accumulators that fit the registers: rows × tiles of a product, rows × vectors of attention.
  static constexpr int kDenseRows = 12;  // with 2 tiles
  static constexpr int kDenseTiles = 2;
  static constexpr int kAttendRows = 6;  // with 4 vectors
  static constexpr int kAttendVectors = 4;

  static F zero() { return _mm512_setzero_ps(); }
  static F set1(float v) { return _mm512_set1_ps(v); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static void storeFirst(float* p, F v, int n) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1U << n) - 1U), v);
  }
  static F loadFirst(const float* p, int n) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << n) - 1U), p);
  }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F abs(F a) { return _mm512_abs_ps(a); }
  static F round(F a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  /// a · 2^n for n a whole number
  static F scale2(F a, F n) { return _mm512_scalef_ps(a, n); }
  /// The first n lanes of a, `other` in the rest (n from 0 to 16).
  static F firstLanes(F a, F other, int n) {
    return _mm512_mask_blend_ps(static_cast<__mmask16>((1U << n) - 1U), other, a);
  }
  /// Of magnitudes, compared as integers: a NaN is the largest and is not lost.
  static F maxMagnitude(F a, F b) {
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static float largestMagnitude(F v) {
    return _mm_cvtss_f32(
        _mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(_mm512_castps_si512(v)))));
  }
  /// (1, 0, 3, 2, …)
  /// Lane i gets what was in lane i ^ kDistance.
  template <int kDistance>
  static F swap(F v) {
    static_assert(kDistance == 1 || kDistance == 2 || kDistance == 4 || kDistance == 8);
    if constexpr (kDistance == 1) return _mm512_permute_ps(v, 0xB1);
    if constexpr (kDistance == 2) return _mm512_permute_ps(v, 0x4E);
    return _mm512_shuffle_f32x4(v, v, kDistance == 4 ? 0xB1 : 0x4E);
  }
  static float sum(F v) { return _mm512_reduce_add_ps(v); }
  static float largest(F v) { return _mm512_reduce_max_ps(v); }

  static F loadHalf(const std::uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void storeHalf(std::uint16_t* p, F v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static F loadInt8(const std::int8_t* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }

  static I toInt(F v) { return _mm512_cvtps_epi32(v); }  // nearest, half to even
  static I addInt(I a, I b) { return _mm512_add_epi32(a, b); }
  static std::int32_t sumInt(I v) { return _mm512_reduce_add_epi32(v); }

  /// Two vectors (32 values) rounded to bfloat16, in order.
  static void storeBf16(std::byte* p, F a, F b) {
    _mm512_storeu_si512(p, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a)));
  }
  // 16 rows × 2 columns of bfloat16 times two values of x, added to 16 sums.
  static constexpr bool kDotsBf16 = true;
  static F dotBf16(F sum, const std::byte* w, const std::byte* x) {
    std::int32_t pair;
    __builtin_memcpy(&pair, x, 4);
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(_mm512_loadu_si512(w)),
                            reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair)));
  }
  static void loadBf16Pairs(const std::byte* w, F& even, F& odd) {
    const __m512i pairs = _mm512_loadu_si512(w);
    even = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    odd = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536)));
  }

  /// A group of 32 integers of 16 bits x = 256 · high + low, both signed bytes: high 32, low 32.
  static void storeInt16(std::byte* p, I a, I b) {
    const __m512i half = _mm512_set1_epi32(128);
    const __m512i highA = _mm512_srai_epi32(_mm512_add_epi32(a, half), 8);
    const __m512i highB = _mm512_srai_epi32(_mm512_add_epi32(b, half), 8);
    auto* to = reinterpret_cast<__m128i*>(p);
    _mm_storeu_si128(to, _mm512_cvtepi32_epi8(highA));
    _mm_storeu_si128(to + 1, _mm512_cvtepi32_epi8(highB));
    _mm_storeu_si128(to + 2,
                     _mm512_cvtepi32_epi8(_mm512_sub_epi32(a, _mm512_slli_epi32(highA, 8))));
    _mm_storeu_si128(to + 3,
                     _mm512_cvtepi32_epi8(_mm512_sub_epi32(b, _mm512_slli_epi32(highB, 8))));
  }
  static constexpr std::size_t kInt8GroupBytes = 32;
  static void storeInt8(std::byte* p, I a, I b) {
    auto* to = reinterpret_cast<__m128i*>(p);
    _mm_storeu_si128(to, _mm512_cvtepi32_epi8(a));
    _mm_storeu_si128(to + 1, _mm512_cvtepi32_epi8(b));
  }
};

}  // namespace
}  // namespace vitrine::kernels::cpu

#include "kernels/cpu/peak_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vitrine::kernels::cpu {
namespace {

// Twelve independent sums hide the latency of one (4 to 5 cycles, at most two started a cycle).
constexpr int kChains = 12;

float portableLoop(std::int64_t rounds) {
  float sums[kChains * 4];
  for (int i = 0; i < kChains * 4; ++i) sums[i] = static_cast<float>(i);
  for (std::int64_t r = 0; r < rounds; ++r) {
    for (float& sum : sums) sum = sum * 0.999F + 0.001F;
  }
  float total = 0.0F;
  for (float sum : sums) total += sum;
  return total;
}

#if defined(__x86_64__)

__attribute__((target("avx512f,avx512vnni"))) float vnniLoop(std::int64_t rounds) {
  __m512i sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_epi32(i);
  const __m512i a = _mm512_set1_epi8(3);
  const __m512i b = _mm512_set1_epi8(-5);
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], a, b);
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) asm volatile("" : "+v"(sums[i]));
  }
  __m512i total = sums[0];
  for (int i = 1; i < kChains; ++i) total = _mm512_add_epi32(total, sums[i]);
  return static_cast<float>(_mm512_cvtsi512_si32(total));
}

__attribute__((target("avx512f,avx512bf16"))) float bf16Loop(std::int64_t rounds) {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5F), _mm512_set1_ps(0.25F));
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], a, a);
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) asm volatile("" : "+v"(sums[i]));
  }
  __m512 total = sums[0];
  for (int i = 1; i < kChains; ++i) total = _mm512_add_ps(total, sums[i]);
  return _mm512_cvtss_f32(total);
}

__attribute__((target("avx2"))) float maddubsLoop(std::int64_t rounds) {
  __m256i sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_epi32(i);
  __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(-5);
  const __m256i ones = _mm256_set1_epi16(1);
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      asm volatile("" : "+x"(a));  // no product can be taken out of the loop
      const __m256i pairs = _mm256_maddubs_epi16(a, b);
      sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(pairs, ones));
    }
  }
  __m256i total = sums[0];
  for (int i = 1; i < kChains; ++i) total = _mm256_add_epi32(total, sums[i]);
  return static_cast<float>(_mm256_extract_epi32(total, 0));
}

__attribute__((target("avx2,fma"))) float fmaLoop(std::int64_t rounds) {
  __m256 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 a = _mm256_set1_ps(0.5F);
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], a, a);
  }
  __m256 total = sums[0];
  for (int i = 1; i < kChains; ++i) total = _mm256_add_ps(total, sums[i]);
  return _mm256_cvtss_f32(total);
}

#endif

constexpr PeakLoop kPortable{portableLoop, kChains * 4 * 2, "FP32, portable"};

}  // namespace

PeakLoop int8PeakLoop() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni")) return {vnniLoop, kChains * 64 * 2, "AVX-512 VNNI"};
  if (__builtin_cpu_supports("avx2")) return {maddubsLoop, kChains * 32 * 2, "AVX2 maddubs"};
#endif
  return kPortable;
}

PeakLoop bf16PeakLoop() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16")) return {bf16Loop, kChains * 32 * 2, "AVX-512 BF16"};
  if (__builtin_cpu_supports("fma")) return {fmaLoop, kChains * 8 * 2, "FP32 FMA"};
#endif
  return kPortable;
}

}  // namespace vitrine::kernels::cpu

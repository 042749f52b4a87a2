// Matrix product with INT8, Q4_0 and Q4_1 weights on AVX-512 VNNI.
//
// vpdpbusd multiplies 4 unsigned bytes by 4 signed ones in each of 16 lanes and adds them to int32.
// Weights are the unsigned side (INT8 as w + 128, nibbles as they are), 16 rows in the lanes, 4
// columns in a lane; activations are the signed side, 4 bytes broadcast to all lanes. The offset
// (128, or 8 for Q4_0) times the sum of x is taken out in integers. 16-bit activations are
// 256 · high + low and take two passes; the integer part of a group is exact in either case.
//
// A group's integer becomes FP32, is scaled, and is added to the output's one accumulator, group
// after group in order: no output depends on how many rows are computed.

#include <immintrin.h>

#include "kernels/cpu/kernel_functions.h"

namespace vitrine::kernels::cpu::avx512 {
namespace {

constexpr int kRows = 6;     // with 2 tiles: 12 int32 and 12 FP32 accumulators of 32 registers
constexpr int kSumRows = 8;  // with 2 tiles; 12 run out of registers for addresses

inline __m512i broadcast(const std::byte* p) {
  std::int32_t v;
  __builtin_memcpy(&v, p, 4);
  return _mm512_set1_epi32(v);
}

/// Sum over a group of w · x for T tiles and M rows, added to `acc`. x: 32 signed bytes a row.
template <WeightFormat W, int T, int M>
inline __attribute__((always_inline)) void dotGroup(const std::byte* const (&w)[T],
                                                    const std::byte* const (&x)[M], int xOffset,
                                                    __m512i (&acc)[M][T]) {
  if constexpr (W == WeightFormat::kInt8) {
#pragma GCC unroll 8
    for (int quad = 0; quad < 8; ++quad) {
      __m512i values[T];
      for (int t = 0; t < T; ++t) values[t] = _mm512_loadu_si512(w[t] + quad * 64);
      for (int m = 0; m < M; ++m) {
        const __m512i v = broadcast(x[m] + xOffset + quad * 4);
        for (int t = 0; t < T; ++t) acc[m][t] = _mm512_dpbusd_epi32(acc[m][t], values[t], v);
      }
    }
  } else {
    const __m512i nibble = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int quad = 0; quad < 4; ++quad) {
      __m512i low[T], high[T];
      for (int t = 0; t < T; ++t) {
        const __m512i both = _mm512_loadu_si512(w[t] + quad * 64);
        low[t] = _mm512_and_si512(both, nibble);
        high[t] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
      }
      for (int m = 0; m < M; ++m) {
        const __m512i first = broadcast(x[m] + xOffset + quad * 4);
        for (int t = 0; t < T; ++t) acc[m][t] = _mm512_dpbusd_epi32(acc[m][t], low[t], first);
        const __m512i second = broadcast(x[m] + xOffset + 16 + quad * 4);
        for (int t = 0; t < T; ++t) acc[m][t] = _mm512_dpbusd_epi32(acc[m][t], high[t], second);
      }
    }
  }
}

template <int T, int M>
inline __attribute__((always_inline)) void storeSums(const MatmulParams& p, int tile, int row,
                                                     const __m512 (&sums)[M][T]) {
  const __m512 outputScale = _mm512_set1_ps(p.weights->outputScale);
  for (int t = 0; t < T; ++t) {
    const int first = (tile + t) * kTileRows;
    const int left = p.weights->rows - first;
    const int count = left < kTileRows ? left : kTileRows;
    if (count <= 0) continue;
    const auto lanes = static_cast<__mmask16>((1U << count) - 1U);
    for (int m = 0; m < M; ++m) {
      float* y = p.y + p.yStride * (row + m) + first;
      __m512 v = _mm512_mul_ps(sums[m][t], outputScale);
      if (p.accumulate) v = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, y), v);
      _mm512_mask_storeu_ps(y, lanes, v);
    }
  }
}

template <WeightFormat W, bool Narrow, int T, int M>
inline __attribute__((always_inline)) void block(const MatmulParams& p, int tile, int row) {
  constexpr int kGroupBytes = W == WeightFormat::kInt8 ? 512 : 256;
  constexpr int kScaleBytes = W == WeightFormat::kQ4_1 ? 64 : 32;
  constexpr int kXBytes = Narrow ? 32 : 64;
  const PackedMatrix& w = *p.weights;
  const Activations& in = *p.x;
  const int groups = w.groups;

  const std::byte* data[T];
  const std::byte* scales[T];
  for (int t = 0; t < T; ++t) {
    scales[t] = w.tile(tile + t);
    data[t] = scales[t] + w.dataOffset;
  }
  const std::byte* x[M];
  const std::size_t firstGroup = static_cast<std::size_t>(row) * static_cast<std::size_t>(groups);
  for (int m = 0; m < M; ++m) x[m] = in.data + in.rowBytes * static_cast<std::size_t>(row + m);
  __m512 sums[M][T];
  for (int m = 0; m < M; ++m) {
    for (int t = 0; t < T; ++t) sums[m][t] = _mm512_setzero_ps();
  }

  for (int g = 0; g < groups; ++g) {
    __m512i acc[M][T];
    if constexpr (Narrow) {
      for (int m = 0; m < M; ++m) {
        const std::int32_t offset =
            in.offsets[firstGroup + static_cast<std::size_t>(m) * groups + g];
        const __m512i start = W == WeightFormat::kInt8   ? _mm512_set1_epi32(offset)
                              : W == WeightFormat::kQ4_0 ? _mm512_set1_epi32(offset / 16)
                                                         : _mm512_setzero_si512();
        for (int t = 0; t < T; ++t) acc[m][t] = start;
      }
      dotGroup<W, T, M>(data, x, 0, acc);
    } else {
      for (int m = 0; m < M; ++m) {
        for (int t = 0; t < T; ++t) acc[m][t] = _mm512_setzero_si512();
      }
      dotGroup<W, T, M>(data, x, 0, acc);  // high bytes
      for (int m = 0; m < M; ++m) {
        for (int t = 0; t < T; ++t) acc[m][t] = _mm512_slli_epi32(acc[m][t], 8);
        if constexpr (W != WeightFormat::kQ4_1) {
          std::int32_t offset = in.offsets[firstGroup + static_cast<std::size_t>(m) * groups + g];
          if constexpr (W == WeightFormat::kQ4_0) offset /= 16;
          const __m512i start = _mm512_set1_epi32(offset);
          for (int t = 0; t < T; ++t) acc[m][t] = _mm512_add_epi32(acc[m][t], start);
        }
      }
      dotGroup<W, T, M>(data, x, 32, acc);  // low bytes
    }
    __m512 scale[T];
    [[maybe_unused]] __m512 minimum[T];
    for (int t = 0; t < T; ++t) {
      const int index = W == WeightFormat::kInt8 ? g / w.groupsPerScale : g;
      const auto* at = reinterpret_cast<const __m256i*>(scales[t] + index * kScaleBytes);
      scale[t] = _mm512_cvtph_ps(_mm256_loadu_si256(at));
      if constexpr (W == WeightFormat::kQ4_1) {
        minimum[t] = _mm512_cvtph_ps(_mm256_loadu_si256(at + 1));
      }
    }
    for (int m = 0; m < M; ++m) {
      const std::size_t at = firstGroup + static_cast<std::size_t>(m) * groups + g;
      const __m512 xScale = _mm512_set1_ps(in.scales[at]);
      for (int t = 0; t < T; ++t) {
        sums[m][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[m][t]), _mm512_mul_ps(scale[t], xScale),
                                     sums[m][t]);
        if constexpr (W == WeightFormat::kQ4_1) {
          sums[m][t] = _mm512_fmadd_ps(minimum[t], _mm512_set1_ps(in.sums[at]), sums[m][t]);
        }
      }
    }
    for (int t = 0; t < T; ++t) data[t] += kGroupBytes;
    for (int m = 0; m < M; ++m) x[m] += kXBytes;
  }

  storeSums<T, M>(p, tile, row, sums);
}

/// One sum over all columns: INT8 with one scale a row on both sides.
template <int T, int M>
__attribute__((noinline)) void sumBlock(const MatmulParams& p, int tile, int row) {
  const PackedMatrix& w = *p.weights;
  const Activations& in = *p.x;
  const std::byte* data[T];
  for (int t = 0; t < T; ++t) data[t] = w.tile(tile + t) + w.dataOffset;
  const std::byte* x[M];
  for (int m = 0; m < M; ++m) x[m] = in.data + in.rowBytes * static_cast<std::size_t>(row + m);
  __m512i acc[M][T];
  __m512i second[M][T];  // of every other group: one row alone would wait for its own sums
  for (int m = 0; m < M; ++m) {
    for (int t = 0; t < T; ++t) acc[m][t] = second[m][t] = _mm512_setzero_si512();
  }
  const auto group = [&](__m512i(&to)[M][T]) __attribute__((always_inline)) {
    dotGroup<WeightFormat::kInt8, T, M>(data, x, 0, to);
    for (int t = 0; t < T; ++t) data[t] += 512;
    for (int m = 0; m < M; ++m) x[m] += 32;
  };
  int g = 0;
  if constexpr (M == 1) {
    for (; g + 2 <= w.groups; g += 2) {
      group(acc);
      group(second);
    }
  }
  for (; g < w.groups; ++g) group(acc);

  __m512 sums[M][T];
  for (int m = 0; m < M; ++m) {
    const std::size_t at = static_cast<std::size_t>(row + m) * static_cast<std::size_t>(w.groups);
    const __m512i offset = _mm512_set1_epi32(in.offsets[at]);
    const __m512 xScale = _mm512_set1_ps(in.scales[at]);
    for (int t = 0; t < T; ++t) {
      const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(acc[m][t], second[m][t]), offset);
      const auto* at16 = reinterpret_cast<const __m256i*>(w.tile(tile + t));
      const __m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256(at16));
      sums[m][t] = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(scale, xScale));
    }
  }
  storeSums<T, M>(p, tile, row, sums);
}

template <int T, int M>
inline void sumRowsFrom(const MatmulParams& p, int tile, int row) {
  for (; row + M <= p.nRows; row += M) sumBlock<T, M>(p, tile, row);
  if constexpr (M > 1) {
    if (row < p.nRows) sumRowsFrom<T, M - 1>(p, tile, row);
  }
}

inline void sumProduct(const MatmulParams& p) {
  int tile = p.tileBegin;
  if (p.nRows <= 2) {
    for (; tile + 4 <= p.tileEnd; tile += 4) sumRowsFrom<4, 2>(p, tile, 0);
  }
  for (; tile < p.tileEnd; tile += 2) sumRowsFrom<2, kSumRows>(p, tile, 0);
}

template <WeightFormat W, bool Narrow, int M>
__attribute__((noinline)) void pair(const MatmulParams& p, int tile, int row) {
  block<W, Narrow, 2, M>(p, tile, row);
}

template <WeightFormat W, bool Narrow, int M>
inline void rowsFrom(const MatmulParams& p, int tile, int row) {
  for (; row + M <= p.nRows; row += M) pair<W, Narrow, M>(p, tile, row);
  if constexpr (M > 1) {
    if (row < p.nRows) rowsFrom<W, Narrow, M - 1>(p, tile, row);
  }
}

template <WeightFormat W>
inline void product(const MatmulParams& p) {
  const bool narrow = p.x->format == ActivationFormat::kInt8;
  for (int tile = p.tileBegin; tile < p.tileEnd; tile += 2) {
    narrow ? rowsFrom<W, true, kRows>(p, tile, 0) : rowsFrom<W, false, kRows>(p, tile, 0);
  }
}

}  // namespace

void matmulInteger(const MatmulParams& p) {
  switch (p.weights->format) {
    case WeightFormat::kQ4_0:
      product<WeightFormat::kQ4_0>(p);
      return;
    case WeightFormat::kQ4_1:
      product<WeightFormat::kQ4_1>(p);
      return;
    default:
      p.x->format == ActivationFormat::kInt8Row ? sumProduct(p) : product<WeightFormat::kInt8>(p);
      return;
  }
}

}  // namespace vitrine::kernels::cpu::avx512

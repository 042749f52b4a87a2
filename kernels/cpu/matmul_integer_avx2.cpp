// Matrix product with INT8, Q4_0 and Q4_1 weights on AVX2.
//
// vpmaddubsw would saturate (255 · 127 · 2 exceeds int16), so bytes are widened to int16 and
// multiplied by int16 activations with vpmaddwd: 4 rows × 4 columns a step, exact in int32. The
// same layout and the same group sums as on AVX-512.

#include <immintrin.h>

#include "kernels/cpu/kernel_functions.h"

namespace vitrine::kernels::cpu::avx2 {
namespace {

inline __m256i widen(__m128i bytes) {
  return _mm256_cvtepu8_epi16(bytes);
}

inline __m256i broadcast(const std::byte* p) {
  long long v;
  __builtin_memcpy(&v, p, 8);
  return _mm256_set1_epi64x(v);
}

/// Group sums of 8 rows (two halves of 4) of one tile for M rows of x: int32 pairs to be added.
template <WeightFormat W, int M>
inline void dotGroup(const std::byte* w, const std::byte* const (&x)[M], __m256i (&acc)[M][2]) {
  constexpr bool kBytes = W == WeightFormat::kInt8;
  const __m128i nibble = _mm_set1_epi8(15);
  for (int quad = 0; quad < (kBytes ? 8 : 4); ++quad) {
    for (int half = 0; half < 2; ++half) {
      const __m128i raw =
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(w + quad * 64 + half * 16));
      const __m256i first = widen(kBytes ? raw : _mm_and_si128(raw, nibble));
      for (int m = 0; m < M; ++m) {
        acc[m][half] =
            _mm256_add_epi32(acc[m][half], _mm256_madd_epi16(first, broadcast(x[m] + quad * 8)));
      }
      if constexpr (!kBytes) {
        const __m256i second = widen(_mm_and_si128(_mm_srli_epi16(raw, 4), nibble));
        for (int m = 0; m < M; ++m) {
          acc[m][half] = _mm256_add_epi32(
              acc[m][half], _mm256_madd_epi16(second, broadcast(x[m] + 32 + quad * 8)));
        }
      }
    }
  }
}

/// Pair sums [r0 r0 r1 r1 | r2 r2 r3 r3], [r4 … r7] to [r0 … r7].
inline __m256i inOrder(const __m256i (&pairs)[2]) {
  const __m256i sum = _mm256_hadd_epi32(pairs[0], pairs[1]);  // r0 r1 r4 r5 | r2 r3 r6 r7
  return _mm256_permute4x64_epi64(sum, 0xD8);
}

/// To outputs `first` … + 8 of M rows, those that W has.
template <int M>
inline void storeSums(const MatmulParams& p, int first, int row, const __m256 (&sums)[M]) {
  const __m256i lanes = _mm256_cmpgt_epi32(_mm256_set1_epi32(p.weights->rows - first),
                                           _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  for (int m = 0; m < M; ++m) {
    float* y = p.y + p.yStride * (row + m) + first;
    __m256 v = _mm256_mul_ps(sums[m], _mm256_set1_ps(p.weights->outputScale));
    if (p.accumulate) v = _mm256_add_ps(_mm256_maskload_ps(y, lanes), v);
    _mm256_maskstore_ps(y, lanes, v);
  }
}

/// Rows 8 · part … of a tile for M rows of x.
template <WeightFormat W, int M>
void block(const MatmulParams& p, int tile, int part, int row) {
  constexpr int kGroupBytes = W == WeightFormat::kInt8 ? 512 : 256;
  constexpr int kScaleBytes = W == WeightFormat::kQ4_1 ? 64 : 32;
  const PackedMatrix& w = *p.weights;
  const int first = tile * kTileRows + part * 8;
  if (first >= w.rows) return;
  const Activations& in = *p.x;
  const std::byte* scales = w.tile(tile) + part * 16;
  const std::byte* data = w.tile(tile) + w.dataOffset + part * 32;
  const std::byte* x[M];
  for (int m = 0; m < M; ++m) x[m] = in.data + in.rowBytes * static_cast<std::size_t>(row + m);
  __m256 sums[M];
  for (int m = 0; m < M; ++m) sums[m] = _mm256_setzero_ps();

  for (int g = 0; g < w.groups; ++g) {
    __m256i acc[M][2];
    for (int m = 0; m < M; ++m) acc[m][0] = acc[m][1] = _mm256_setzero_si256();
    dotGroup<W, M>(data, x, acc);
    const int index = W == WeightFormat::kInt8 ? g / w.groupsPerScale : g;
    const auto* at = reinterpret_cast<const __m128i*>(scales + index * kScaleBytes);
    const __m256 scale = _mm256_cvtph_ps(_mm_loadu_si128(at));
    for (int m = 0; m < M; ++m) {
      const std::size_t group =
          static_cast<std::size_t>(row + m) * static_cast<std::size_t>(w.groups) + g;
      __m256i sum = inOrder(acc[m]);
      if constexpr (W == WeightFormat::kInt8) {
        sum = _mm256_add_epi32(sum, _mm256_set1_epi32(in.offsets[group]));
      } else if constexpr (W == WeightFormat::kQ4_0) {
        sum = _mm256_add_epi32(sum, _mm256_set1_epi32(in.offsets[group] / 16));
      }
      sums[m] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum),
                                _mm256_mul_ps(scale, _mm256_set1_ps(in.scales[group])), sums[m]);
      if constexpr (W == WeightFormat::kQ4_1) {
        const __m256 minimum = _mm256_cvtph_ps(_mm_loadu_si128(at + 2));
        sums[m] = _mm256_fmadd_ps(minimum, _mm256_set1_ps(in.sums[group]), sums[m]);
      }
    }
    data += kGroupBytes;
    for (int m = 0; m < M; ++m) x[m] += 64;
  }

  storeSums<M>(p, first, row, sums);
}

/// The same with one sum over all columns: INT8 with one scale a row on both sides.
template <int M>
void sumBlock(const MatmulParams& p, int tile, int part, int row) {
  const PackedMatrix& w = *p.weights;
  const int first = tile * kTileRows + part * 8;
  if (first >= w.rows) return;
  const Activations& in = *p.x;
  const std::byte* data = w.tile(tile) + w.dataOffset + part * 32;
  const std::byte* x[M];
  for (int m = 0; m < M; ++m) x[m] = in.data + in.rowBytes * static_cast<std::size_t>(row + m);
  __m256i acc[M][2];
  for (int m = 0; m < M; ++m) acc[m][0] = acc[m][1] = _mm256_setzero_si256();
  for (int g = 0; g < w.groups; ++g, data += 512) {
    dotGroup<WeightFormat::kInt8, M>(data, x, acc);
    for (int m = 0; m < M; ++m) x[m] += 64;
  }
  const auto* at = reinterpret_cast<const __m128i*>(w.tile(tile) + part * 16);
  const __m256 scale = _mm256_cvtph_ps(_mm_loadu_si128(at));
  __m256 sums[M];
  for (int m = 0; m < M; ++m) {
    const std::size_t group =
        static_cast<std::size_t>(row + m) * static_cast<std::size_t>(w.groups);
    const __m256i sum = _mm256_add_epi32(inOrder(acc[m]), _mm256_set1_epi32(in.offsets[group]));
    sums[m] = _mm256_mul_ps(_mm256_cvtepi32_ps(sum),
                            _mm256_mul_ps(scale, _mm256_set1_ps(in.scales[group])));
  }
  storeSums<M>(p, first, row, sums);
}

template <WeightFormat W, int M>
inline void rowsFrom(const MatmulParams& p, int tile, int row) {
  for (; row + M <= p.nRows; row += M) {
    block<W, M>(p, tile, 0, row);
    block<W, M>(p, tile, 1, row);
  }
  if constexpr (M > 1) {
    if (row < p.nRows) rowsFrom<W, M - 1>(p, tile, row);
  }
}

template <int M>
inline void sumRowsFrom(const MatmulParams& p, int tile, int row) {
  for (; row + M <= p.nRows; row += M) {
    sumBlock<M>(p, tile, 0, row);
    sumBlock<M>(p, tile, 1, row);
  }
  if constexpr (M > 1) {
    if (row < p.nRows) sumRowsFrom<M - 1>(p, tile, row);
  }
}

}  // namespace

void matmulInteger(const MatmulParams& p) {
  const bool onePerRow = p.x->format == ActivationFormat::kInt8Row;
  for (int tile = p.tileBegin; tile < p.tileEnd; ++tile) {
    switch (p.weights->format) {
      case WeightFormat::kQ4_0:
        rowsFrom<WeightFormat::kQ4_0, 4>(p, tile, 0);
        break;
      case WeightFormat::kQ4_1:
        rowsFrom<WeightFormat::kQ4_1, 4>(p, tile, 0);
        break;
      default:
        onePerRow ? sumRowsFrom<4>(p, tile, 0) : rowsFrom<WeightFormat::kInt8, 4>(p, tile, 0);
        break;
    }
  }
}

}  // namespace vitrine::kernels::cpu::avx2

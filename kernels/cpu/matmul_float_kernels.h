// Matrix product with F32, F16 and BF16 weights. Included once by each
// matmul_float_<instruction set>.cpp, after its simd_*.h, with VITRINE_CPU_NAMESPACE set.
//
// Every output is one accumulator that runs over the columns in order (BF16 with a dot instruction:
// over pairs of columns), so the number of rows changes which outputs are computed side by side and
// nothing else. One row: 4 tiles side by side hide the latency of the multiply-add; the weights
// stream from memory. Many rows: 2 tiles × 12 rows fill the registers.

#include "kernels/cpu/kernel_functions.h"

namespace vitrine::kernels::cpu {
namespace {

using F = Simd::F;

template <WeightFormat W>
inline F loadColumn(const std::byte* tile, int column) {
  if constexpr (W == WeightFormat::kF32) {
    return Simd::load(reinterpret_cast<const float*>(tile) + column * kTileRows);
  } else {
    return Simd::loadHalf(reinterpret_cast<const std::uint16_t*>(tile) + column * kTileRows);
  }
}

/// Tiles `tile` … + T, rows `row` … + M.
template <WeightFormat W, int T, int M>
inline void block(const MatmulParams& p, int tile, int row) {
  const PackedMatrix& w = *p.weights;
  const int columns = w.groups * kGroup;
  F sums[M][T];
  for (int m = 0; m < M; ++m) {
    for (int t = 0; t < T; ++t) sums[m][t] = Simd::zero();
  }
  const std::byte* tiles[T];
  for (int t = 0; t < T; ++t) tiles[t] = w.tile(tile + t);
  const std::byte* x[M];
  for (int m = 0; m < M; ++m) x[m] = p.x->data + p.x->rowBytes * static_cast<std::size_t>(row + m);

  if constexpr (W == WeightFormat::kBf16) {
    for (int c = 0; c < columns; c += 2) {
      if constexpr (Simd::kDotsBf16) {
        for (int m = 0; m < M; ++m) {
          for (int t = 0; t < T; ++t) {
            sums[m][t] = Simd::dotBf16(sums[m][t], tiles[t] + c * kTileRows * 2, x[m] + c * 2);
          }
        }
      } else {
        F even[T], odd[T];
        for (int t = 0; t < T; ++t) {
          Simd::loadBf16Pairs(tiles[t] + c * kTileRows * 2, even[t], odd[t]);
        }
        for (int m = 0; m < M; ++m) {
          const auto* values = reinterpret_cast<const float*>(x[m]);
          for (int t = 0; t < T; ++t) {
            sums[m][t] = Simd::fma(even[t], Simd::set1(values[c]), sums[m][t]);
            sums[m][t] = Simd::fma(odd[t], Simd::set1(values[c + 1]), sums[m][t]);
          }
        }
      }
    }
  } else {
    for (int c = 0; c < columns; ++c) {
      F column[T];
      for (int t = 0; t < T; ++t) column[t] = loadColumn<W>(tiles[t], c);
      for (int m = 0; m < M; ++m) {
        const F value = Simd::set1(reinterpret_cast<const float*>(x[m])[c]);
        for (int t = 0; t < T; ++t) sums[m][t] = Simd::fma(column[t], value, sums[m][t]);
      }
    }
  }

  for (int t = 0; t < T; ++t) {
    const int first = (tile + t) * kTileRows;
    const int count = w.rows - first < kTileRows ? w.rows - first : kTileRows;
    if (count <= 0) continue;
    for (int m = 0; m < M; ++m) {
      float* y = p.y + p.yStride * (row + m) + first;
      F v = sums[m][t];
      if (count == kTileRows) {
        Simd::store(y, p.accumulate ? Simd::add(Simd::load(y), v) : v);
      } else {
        Simd::storeFirst(y, p.accumulate ? Simd::add(Simd::loadFirst(y, count), v) : v, count);
      }
    }
  }
}

/// Tiles `tile` … + T, rows `row` … to the end.
template <WeightFormat W, int T, int M>
inline void rowsFrom(const MatmulParams& p, int tile, int row) {
  for (; row + M <= p.nRows; row += M) block<W, T, M>(p, tile, row);
  if constexpr (M > 1) {
    if (row < p.nRows) rowsFrom<W, T, M - 1>(p, tile, row);
  }
}

template <WeightFormat W>
inline void product(const MatmulParams& p) {
  int tile = p.tileBegin;
  if (p.nRows <= 2) {
    for (; tile + 4 <= p.tileEnd; tile += 4) rowsFrom<W, 4, 2>(p, tile, 0);
  }
  for (; tile < p.tileEnd; tile += Simd::kDenseTiles) {
    rowsFrom<W, Simd::kDenseTiles, Simd::kDenseRows>(p, tile, 0);
  }
}

}  // namespace

namespace VITRINE_CPU_NAMESPACE {

void matmulFloat(const MatmulParams& p) {
  switch (p.weights->format) {
    case WeightFormat::kF32: product<WeightFormat::kF32>(p); return;
    case WeightFormat::kF16: product<WeightFormat::kF16>(p); return;
    default: product<WeightFormat::kBf16>(p); return;
  }
}

}  // namespace VITRINE_CPU_NAMESPACE
}  // namespace vitrine::kernels::cpu

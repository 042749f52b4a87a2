// Matrix product with F32, F16 and BF16 weights. Included once by each
// matmul_float_<instruction set>.cpp, after its simd_*.h, with VITRINE_CPU_NAMESPACE set.
//
// Every output is one accumulator that runs over the columns in order (with BF16 activations: over
// pairs of columns), so the number of rows changes which outputs are computed side by side and
// nothing else. One row: 4 tiles side by side hide the latency of the multiply-add; the weights
// stream from memory. Many rows: 2 tiles × 12 rows fill the registers, and the tiles are widened to
// FP32 once (the same values) into a panel that stays in the second cache.

#include "kernels/cpu/kernel_functions.h"

namespace vitrine::kernels::cpu {
namespace {

using F = Simd::F;

/// Weights of T tiles, two columns at a time.
template <WeightFormat W, int T>
struct TileColumns {
  const std::byte* tiles[T];

  TileColumns(const MatmulParams& p, int tile) {
    for (int t = 0; t < T; ++t) tiles[t] = p.weights->tile(tile + t);
  }
  void load(int c, F (&first)[T], F (&second)[T]) const {
    for (int t = 0; t < T; ++t) {
      if constexpr (W == WeightFormat::kF32) {
        const auto* at = reinterpret_cast<const float*>(tiles[t]) + c * kTileRows;
        first[t] = Simd::load(at);
        second[t] = Simd::load(at + kTileRows);
      } else if constexpr (W == WeightFormat::kF16) {
        const auto* at = reinterpret_cast<const std::uint16_t*>(tiles[t]) + c * kTileRows;
        first[t] = Simd::loadHalf(at);
        second[t] = Simd::loadHalf(at + kTileRows);
      } else {
        Simd::loadBf16Pairs(tiles[t] + c * kTileRows * 2, first[t], second[t]);
      }
    }
  }
};

/// The same from a panel of FP32, [column, tile, 16].
template <int T>
struct PanelColumns {
  const float* panel;

  void load(int c, F (&first)[T], F (&second)[T]) const {
    for (int t = 0; t < T; ++t) {
      first[t] = Simd::load(panel + (c * T + t) * kTileRows);
      second[t] = Simd::load(panel + ((c + 1) * T + t) * kTileRows);
    }
  }
};

template <int T, int M>
inline void clear(F (&sums)[M][T]) {
  for (int m = 0; m < M; ++m) {
    for (int t = 0; t < T; ++t) sums[m][t] = Simd::zero();
  }
}

template <int T, int M>
inline void storeSums(const MatmulParams& p, int tile, int row, const F (&sums)[M][T]) {
  for (int t = 0; t < T; ++t) {
    const int first = (tile + t) * kTileRows;
    const int left = p.weights->rows - first;
    if (left <= 0) continue;
    for (int m = 0; m < M; ++m) {
      float* y = p.y + p.yStride * (row + m) + first;
      const F v = sums[m][t];
      if (left >= kTileRows) {
        Simd::store(y, p.accumulate ? Simd::add(Simd::load(y), v) : v);
      } else {
        Simd::storeFirst(y, p.accumulate ? Simd::add(Simd::loadFirst(y, left), v) : v, left);
      }
    }
  }
}

template <int M>
inline void rowPointers(const MatmulParams& p, int row, const std::byte* (&x)[M]) {
  for (int m = 0; m < M; ++m) x[m] = p.x->data + p.x->rowBytes * static_cast<std::size_t>(row + m);
}

/// Tiles `tile` … + T, rows `row` … + M with FP32 activations.
template <int T, int M, typename Columns>
inline void block(const MatmulParams& p, const Columns& w, int tile, int row) {
  F sums[M][T];
  clear<T, M>(sums);
  const std::byte* bytes[M];
  rowPointers<M>(p, row, bytes);
  const float* x[M];
  for (int m = 0; m < M; ++m) x[m] = reinterpret_cast<const float*>(bytes[m]);
  const int columns = p.weights->groups * kGroup;
  for (int c = 0; c < columns; c += 2) {
    F first[T], second[T];
    w.load(c, first, second);
    for (int m = 0; m < M; ++m) {
      const F value = Simd::set1(x[m][c]);
      for (int t = 0; t < T; ++t) sums[m][t] = Simd::fma(first[t], value, sums[m][t]);
    }
    for (int m = 0; m < M; ++m) {
      const F value = Simd::set1(x[m][c + 1]);
      for (int t = 0; t < T; ++t) sums[m][t] = Simd::fma(second[t], value, sums[m][t]);
    }
  }
  storeSums<T, M>(p, tile, row, sums);
}

/// The same with BF16 weights and activations.
template <int T, int M>
inline void dotBlock(const MatmulParams& p, int tile, int row) {
  F sums[M][T];
  clear<T, M>(sums);
  const std::byte* x[M];
  rowPointers<M>(p, row, x);
  const std::byte* tiles[T];
  for (int t = 0; t < T; ++t) tiles[t] = p.weights->tile(tile + t);
  const int columns = p.weights->groups * kGroup;
  for (int c = 0; c < columns; c += 2) {
    for (int m = 0; m < M; ++m) {
      for (int t = 0; t < T; ++t) {
        sums[m][t] = Simd::dotBf16(sums[m][t], tiles[t] + c * kTileRows * 2, x[m] + c * 2);
      }
    }
  }
  storeSums<T, M>(p, tile, row, sums);
}

/// Rows `row` … to the end, at most M at a time.
template <int T, int M, typename Columns>
inline void rowsFrom(const MatmulParams& p, const Columns& w, int tile, int row) {
  for (; row + M <= p.nRows; row += M) block<T, M>(p, w, tile, row);
  if constexpr (M > 1) {
    if (row < p.nRows) rowsFrom<T, M - 1>(p, w, tile, row);
  }
}
template <int T, int M>
inline void dotRowsFrom(const MatmulParams& p, int tile, int row) {
  for (; row + M <= p.nRows; row += M) dotBlock<T, M>(p, tile, row);
  if constexpr (M > 1) {
    if (row < p.nRows) dotRowsFrom<T, M - 1>(p, tile, row);
  }
}

template <WeightFormat W>
inline void product(const MatmulParams& p) {
  constexpr int kTiles = Simd::kDenseTiles;
  constexpr int kRows = Simd::kDenseRows;
  int tile = p.tileBegin;
  if (p.nRows <= 2) {
    for (; tile + 4 <= p.tileEnd; tile += 4) rowsFrom<4, 2>(p, TileColumns<W, 4>(p, tile), tile, 0);
  }
  const bool widen = W != WeightFormat::kF32 && p.panel != nullptr && p.nRows > 2 * kRows;
  for (; tile < p.tileEnd; tile += kTiles) {
    const TileColumns<W, kTiles> w(p, tile);
    if (!widen) {
      rowsFrom<kTiles, kRows>(p, w, tile, 0);
      continue;
    }
    for (int c = 0; c < p.weights->groups * kGroup; c += 2) {
      F first[kTiles], second[kTiles];
      w.load(c, first, second);
      for (int t = 0; t < kTiles; ++t) {
        Simd::store(p.panel + (c * kTiles + t) * kTileRows, first[t]);
        Simd::store(p.panel + ((c + 1) * kTiles + t) * kTileRows, second[t]);
      }
    }
    rowsFrom<kTiles, kRows>(p, PanelColumns<kTiles>{p.panel}, tile, 0);
  }
}

inline void dotProduct(const MatmulParams& p) {
  int tile = p.tileBegin;
  if (p.nRows <= 2) {
    for (; tile + 4 <= p.tileEnd; tile += 4) dotRowsFrom<4, 2>(p, tile, 0);
  }
  for (; tile < p.tileEnd; tile += Simd::kDenseTiles) {
    dotRowsFrom<Simd::kDenseTiles, Simd::kDenseRows>(p, tile, 0);
  }
}

}  // namespace

namespace VITRINE_CPU_NAMESPACE {

void matmulFloat(const MatmulParams& p) {
  if constexpr (Simd::kDotsBf16) {
    if (p.x->format == ActivationFormat::kBf16) return dotProduct(p);
  }
  switch (p.weights->format) {
    case WeightFormat::kF32:
      product<WeightFormat::kF32>(p);
      return;
    case WeightFormat::kF16:
      product<WeightFormat::kF16>(p);
      return;
    default:
      product<WeightFormat::kBf16>(p);
      return;
  }
}

}  // namespace VITRINE_CPU_NAMESPACE
}  // namespace vitrine::kernels::cpu

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/kv_cache.h"

// Views of device memory that the CUDA kernels share. All pointers are device pointers, 16-byte
// aligned at least; nothing here owns.

namespace vitrine::kernels::cuda {

/// Columns of weights and of the rows that enter a product are padded with zeros to a multiple of
/// this, so that every load is a wide one and every INT8 group is whole.
inline constexpr int kColumnPad = 64;
/// Outputs of a weight matrix are padded with zero rows to a multiple of this.
inline constexpr int kOutputPad = 16;

constexpr int roundUp(int n, int multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

enum class RowType : std::uint8_t { kFp32, kFp16, kBf16, kInt8 };

/// Rows of activations [rows, stride]. Columns from the width up to `stride` are zero.
struct Rows {
  RowType type = RowType::kFp32;
  void* values = nullptr;   // [rows, stride]
  float* scales = nullptr;  // kInt8: [rows, groups()]; x ≈ scale · q, as quantizeInt8()
  int stride = 0;           ///< elements from a row to the next, a multiple of kColumnPad
  int groupSize = 0;        ///< kInt8: 32, 64, or `stride`: one scale a row

  constexpr int groups() const { return groupSize > 0 ? stride / groupSize : 0; }
};

/// How a matrix is held. (Formats of 4 to 6 bits computed natively get their entries here.)
enum class WeightFormat : std::uint8_t { kFp16, kBf16, kInt8 };

/// A weight matrix W [out, in], row-major, padded to [paddedOut, stride] with zeros.
/// kInt8: W[o, i] = outputScale · scales[o, i / groupSize] · q[o, i]
struct Matrix {
  WeightFormat format = WeightFormat::kFp16;
  int out = 0;
  int in = 0;
  int paddedOut = 0;             ///< a multiple of kOutputPad
  int stride = 0;                ///< a multiple of kColumnPad
  const void* values = nullptr;  // [paddedOut, stride]
  const void* scales = nullptr;  // kInt8: FP16 [paddedOut, groups()]
  int groupSize = 0;             ///< kInt8: 32, 64, or `stride`: one scale an output
  float outputScale = 1.0F;      ///< kInt8: a power of two: what the stored scales leave out

  constexpr int groups() const { return groupSize > 0 ? stride / groupSize : 0; }
};

/// Where one layer lies in a block of the KV pool; the runs are those of kernels/api/kv_cache.h.
struct KvLayer {
  std::size_t kOffset = 0, vOffset = 0;            ///< bytes into a block, 16-byte aligned
  std::size_t kScaleOffset = 0, vScaleOffset = 0;  ///< kInt8
  KvElement element = KvElement::kFp16;
  int blockSize = 16;
  int nKvHeads = 0;
  int headDim = 0;  ///< a multiple of 8, at most 256
};

/// The rows of a step and the blocks of their sequences, in device memory, so that a captured graph
/// replays with new ones. A row at position −1 is padding: nothing is stored for it, its outputs
/// are zeros or left as they are.
struct StepRows {
  int rows = 0;
  const std::int32_t* positions = nullptr;  // [rows]
  const std::int32_t* sequences = nullptr;  // [rows] which line of `blocks`
  std::byte* const* blocks = nullptr;       // [sequences, maxBlocks] address of each block
  int maxBlocks = 0;
};

/// Head counts and the projections' rows: qkv [rows, (nHeads + 2 nKvHeads) · headDim] FP32, the
/// queries first, then keys, then values.
struct Heads {
  int nHeads = 0;
  int nKvHeads = 0;
  int headDim = 0;

  constexpr int group() const { return nHeads / nKvHeads; }
  constexpr int qDim() const { return nHeads * headDim; }
  constexpr int kvDim() const { return nKvHeads * headDim; }
  constexpr int qkvDim() const { return qDim() + 2 * kvDim(); }
};

}  // namespace vitrine::kernels::cuda

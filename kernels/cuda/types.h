#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/kv_cache.h"

// Views of device memory that the CUDA kernels share. All pointers are device pointers, 16-byte
// aligned at least; nothing here owns.

namespace vitrine::kernels::cuda {

/// Columns of weights and of the rows that enter a product are padded with zeros to a multiple of
/// this, so that every load is a wide one. Of INT8 groups of 128 the last may be half of one.
inline constexpr int kColumnPad = 64;
/// Outputs of a weight matrix are padded with zero rows to a multiple of this.
inline constexpr int kOutputPad = 16;

constexpr int roundUp(int n, int multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// INT8 values share a scale in groups of 32, 64 or 128 columns, or this: all of a row do.
inline constexpr int kWholeRow = 0;
constexpr bool isGroupSize(int groupSize) {
  return groupSize == 32 || groupSize == 64 || groupSize == 128 || groupSize == kWholeRow;
}
/// Scales of a row.
constexpr int scalesOf(int stride, int groupSize) {
  return groupSize > 0 ? (stride + groupSize - 1) / groupSize : 1;
}

enum class RowType : std::uint8_t { kFp32, kFp16, kBf16, kInt8 };

/// What went through a static scale, counted by the kernels that quantize.
struct StaticUse {
  unsigned long long values = 0;
  unsigned long long clipped = 0;  ///< |x| beyond 127 scales
  unsigned largest = 0;            ///< the bits of the largest |x|
};

/// Columns that are zero in INT8 rows and lie beside them in FP16, for a product of their own.
struct Outliers {
  int count = 0;
  int stride = 0;                         ///< of `values`: `count` rounded up to kColumnPad
  const std::int32_t* columns = nullptr;  // [count]
  const std::uint32_t* isOutlier =
      nullptr;                      // a bit a column of the rows, [stride of the rows / 32]
  std::uint16_t* values = nullptr;  // FP16 [rows, stride], zeros from `count` on
};

/// Rows of activations [rows, stride]. Columns from the width up to `stride` are zero.
struct Rows {
  RowType type = RowType::kFp32;
  void* values = nullptr;     // [rows, stride]
  float* scales = nullptr;    // kInt8: [rows, groups()]; x ≈ scale · q, as quantizeInt8()
  int stride = 0;             ///< elements from a row to the next, a multiple of kColumnPad
  int groupSize = kWholeRow;  ///< kInt8

  // kInt8, for who writes the rows:
  float staticScale = 0.0F;  ///< of every group; larger values are clipped. 0: each has its own
  StaticUse* use = nullptr;  ///< of the static scale, or null
  const std::int32_t* positions = nullptr;  // [rows]; at −1 a row is not counted. Null: all are
  Outliers outliers;

  constexpr int groups() const { return scalesOf(stride, groupSize); }
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
  int groupSize = kWholeRow;     ///< kInt8
  float outputScale = 1.0F;      ///< kInt8: a power of two: what the stored scales leave out

  constexpr int groups() const { return scalesOf(stride, groupSize); }
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

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/tensor_type.h"
#include "kernels/api/weight_change.h"

// Weights as the fast kernels read them: W [rows, cols] cut into tiles of 16 rows, each tile one
// run of bytes in which the 16 rows are interleaved, so that one vector register holds the same
// column(s) of 16 rows and every output has a lane, and so a sum order, of its own. Columns are
// padded with zeros to a multiple of 32 (a group), tiles to an even number. README.md draws it.

namespace vitrine::kernels::cpu {

enum class WeightFormat : std::uint8_t {
  kF32,   ///< [column][row] FP32
  kF16,   ///< [column][row] FP16
  kBf16,  ///< [column / 2][row][2] bfloat16
  kInt8,  ///< scales [scale group][row] FP16, then [group][column / 4][row][4] uint8 = w + 128
  kQ4_0,  ///< scales [group][row] FP16, then [group][4][row][4] bytes of two nibbles
  kQ4_1,  ///< scales and minima [group][2][row] FP16, then as kQ4_0
};
const char* nameOf(WeightFormat format);  // "F32", "F16", "BF16", "INT8", "Q4_0", "Q4_1"

inline constexpr int kTileRows = 16;
inline constexpr int kGroup = 32;

/// A packed matrix; a view except for its shape.
struct PackedMatrix {
  WeightFormat format = WeightFormat::kF32;
  int rows = 0;
  int cols = 0;
  int groups = 0;                   ///< of 32 columns, the last one padded
  int groupsPerScale = 1;           ///< kInt8: so many groups share a scale
  bool scalePerRow = false;         ///< kInt8: all groups of a row do
  int tiles = 0;                    ///< even
  std::size_t dataOffset = 0;       ///< values, in bytes into a tile (scales come first)
  std::size_t tileBytes = 0;        ///< a multiple of 64
  float outputScale = 1.0F;         ///< a power of two: what the stored scales leave out
  float tensorLargest = 0.0F;       ///< > 0: largest magnitude, whose scale every row takes
  const std::byte* data = nullptr;  // [tiles, tileBytes], 64-byte aligned

  std::size_t bytes() const { return tileBytes * static_cast<std::size_t>(tiles); }
  const std::byte* tile(int i) const { return data + tileBytes * static_cast<std::size_t>(i); }
};

/// A matrix as it lies in a model file, and what is done to it before it is packed.
struct FileMatrix {
  TensorType type = TensorType::kF32;
  int rows = 0;
  int cols = 0;
  std::size_t rowBytes = 0;
  const std::byte* data = nullptr;
  WeightChange change{};
  /// Not null: only these columns are packed, side by side. [columnCount], ascending.
  const int* columns = nullptr;
  int columnCount = 0;

  int packedCols() const { return columns != nullptr ? columnCount : cols; }
};

/// The format that keeps a file's values as they are.
WeightFormat nativeFormat(TensorType type);

/// groupSize of a scale a row.
inline constexpr int kWholeRow = 0;

/// Shape, offsets and outputScale of a packed matrix; `data` is still null. `groupSize`, for kInt8:
/// 32, 64, 128 or kWholeRow (Q8_0 keeps its own integers where 32 is asked for and nothing is
/// changed). For one scale a matrix: kWholeRow, and tensorLargest set to the largest magnitude.
PackedMatrix planMatrix(const FileMatrix& from, WeightFormat format, int groupSize);

/// What packing found out.
struct PackReport {
  bool overflowsFp16 = false;  ///< a finite weight beyond 65504 for kF16
  float largestScale = 0.0F;   ///< kInt8: of the scales, before outputScale is taken out
};

/// Floats of scratch that the two functions below need.
std::size_t packScratchFloats(const FileMatrix& from);
/// The largest magnitude in the rows of tile `tile`, after what is done to them.
float tileLargest(const FileMatrix& from, int tile, float* row);
/// Fills tile `tile` of `to` at `out` (tileBytes). `row` is scratch.
PackReport packTile(const FileMatrix& from, const PackedMatrix& to, int tile, std::byte* out,
                    float* row);

}  // namespace vitrine::kernels::cpu

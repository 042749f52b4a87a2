#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/api/half.h"
#include "kernels/api/int8_weights.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/reference/dequantize.h"

namespace vitrine::kernels::cpu {
namespace {

constexpr std::size_t roundUp(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

std::uint16_t loadU16(const std::byte* p) {
  std::uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

/// One row of INT8 groups: scales FP16 (rounded up, so that ±127 is never exceeded), then values.
void packInt8Row(const float* x, const PackedMatrix& to, int lane, std::byte* out, float& largest) {
  const int width = kGroup * to.groupsPerScale;
  const int padded = to.groups * kGroup;
  for (int first = 0, s = 0; first < padded; first += width, ++s) {
    const int count = std::min(width, padded - first);
    const Int8Scale scale = to.tensorLargest > 0.0F
                                ? int8ScaleOf(to.tensorLargest, to.outputScale, largest)
                                : int8WeightScale(x + first, count, to.outputScale, largest);
    store(out + (static_cast<std::size_t>(s) * kTileRows + lane) * 2, scale.stored);
    for (int i = 0; i < count; ++i) {
      const int q = int8Weight(x[first + i], scale.value) + 128;
      const int column = first + i;
      const std::size_t at =
          (static_cast<std::size_t>(column / 4) * kTileRows + lane) * 4 + column % 4;
      out[to.dataOffset + at] = static_cast<std::byte>(q);
    }
  }
}

/// One row of Q8_0, Q4_0 or Q4_1 blocks, bit for bit.
void packBlocks(const std::byte* blocks, TensorType type, const PackedMatrix& to, int lane,
                std::byte* out) {
  const int blockBytes = tensorTypeInfo(type).blockBytes;
  for (int g = 0; g < to.groups; ++g, blocks += blockBytes) {
    const std::byte* values = blocks + 2;
    if (type == TensorType::kQ4_1) {
      std::byte* scales = out + static_cast<std::size_t>(g) * kTileRows * 4;
      store(scales + lane * 2, loadU16(blocks));
      store(scales + (kTileRows + lane) * 2, loadU16(blocks + 2));
      values += 2;
    } else {
      store(out + (static_cast<std::size_t>(g) * kTileRows + lane) * 2, loadU16(blocks));
    }
    const int quads = type == TensorType::kQ8_0 ? 8 : 4;
    std::byte* data = out + to.dataOffset + static_cast<std::size_t>(g) * quads * kTileRows * 4;
    for (int quad = 0; quad < quads; ++quad) {
      std::byte* at = data + (static_cast<std::size_t>(quad) * kTileRows + lane) * 4;
      std::memcpy(at, values + quad * 4, 4);
      if (type == TensorType::kQ8_0) {
        for (int i = 0; i < 4; ++i) at[i] ^= std::byte{0x80};  // int8 to uint8: plus 128
      }
    }
  }
}

/// Whether the packed form holds the file's own blocks.
bool isNativeBlocks(const FileMatrix& from, const PackedMatrix& to) {
  if (to.format == WeightFormat::kInt8) {
    return keepsFileInt8(from.type, !to.scalePerRow && to.groupsPerScale == 1,
                         from.change.any() || from.columns != nullptr);
  }
  return to.format == WeightFormat::kQ4_0 || to.format == WeightFormat::kQ4_1;
}

/// A row of the file as it is to be held, padded with zeros to `padded` columns.
void loadRow(const FileMatrix& from, int r, float* row, int padded) {
  reference::dequantize(from.type, from.data + from.rowBytes * static_cast<std::size_t>(r), row,
                        from.cols);
  from.change.apply(r, row, from.cols);
  // Ascending: a column never comes from one that was written over.
  for (int i = 0; from.columns != nullptr && i < from.columnCount; ++i)
    row[i] = row[from.columns[i]];
  std::fill(row + from.packedCols(), row + padded, 0.0F);
}

}  // namespace

const char* nameOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "F32";
    case WeightFormat::kF16:
      return "F16";
    case WeightFormat::kBf16:
      return "BF16";
    case WeightFormat::kInt8:
      return "INT8";
    case WeightFormat::kQ4_0:
      return "Q4_0";
    case WeightFormat::kQ4_1:
      return "Q4_1";
  }
  return "?";
}

WeightFormat nativeFormat(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return WeightFormat::kF32;
    case TensorType::kF16:
      return WeightFormat::kF16;
    case TensorType::kBF16:
      return WeightFormat::kBf16;
    case TensorType::kQ8_0:
      return WeightFormat::kInt8;
    case TensorType::kQ4_0:
      return WeightFormat::kQ4_0;
    case TensorType::kQ4_1:
      return WeightFormat::kQ4_1;
  }
  return WeightFormat::kF32;
}

PackedMatrix planMatrix(const FileMatrix& from, WeightFormat format, int groupSize) {
  PackedMatrix m;
  m.format = format;
  m.rows = from.rows;
  m.cols = from.packedCols();
  m.groups = (m.cols + kGroup - 1) / kGroup;
  m.tiles =
      static_cast<int>(roundUp(static_cast<std::size_t>(from.rows), 2 * kTileRows)) / kTileRows;
  const auto groups = static_cast<std::size_t>(m.groups);
  const auto columns = groups * kGroup;
  std::size_t valueBytes = 0;
  std::size_t scaleBytes = 0;
  switch (format) {
    case WeightFormat::kF32:
      valueBytes = columns * kTileRows * 4;
      break;
    case WeightFormat::kF16:
    case WeightFormat::kBf16:
      valueBytes = columns * kTileRows * 2;
      break;
    case WeightFormat::kInt8:
      m.scalePerRow = groupSize == kWholeRow;
      m.groupsPerScale = m.scalePerRow ? m.groups : groupSize / kGroup;
      if (!isNativeBlocks(from, m)) m.outputScale = kUsualOutputScale;
      valueBytes = columns * kTileRows;
      scaleBytes = (groups + m.groupsPerScale - 1) / m.groupsPerScale * kTileRows * 2;
      break;
    case WeightFormat::kQ4_0:
      valueBytes = columns * kTileRows / 2;
      scaleBytes = groups * kTileRows * 2;
      break;
    case WeightFormat::kQ4_1:
      valueBytes = columns * kTileRows / 2;
      scaleBytes = groups * kTileRows * 4;
      break;
  }
  m.dataOffset = roundUp(scaleBytes, 64);
  m.tileBytes = roundUp(m.dataOffset + valueBytes, 64);
  return m;
}

std::size_t packScratchFloats(const FileMatrix& from) {
  return roundUp(static_cast<std::size_t>(from.cols), kGroup);
}

float tileLargest(const FileMatrix& from, int tile, float* row) {
  float largest = 0.0F;
  for (int r = tile * kTileRows; r < std::min((tile + 1) * kTileRows, from.rows); ++r) {
    loadRow(from, r, row, from.packedCols());
    largest = std::max(largest, largestMagnitude(row, from.packedCols()));
  }
  return largest;
}

PackReport packTile(const FileMatrix& from, const PackedMatrix& to, int tile, std::byte* out,
                    float* row) {
  PackReport report;
  std::memset(out, 0, to.tileBytes);
  const int padded = to.groups * kGroup;
  for (int lane = 0; lane < kTileRows; ++lane) {
    const int r = tile * kTileRows + lane;
    if (r >= from.rows) break;  // zeros; scales of zero make any stored value zero
    if (isNativeBlocks(from, to)) {
      packBlocks(from.data + from.rowBytes * static_cast<std::size_t>(r), from.type, to, lane, out);
      continue;
    }
    loadRow(from, r, row, padded);
    switch (to.format) {
      case WeightFormat::kF32:
        for (int c = 0; c < padded; ++c) {
          store(out + (static_cast<std::size_t>(c) * kTileRows + lane) * 4, row[c]);
        }
        break;
      case WeightFormat::kF16:
        for (int c = 0; c < padded; ++c) {
          const std::uint16_t half = floatToHalf(row[c]);
          report.overflowsFp16 |= (half & 0x7FFFU) == 0x7C00U && std::isfinite(row[c]);
          store(out + (static_cast<std::size_t>(c) * kTileRows + lane) * 2, half);
        }
        break;
      case WeightFormat::kBf16:
        for (int c = 0; c < padded; ++c) {
          const std::size_t at = (static_cast<std::size_t>(c / 2) * kTileRows + lane) * 2 + c % 2;
          store(out + at * 2, floatToBfloat16(row[c]));
        }
        break;
      case WeightFormat::kInt8:
        packInt8Row(row, to, lane, out, report.largestScale);
        break;
      case WeightFormat::kQ4_0:
      case WeightFormat::kQ4_1:
        break;  // only ever native
    }
  }
  return report;
}

}  // namespace vitrine::kernels::cpu

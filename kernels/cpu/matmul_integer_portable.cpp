// Matrix product with INT8, Q4_0 and Q4_1 weights in plain C++: the same layout, group sums and
// order as the other instruction sets.

#include <cstring>

#include "kernels/api/half.h"
#include "kernels/cpu/kernel_functions.h"

namespace vitrine::kernels::cpu::portable {
namespace {

/// acc[r] += Σ w[r, k] · x[k] over one group of a tile.
void dotGroup(WeightFormat format, const std::byte* w, const std::int16_t* x,
              std::int32_t (&acc)[kTileRows]) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(w);
  if (format == WeightFormat::kInt8) {
    for (int quad = 0; quad < 8; ++quad, bytes += 64, x += 4) {
      for (int r = 0; r < kTileRows; ++r) {
        for (int i = 0; i < 4; ++i) acc[r] += std::int32_t{bytes[r * 4 + i]} * x[i];
      }
    }
    return;
  }
  for (int quad = 0; quad < 4; ++quad, bytes += 64, x += 4) {
    for (int r = 0; r < kTileRows; ++r) {
      for (int i = 0; i < 4; ++i) {
        const std::int32_t both = bytes[r * 4 + i];
        acc[r] += (both & 15) * x[i] + (both >> 4) * x[16 + i];
      }
    }
  }
}

void storeSums(const MatmulParams& p, int first, int row, const float (&sums)[kTileRows]) {
  const PackedMatrix& w = *p.weights;
  const int count = w.rows - first < kTileRows ? w.rows - first : kTileRows;
  float* y = p.y + p.yStride * row + first;
  for (int r = 0; r < count; ++r) {
    const float v = sums[r] * w.outputScale;
    y[r] = p.accumulate ? y[r] + v : v;
  }
}

void tileRow(const MatmulParams& p, int tile, int row) {
  const PackedMatrix& w = *p.weights;
  const bool bytes = w.format == WeightFormat::kInt8;
  const bool minima = w.format == WeightFormat::kQ4_1;
  const int first = tile * kTileRows;
  const std::byte* data = w.tile(tile) + w.dataOffset;
  const std::byte* x = p.x->data + p.x->rowBytes * static_cast<std::size_t>(row);
  float sums[kTileRows] = {};
  for (int g = 0; g < w.groups; ++g, data += bytes ? 512 : 256, x += 64) {
    const std::size_t group =
        static_cast<std::size_t>(row) * static_cast<std::size_t>(w.groups) + g;
    std::int16_t values[kGroup];
    std::memcpy(values, x, sizeof values);
    std::int32_t acc[kTileRows] = {};
    dotGroup(w.format, data, values, acc);
    std::uint16_t scales[2 * kTileRows] = {};
    const int index = bytes ? g / w.groupsPerScale : g;
    const std::size_t scaleBytes = kTileRows * (minima ? 4U : 2U);
    std::memcpy(scales, w.tile(tile) + static_cast<std::size_t>(index) * scaleBytes, scaleBytes);
    const std::int32_t offset = bytes ? p.x->offsets[group] : minima ? 0 : p.x->offsets[group] / 16;
    for (int r = 0; r < kTileRows; ++r) {
      const float scale = halfToFloat(scales[r]) * p.x->scales[group];
      sums[r] += static_cast<float>(acc[r] + offset) * scale;
      if (minima) sums[r] += halfToFloat(scales[kTileRows + r]) * p.x->sums[group];
    }
  }
  storeSums(p, first, row, sums);
}

/// The same with one sum over all columns: INT8 with one scale a row on both sides.
void tileRowSum(const MatmulParams& p, int tile, int row) {
  const PackedMatrix& w = *p.weights;
  const std::byte* data = w.tile(tile) + w.dataOffset;
  const std::byte* x = p.x->data + p.x->rowBytes * static_cast<std::size_t>(row);
  std::int32_t acc[kTileRows] = {};
  for (int g = 0; g < w.groups; ++g, data += 512, x += 64) {
    std::int16_t values[kGroup];
    std::memcpy(values, x, sizeof values);
    std::int32_t sum = 0;  // the offset is taken out group by group, so that nothing overflows
    for (std::int16_t v : values) sum += v;
    std::int32_t part[kTileRows] = {};
    dotGroup(w.format, data, values, part);
    for (int r = 0; r < kTileRows; ++r) acc[r] += part[r] - 128 * sum;
  }
  std::uint16_t scales[kTileRows];
  std::memcpy(scales, w.tile(tile), sizeof scales);
  const float xScale =
      p.x->scales[static_cast<std::size_t>(row) * static_cast<std::size_t>(w.groups)];
  float sums[kTileRows];
  for (int r = 0; r < kTileRows; ++r) {
    sums[r] = static_cast<float>(acc[r]) * (halfToFloat(scales[r]) * xScale);
  }
  storeSums(p, tile * kTileRows, row, sums);
}

}  // namespace

void matmulInteger(const MatmulParams& p) {
  const bool onePerRow = p.x->format == ActivationFormat::kInt8Row;
  for (int tile = p.tileBegin; tile < p.tileEnd; ++tile) {
    for (int row = 0; row < p.nRows; ++row) {
      onePerRow ? tileRowSum(p, tile, row) : tileRow(p, tile, row);
    }
  }
}

}  // namespace vitrine::kernels::cpu::portable

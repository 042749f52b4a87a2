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

void tileRow(const MatmulParams& p, int tile, int row) {
  const PackedMatrix& w = *p.weights;
  const bool bytes = w.format == WeightFormat::kInt8;
  const bool minima = w.format == WeightFormat::kQ4_1;
  const int first = tile * kTileRows;
  const int count = w.rows - first < kTileRows ? w.rows - first : kTileRows;
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
  float* y = p.y + p.yStride * row + first;
  for (int r = 0; r < count; ++r) {
    const float v = sums[r] * w.outputScale;
    y[r] = p.accumulate ? y[r] + v : v;
  }
}

}  // namespace

void matmulInteger(const MatmulParams& p) {
  for (int tile = p.tileBegin; tile < p.tileEnd; ++tile) {
    for (int row = 0; row < p.nRows; ++row) tileRow(p, tile, row);
  }
}

}  // namespace vitrine::kernels::cpu::portable

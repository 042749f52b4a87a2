#pragma once

#include "kernels/cuda/device.cuh"

// Writing FP32 values as Rows of any type, four columns a thread.

namespace vitrine::kernels::cuda {

/// How a kernel writes its rows.
enum class Store { kFp32, kFp16, kBf16, kInt8Group32, kInt8Group64, kInt8Row };

/// Requires (and checks): memory for `width` columns, whole groups, wide stores possible.
inline void requireRows(const Rows& y, int width) {
  require(y.values != nullptr && isAligned(y.values, 16), "rows that are not 16-byte aligned");
  require(width >= 1 && width <= y.stride && y.stride % kColumnPad == 0,
          "rows whose stride is less than their width or no multiple of 64");
  if (y.type != RowType::kInt8) return;
  require(y.scales != nullptr, "INT8 rows without scales");
  require(y.groupSize == 32 || y.groupSize == 64 || y.groupSize == y.stride,
          "INT8 rows in groups of other than 32, 64 or the whole row");
}

inline Store storeOf(const Rows& y) {
  switch (y.type) {
    case RowType::kFp32:
      return Store::kFp32;
    case RowType::kFp16:
      return Store::kFp16;
    case RowType::kBf16:
      return Store::kBf16;
    case RowType::kInt8:
      break;
  }
  if (y.groupSize == 32) return Store::kInt8Group32;
  return y.groupSize == 64 ? Store::kInt8Group64 : Store::kInt8Row;
}

/// Calls run(std::integral_constant<Store, …>) with the store of `y`.
template <typename Run>
void withStore(const Rows& y, const Run& run) {
  switch (storeOf(y)) {
    case Store::kFp32:
      return run(std::integral_constant<Store, Store::kFp32>());
    case Store::kFp16:
      return run(std::integral_constant<Store, Store::kFp16>());
    case Store::kBf16:
      return run(std::integral_constant<Store, Store::kBf16>());
    case Store::kInt8Group32:
      return run(std::integral_constant<Store, Store::kInt8Group32>());
    case Store::kInt8Group64:
      return run(std::integral_constant<Store, Store::kInt8Group64>());
    case Store::kInt8Row:
      return run(std::integral_constant<Store, Store::kInt8Row>());
  }
}

/// Columns column … column + 3 of a row of `width`; zeros beyond it. `wide`: rows are 16-byte
/// aligned.
__device__ __forceinline__ float4 loadFour(const float* row, int column, int width, bool wide) {
  if (wide && column + 4 <= width) return *reinterpret_cast<const float4*>(row + column);
  float4 v = {0.0F, 0.0F, 0.0F, 0.0F};
  if (column < width) v.x = row[column];
  if (column + 1 < width) v.y = row[column + 1];
  if (column + 2 < width) v.z = row[column + 2];
  if (column + 3 < width) v.w = row[column + 3];
  return v;
}

/// Writes row `row` of y, all `stride` columns; the blocks (·, y) of the grid share it, a single
/// one where the row has one scale. `source(column)` gives four columns, zeros beyond the width,
/// and the same each time. Every thread of the block calls this. `parts`: kThreads / 32 words of
/// shared memory, as for blockMax().
template <Store kStore, int kThreads, typename Source>
__device__ __forceinline__ void writeRow(const Rows& y, int row, const Source& source,
                                         unsigned* parts) {
  const int quads = y.stride / 4;
  const std::size_t first = static_cast<std::size_t>(row) * y.stride;
  Int8Scale rowScale = {};
  if constexpr (kStore == Store::kInt8Row) {
    unsigned largest = 0;
    for (int quad = threadIdx.x; quad < quads; quad += kThreads) {
      largest = max(largest, magnitudeBits(source(4 * quad)));
    }
    rowScale = int8Scale(blockMax<kThreads>(largest, parts));
    if (threadIdx.x == 0) y.scales[row] = rowScale.scale;
  }
  // Whole warps go round together: groups of columns are runs of lanes.
  for (int base = blockIdx.y * kThreads; base < quads; base += gridDim.y * kThreads) {
    const int quad = base + threadIdx.x;
    const bool inside = quad < quads;
    const float4 v = inside ? source(4 * quad) : float4{0.0F, 0.0F, 0.0F, 0.0F};
    const std::size_t at = first + 4 * static_cast<std::size_t>(quad);
    if constexpr (kStore == Store::kFp32) {
      if (inside) *reinterpret_cast<float4*>(static_cast<float*>(y.values) + at) = v;
    } else if constexpr (kStore == Store::kFp16) {
      const uint2 words = {packHalves(v.x, v.y), packHalves(v.z, v.w)};
      if (inside) *reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(y.values) + at) = words;
    } else if constexpr (kStore == Store::kBf16) {
      const uint2 words = {packBf16(v.x, v.y), packBf16(v.z, v.w)};
      if (inside) *reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(y.values) + at) = words;
    } else {
      Int8Scale scale = rowScale;
      if constexpr (kStore != Store::kInt8Row) {
        constexpr int kGroup = kStore == Store::kInt8Group32 ? 32 : 64;
        scale = int8Scale(warpMax<kGroup / 4>(magnitudeBits(v)));
        if (inside && quad % (kGroup / 4) == 0) {
          y.scales[static_cast<std::size_t>(row) * (y.stride / kGroup) + quad / (kGroup / 4)] =
              scale.scale;
        }
      }
      const unsigned word = quantizeInt8(v, scale.inverse);
      if (inside) *reinterpret_cast<unsigned*>(static_cast<std::int8_t*>(y.values) + at) = word;
    }
  }
}

}  // namespace vitrine::kernels::cuda

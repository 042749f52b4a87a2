#pragma once

#include "kernels/cuda/device.cuh"

// Writing FP32 values as Rows of any type, four columns a thread.

namespace vitrine::kernels::cuda {

/// How a kernel writes its rows.
enum class Store {
  kFp32,
  kFp16,
  kBf16,
  kInt8Group32,
  kInt8Group64,
  kInt8Group128,
  kInt8Row,
  kInt8Static
};

/// Requires (and checks): memory for `width` columns, whole groups, wide stores possible.
inline void requireRows(const Rows& y, int width) {
  require(y.values != nullptr && isAligned(y.values, 16), "rows that are not 16-byte aligned");
  require(width >= 1 && width <= y.stride && y.stride % kColumnPad == 0,
          "rows whose stride is less than their width or no multiple of 64");
  if (y.type != RowType::kInt8) return;
  require(y.scales != nullptr, "INT8 rows without scales");
  require(isGroupSize(y.groupSize), "INT8 rows in groups of other than 32, 64, 128 or the row");
  require(y.staticScale >= 0.0F, "a static scale that is negative or not a number");
  const Outliers& o = y.outliers;
  require(o.count == 0 || (o.columns != nullptr && o.isOutlier != nullptr && o.values != nullptr),
          "outlier columns without a place");
  require(o.count >= 0 && o.count <= width && o.stride >= o.count && o.stride % kColumnPad == 0,
          "outlier columns that are more than the row's, or whose rows are not padded");
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
  if (y.staticScale > 0.0F) return Store::kInt8Static;
  switch (y.groupSize) {
    case 32:
      return Store::kInt8Group32;
    case 64:
      return Store::kInt8Group64;
    case 128:
      return Store::kInt8Group128;
    default:
      return Store::kInt8Row;
  }
}

/// Whether one block must write all of a row.
inline bool needsWholeRow(const Rows& y) {
  const Store store = storeOf(y);
  return store == Store::kInt8Row || store == Store::kInt8Static;
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
    case Store::kInt8Group128:
      return run(std::integral_constant<Store, Store::kInt8Group128>());
    case Store::kInt8Row:
      return run(std::integral_constant<Store, Store::kInt8Row>());
    case Store::kInt8Static:
      return run(std::integral_constant<Store, Store::kInt8Static>());
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

/// Four columns of `source` as INT8 rows hold them: zeros where they are outliers.
template <typename Source>
__device__ __forceinline__ float4 withoutOutliers(const Outliers& outliers, const Source& source,
                                                  int column) {
  float4 v = source(column);
  if (outliers.count > 0) {
    const unsigned bits = __ldg(outliers.isOutlier + column / 32) >> (column % 32);
    if ((bits & 1U) != 0) v.x = 0.0F;
    if ((bits & 2U) != 0) v.y = 0.0F;
    if ((bits & 4U) != 0) v.z = 0.0F;
    if ((bits & 8U) != 0) v.w = 0.0F;
  }
  return v;
}

/// The FP16 columns beside row `row`, by one block.
template <int kThreads, typename Source>
__device__ __forceinline__ void writeOutliers(const Outliers& outliers, int row,
                                              const Source& source) {
  for (int i = threadIdx.x; i < outliers.stride; i += kThreads) {
    float value = 0.0F;
    if (i < outliers.count) {
      const int column = __ldg(outliers.columns + i);
      const float4 v = source(column / 4 * 4);
      const float low = column % 2 == 0 ? v.x : v.y;
      const float high = column % 2 == 0 ? v.z : v.w;
      value = column % 4 < 2 ? low : high;
    }
    outliers.values[static_cast<std::size_t>(row) * outliers.stride + i] = toHalfBits(value);
  }
}

/// writeRow() with the static scale, to the bit as quantizeInt8Static() of kernels/api/quantize.h:
/// values beyond 127 scales are clipped, and counted; a NaN or an infinity becomes the scale of its
/// row, so that it is seen.
template <int kThreads, typename Source>
__device__ __forceinline__ void writeStaticRow(const Rows& y, int row, const Source& source,
                                               unsigned* parts) {
  const float inverse = 1.0F / y.staticScale;
  const unsigned limit = magnitudeBits(127.0F * y.staticScale);
  auto* to = reinterpret_cast<unsigned*>(static_cast<std::int8_t*>(y.values) +
                                         static_cast<std::size_t>(row) * y.stride);
  unsigned largest = 0;
  int clipped = 0;
  for (int quad = threadIdx.x; quad < y.stride / 4; quad += kThreads) {
    const float4 v = withoutOutliers(y.outliers, source, 4 * quad);
    largest = max(largest, magnitudeBits(v));
    clipped += static_cast<int>(magnitudeBits(v.x) > limit) +
               static_cast<int>(magnitudeBits(v.y) > limit) +
               static_cast<int>(magnitudeBits(v.z) > limit) +
               static_cast<int>(magnitudeBits(v.w) > limit);
    to[quad] = quantizeInt8(v, inverse);
  }
  largest = blockMax<kThreads>(largest, parts);
  const float scale = largest >= 0x7F800000U ? __uint_as_float(largest) : y.staticScale;
  for (int g = threadIdx.x; g < y.groups(); g += kThreads) {
    y.scales[static_cast<std::size_t>(row) * y.groups() + g] = scale;
  }
  if (y.use == nullptr || (y.positions != nullptr && y.positions[row] < 0)) return;
  clipped = warpSum(clipped);
  if (threadIdx.x % kWarp == 0 && clipped > 0) {
    atomicAdd(&y.use->clipped, static_cast<unsigned long long>(clipped));
  }
  if (threadIdx.x == 0) {
    atomicAdd(&y.use->values, static_cast<unsigned long long>(source.width - y.outliers.count));
    atomicMax(&y.use->largest, largest);
  }
}

/// Writes row `row` of y, all `stride` columns; the blocks (·, y) of the grid share it, a single
/// one where needsWholeRow(). `source(column)` gives four columns, zeros beyond `source.width`, and
/// the same each time. Every thread of the block calls this; what it gives lies where every thread
/// may read it. `parts`: kThreads / 32 words of shared memory, as for blockMax().
template <Store kStore, int kThreads, typename Source>
__device__ __forceinline__ void writeRow(const Rows& y, int row, const Source& source,
                                         unsigned* parts) {
  constexpr bool kInt8 = kStore != Store::kFp32 && kStore != Store::kFp16 && kStore != Store::kBf16;
  if constexpr (kInt8) {
    if (blockIdx.y == 0) writeOutliers<kThreads>(y.outliers, row, source);
  }
  if constexpr (kStore == Store::kInt8Static) {
    writeStaticRow<kThreads>(y, row, source, parts);
    return;
  }
  const int quads = y.stride / 4;
  const std::size_t first = static_cast<std::size_t>(row) * y.stride;
  Int8Scale rowScale = {};
  if constexpr (kStore == Store::kInt8Row) {
    unsigned largest = 0;
    for (int quad = threadIdx.x; quad < quads; quad += kThreads) {
      largest = max(largest, magnitudeBits(withoutOutliers(y.outliers, source, 4 * quad)));
    }
    rowScale = int8Scale(blockMax<kThreads>(largest, parts));
    if (threadIdx.x == 0) y.scales[row] = rowScale.scale;
  }
  // Whole warps go round together: groups of columns are runs of lanes.
  for (int base = blockIdx.y * kThreads; base < quads; base += gridDim.y * kThreads) {
    const int quad = base + threadIdx.x;
    const bool inside = quad < quads;
    float4 v = {0.0F, 0.0F, 0.0F, 0.0F};
    if (inside) v = kInt8 ? withoutOutliers(y.outliers, source, 4 * quad) : source(4 * quad);
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
        constexpr int kGroup = kStore == Store::kInt8Group32   ? 32
                               : kStore == Store::kInt8Group64 ? 64
                                                               : 128;
        scale = int8Scale(warpMax<kGroup / 4>(magnitudeBits(v)));
        if (inside && quad % (kGroup / 4) == 0) {
          y.scales[static_cast<std::size_t>(row) * ceilDiv(y.stride, kGroup) +
                   quad / (kGroup / 4)] = scale.scale;
        }
      }
      const unsigned word = quantizeInt8(v, scale.inverse);
      if (inside) *reinterpret_cast<unsigned*>(static_cast<std::int8_t*>(y.values) + at) = word;
    }
  }
}

}  // namespace vitrine::kernels::cuda

#include "engine/backend/cuda/weight_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/api/int8_weights.h"
#include "kernels/reference/dequantize.h"

namespace vitrine::engine::cuda {

namespace gpu = kernels::cuda;

namespace {

constexpr int kBlockValues = 32;

/// A block of Q8_0 keeps its bits if its scale over the matrix's outputScale is an FP16 number.
bool keepBlock(const std::byte* block, float outputScale, std::byte* values, std::uint16_t* scale) {
  std::uint16_t own = 0;
  std::memcpy(&own, block, sizeof own);
  const float d = kernels::halfToFloat(own);
  const std::uint16_t stored = kernels::floatToHalf(d / outputScale);
  if (outputScale != 1.0F && kernels::halfToFloat(stored) * outputScale != d) return false;
  std::memcpy(values, block + sizeof own, kBlockValues);
  *scale = stored;
  return true;
}

RowReport convertInt8(const WeightRows& from, const std::byte* source, const gpu::Matrix& to,
                      const float* x, const RowPlace& place) {
  RowReport report;
  const bool blocks =
      kernels::keepsFileInt8(from.file.type, to.groupSize == kBlockValues, from.changesValues());
  const int blockBytes = kernels::tensorTypeInfo(from.file.type).blockBytes;
  const int columns = to.groupSize == gpu::kWholeRow ? to.stride : to.groupSize;
  for (int g = 0; g < to.groups(); ++g) {
    const int first = g * columns;
    const int count = std::min(columns, to.stride - first);
    std::byte* q = place.values + first;
    const auto scale =
        from.tensorLargest > 0.0F
            ? kernels::int8ScaleOf(from.tensorLargest, to.outputScale, report.largestScale)
            : kernels::int8WeightScale(x + first, count, to.outputScale, report.largestScale);
    if (blocks && first < from.file.cols &&
        keepBlock(source + static_cast<std::ptrdiff_t>(g) * blockBytes, to.outputScale, q,
                  place.scales + g)) {
      continue;
    }
    place.scales[g] = scale.stored;
    for (int i = 0; i < count; ++i) {
      q[i] = static_cast<std::byte>(kernels::int8Weight(x[first + i], scale.value));
    }
  }
  return report;
}

bool keepsBits(kernels::TensorType from, gpu::WeightFormat to) {
  return (from == kernels::TensorType::kF16 && to == gpu::WeightFormat::kFp16) ||
         (from == kernels::TensorType::kBF16 && to == gpu::WeightFormat::kBf16);
}

/// Row `row` as it is to be held, outliers included.
void load(const WeightRows& from, std::int64_t row, float* values) {
  const TensorView& file = from.file;
  kernels::reference::dequantize(
      file.type, file.data + file.rowBytes() * static_cast<std::size_t>(row), values, file.cols);
  from.change.apply(static_cast<int>(row), values, static_cast<int>(file.cols));
}

void clearOutliers(const WeightRows& from, float* values) {
  for (const int column : from.outliers) values[column] = 0.0F;
}

}  // namespace

void RowReport::add(const RowReport& other) {
  overflowsFp16 |= other.overflowsFp16;
  largestScale = std::max(largestScale, other.largestScale);
}

std::size_t rowValueBytes(const gpu::Matrix& matrix) {
  return static_cast<std::size_t>(matrix.stride) *
         (matrix.format == gpu::WeightFormat::kInt8 ? 1 : 2);
}

std::size_t rowScaleBytes(const gpu::Matrix& matrix) {
  return matrix.format == gpu::WeightFormat::kInt8
             ? static_cast<std::size_t>(matrix.groups()) * sizeof(std::uint16_t)
             : 0;
}

RowReport convertRow(const WeightRows& from, std::int64_t row, const CudaMatrix& to, float* scratch,
                     const RowPlace& place) {
  const gpu::Matrix& weights = to.weights;
  const std::byte* source = from.file.data + from.file.rowBytes() * static_cast<std::size_t>(row);
  const auto cols = static_cast<std::size_t>(from.file.cols);
  if (keepsBits(from.file.type, weights.format) && !from.changesValues()) {
    std::memcpy(place.values, source, cols * 2);
    std::memset(place.values + cols * 2, 0, rowValueBytes(weights) - cols * 2);
    return {};
  }
  load(from, row, scratch);
  std::fill(scratch + cols, scratch + weights.stride, 0.0F);
  RowReport report;
  const auto toHalf = [&report](float value) {
    const std::uint16_t bits = kernels::floatToHalf(value);
    report.overflowsFp16 |= (bits & 0x7FFFU) == 0x7C00U && std::isfinite(value);
    return bits;
  };
  if (to.hasOutliers()) {
    std::fill(place.outliers, place.outliers + to.outliers.stride, std::uint16_t{0});
    for (std::size_t i = 0; i < from.outliers.size(); ++i) {
      place.outliers[i] = toHalf(scratch[from.outliers[i]]);
    }
    clearOutliers(from, scratch);
  }
  if (weights.format == gpu::WeightFormat::kInt8) {
    report.add(convertInt8(from, source, weights, scratch, place));
    return report;
  }
  for (int c = 0; c < weights.stride; ++c) {
    const std::uint16_t bits = weights.format == gpu::WeightFormat::kFp16
                                   ? toHalf(scratch[c])
                                   : kernels::floatToBfloat16(scratch[c]);
    std::memcpy(place.values + static_cast<std::ptrdiff_t>(c) * 2, &bits, sizeof bits);
  }
  return report;
}

float largestOfRow(const WeightRows& from, std::int64_t row, float* scratch) {
  load(from, row, scratch);
  clearOutliers(from, scratch);
  return kernels::largestMagnitude(scratch, static_cast<int>(from.file.cols));
}

}  // namespace vitrine::engine::cuda

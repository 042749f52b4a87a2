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

RowReport convertInt8(const TensorView& from, const std::byte* source, const gpu::Matrix& to,
                      const float* x, std::byte* values, std::uint16_t* scales) {
  RowReport report;
  const bool blocks = from.type == kernels::TensorType::kQ8_0 && to.groupSize == kBlockValues;
  const int blockBytes = kernels::tensorTypeInfo(from.type).blockBytes;
  for (int g = 0; g < to.groups(); ++g) {
    const int first = g * to.groupSize;
    std::byte* q = values + first;
    const auto scale =
        kernels::int8WeightScale(x + first, to.groupSize, to.outputScale, report.largestScale);
    if (blocks && first < from.cols &&
        keepBlock(source + static_cast<std::ptrdiff_t>(g) * blockBytes, to.outputScale, q,
                  scales + g)) {
      continue;
    }
    scales[g] = scale.stored;
    for (int i = 0; i < to.groupSize; ++i) {
      q[i] = static_cast<std::byte>(kernels::int8Weight(x[first + i], scale.value));
    }
  }
  return report;
}

bool keepsBits(kernels::TensorType from, gpu::WeightFormat to) {
  return (from == kernels::TensorType::kF16 && to == gpu::WeightFormat::kFp16) ||
         (from == kernels::TensorType::kBF16 && to == gpu::WeightFormat::kBf16);
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

RowReport convertRow(const TensorView& from, std::int64_t row, const gpu::Matrix& to,
                     float* scratch, std::byte* values, std::uint16_t* scales) {
  const std::byte* source = from.data + from.rowBytes() * static_cast<std::size_t>(row);
  const auto cols = static_cast<std::size_t>(from.cols);
  if (keepsBits(from.type, to.format)) {
    std::memcpy(values, source, cols * 2);
    std::memset(values + cols * 2, 0, rowValueBytes(to) - cols * 2);
    return {};
  }
  kernels::reference::dequantize(from.type, source, scratch, from.cols);
  std::fill(scratch + cols, scratch + to.stride, 0.0F);
  RowReport report;
  if (to.format == gpu::WeightFormat::kInt8) {
    return convertInt8(from, source, to, scratch, values, scales);
  }
  for (int c = 0; c < to.stride; ++c) {
    std::uint16_t bits = 0;
    if (to.format == gpu::WeightFormat::kFp16) {
      bits = kernels::floatToHalf(scratch[c]);
      report.overflowsFp16 |= (bits & 0x7FFFU) == 0x7C00U && std::isfinite(scratch[c]);
    } else {
      bits = kernels::floatToBfloat16(scratch[c]);
    }
    std::memcpy(values + static_cast<std::ptrdiff_t>(c) * 2, &bits, sizeof bits);
  }
  return report;
}

}  // namespace vitrine::engine::cuda

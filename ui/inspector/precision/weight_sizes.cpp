#include "ui/inspector/precision/weight_sizes.h"

namespace vitrine::ui {
namespace {

std::uint64_t matrixBytes(const engine::TensorView& matrix,
                          const engine::WeightPrecision& precision) {
  if (!matrix) return 0;
  const auto rows = std::uint64_t(matrix.rows);
  const auto columns = std::uint64_t(matrix.cols);
  const auto group = std::uint64_t(precision.groupSize > 0 ? precision.groupSize : 32);
  switch (precision.weights) {
    case engine::WeightMode::kNative:
      return matrix.bytes();
    case engine::WeightMode::kFp16:
    case engine::WeightMode::kBf16:
      return rows * columns * 2;
    case engine::WeightMode::kInt8:
      return rows * (columns + (columns + group - 1) / group * sizeof(float));
  }
  return 0;
}

std::uint64_t vectorBytes(const engine::TensorView& vector,
                          const engine::WeightPrecision& precision) {
  if (!vector) return 0;
  if (precision.weights == engine::WeightMode::kNative) return vector.bytes();
  return std::uint64_t(vector.rows) * std::uint64_t(vector.cols) * sizeof(float);
}

}  // namespace

std::uint64_t computedWeightBytes(const engine::Weights& weights,
                                  const engine::WeightPrecision& precision) {
  std::uint64_t bytes =
      matrixBytes(weights.tokenEmbedding, precision) + vectorBytes(weights.outputNorm, precision);
  if (!weights.tiedOutput) bytes += matrixBytes(weights.output, precision);
  for (const engine::LayerWeights& layer : weights.layers) {
    for (const engine::TensorView* matrix :
         {&layer.wq, &layer.wk, &layer.wv, &layer.wo, &layer.wGate, &layer.wUp, &layer.wDown}) {
      bytes += matrixBytes(*matrix, precision);
    }
    for (const engine::TensorView* vector : {&layer.attentionNorm, &layer.bq, &layer.bk, &layer.bv,
                                             &layer.qNorm, &layer.kNorm, &layer.ffnNorm}) {
      bytes += vectorBytes(*vector, precision);
    }
  }
  return bytes;
}

}  // namespace vitrine::ui

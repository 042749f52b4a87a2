#include "ui/precision/weight_sizes.h"

namespace vitrine::ui {
namespace {

constexpr std::uint64_t kScaleBytes = 2;  // FP16
constexpr std::uint64_t kHalfBytes = 2;

std::uint64_t scalesOf(const engine::TensorView& matrix, const engine::WeightPrecision& precision) {
  const auto rows = std::uint64_t(matrix.rows);
  switch (precision.weightScales) {
    case engine::WeightScales::kTensor:
      return 1;
    case engine::WeightScales::kChannel:
      return rows;
    case engine::WeightScales::kGroup:
      break;
  }
  const auto group = std::uint64_t(precision.groupSize > 0 ? precision.groupSize : 32);
  return rows * ((std::uint64_t(matrix.cols) + group - 1) / group);
}

std::uint64_t matrixBytes(const engine::TensorView& matrix,
                          const engine::WeightPrecision& precision, bool kept) {
  if (!matrix) return 0;
  const std::uint64_t values = std::uint64_t(matrix.rows) * std::uint64_t(matrix.cols);
  switch (precision.weights) {
    case engine::WeightMode::kNative:
      return matrix.bytes();
    case engine::WeightMode::kFp16:
    case engine::WeightMode::kBf16:
      return values * kHalfBytes;
    case engine::WeightMode::kInt8:
      return kept ? values * kHalfBytes : values + scalesOf(matrix, precision) * kScaleBytes;
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
  using engine::MatrixPart;
  const bool outputKept = precision.keep.contains(-1, MatrixPart::kOutput);
  std::uint64_t bytes =
      matrixBytes(weights.tokenEmbedding, precision, weights.tiedOutput && outputKept) +
      vectorBytes(weights.outputNorm, precision);
  if (!weights.tiedOutput) bytes += matrixBytes(weights.output, precision, outputKept);
  int number = 0;
  for (const engine::LayerWeights& layer : weights.layers) {
    const std::pair<const engine::TensorView*, MatrixPart> matrices[] = {
        {&layer.wq, MatrixPart::kQ},       {&layer.wk, MatrixPart::kK},
        {&layer.wv, MatrixPart::kV},       {&layer.wo, MatrixPart::kO},
        {&layer.wGate, MatrixPart::kGate}, {&layer.wUp, MatrixPart::kUp},
        {&layer.wDown, MatrixPart::kDown}};
    for (const auto& [matrix, part] : matrices) {
      bytes += matrixBytes(*matrix, precision, precision.keep.contains(number, part));
    }
    for (const engine::TensorView* vector : {&layer.attentionNorm, &layer.bq, &layer.bk, &layer.bv,
                                             &layer.qNorm, &layer.kNorm, &layer.ffnNorm}) {
      bytes += vectorBytes(*vector, precision);
    }
    ++number;
  }
  return bytes;
}

}  // namespace vitrine::ui

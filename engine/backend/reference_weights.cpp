#include "engine/backend/reference_weights.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <span>

#include "engine/backend/kv_regroup.h"
#include "engine/backend/plan_queries.h"
#include "engine/measure/machine.h"
#include "kernels/api/half.h"
#include "kernels/api/int8_weights.h"
#include "kernels/api/weight_change.h"
#include "kernels/reference/dequantize.h"

namespace vitrine::engine {
namespace {

bool isFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

/// Rounds values in place to FP16. False where it cannot hold them.
bool roundToFp16(std::span<float> values) {
  const bool wasFinite = isFinite(values);
  for (float& v : values) v = kernels::halfToFloat(kernels::floatToHalf(v));
  return !wasFinite || isFinite(values);
}

/// The same to INT8, [rows, cols].
void roundToInt8(ReferenceMatrix& matrix, const WeightPrecision& precision) {
  const int group =
      precision.weightScales == WeightScales::kGroup ? precision.groupSize : matrix.cols;
  const bool oneScale = precision.weightScales == WeightScales::kTensor;
  const auto forGroups = [&](auto work) {
    for (int r = 0; r < matrix.rows; ++r) {
      for (int first = 0; first < matrix.cols; first += group) {
        work(matrix.values.data() + static_cast<std::size_t>(r) * matrix.cols + first,
             std::min(group, matrix.cols - first));
      }
    }
  };
  float amax = 0.0F;
  forGroups([&](const float* x, int n) { amax = std::max(amax, kernels::largestMagnitude(x, n)); });
  const float largestScale = amax / 127.0F;
  const float outputScale = kernels::int8ScalesFit(largestScale, kernels::kUsualOutputScale)
                                ? kernels::kUsualOutputScale
                                : kernels::outputScaleFor(largestScale);
  forGroups([&](float* x, int n) {
    float unused = 0.0F;
    const float scale = oneScale ? kernels::int8ScaleOf(amax, outputScale, unused).value
                                 : kernels::int8WeightScale(x, n, outputScale, unused).value;
    for (int i = 0; i < n; ++i) x[i] = scale * static_cast<float>(kernels::int8Weight(x[i], scale));
  });
}

/// A matrix or vector of the file in FP32.
ReferenceMatrix widen(const TensorView& view) {
  ReferenceMatrix matrix;
  if (!view) return matrix;
  matrix.rows = static_cast<int>(view.rows);
  matrix.cols = static_cast<int>(view.cols);
  matrix.values.resize(static_cast<std::size_t>(view.rows) * view.cols);
  for (int r = 0; r < matrix.rows; ++r) {
    float* row = matrix.values.data() + static_cast<std::size_t>(r) * matrix.cols;
    kernels::reference::dequantize(view.type, view.data + view.rowBytes() * r, row, view.cols);
  }
  return matrix;
}

ReferenceMatrix loadVector(const TensorView& view, std::span<const float> scale) {
  ReferenceMatrix vector = widen(view);
  if (!view) return vector;  // factors may be there without it
  for (std::size_t i = 0; i < scale.size(); ++i) vector.values[i] *= scale[i];
  return vector;
}

/// `name` as in "the query matrix of layer 3".
Result<ReferenceMatrix> loadMatrix(const TensorView& view, const MatrixPlan& plan,
                                   const WeightPrecision& precision, const std::string& name) {
  ReferenceMatrix matrix = widen(view);
  kernels::WeightChange change;
  change.rowScale = plan.rowScale.empty() ? nullptr : plan.rowScale.data();
  change.columnScale = plan.columnScale.empty() ? nullptr : plan.columnScale.data();
  for (int r = 0; r < matrix.rows; ++r) {
    float* row = matrix.values.data() + static_cast<std::size_t>(r) * matrix.cols;
    change.apply(r, row, matrix.cols);
    for (int column : plan.outliers) {
      matrix.outliers.push_back(row[column]);
      row[column] = 0.0F;
    }
  }
  bool fits = roundToFp16(matrix.outliers);
  switch (plan.mode) {
    case WeightMode::kNative:
      break;
    case WeightMode::kFp16:
      fits = roundToFp16(matrix.values) && fits;
      break;
    case WeightMode::kBf16:
      for (float& v : matrix.values) v = kernels::bfloat16ToFloat(kernels::floatToBfloat16(v));
      break;
    case WeightMode::kInt8: {
      matrix.int8 = true;
      const bool groupsOf32 =
          precision.weightScales == WeightScales::kGroup && precision.groupSize == 32;
      const bool changed = plan.changesValues() || !plan.outliers.empty();
      if (!kernels::keepsFileInt8(view.type, groupsOf32, changed)) roundToInt8(matrix, precision);
      break;
    }
  }
  if (fits) return matrix;
  return fail(ErrorCode::kUnsupported,
              "{} holds weights beyond 65504, which FP16 cannot represent; choose native, bf16 or "
              "int8 weights, all of it INT8",
              name);
}

std::uint64_t valueCount(const Weights& weights) {
  const auto count = [](const TensorView& view) {
    return static_cast<std::uint64_t>(view.rows) * static_cast<std::uint64_t>(view.cols);
  };
  std::uint64_t total = count(weights.output) + count(weights.outputNorm);
  for (const LayerWeights& l : weights.layers) {
    for (const TensorView* view : {&l.wq, &l.wk, &l.wv, &l.wo, &l.wGate, &l.wUp, &l.wDown}) {
      total += count(*view);
    }
  }
  return total;
}

}  // namespace

Result<std::unique_ptr<const ReferenceWeights>> ReferenceWeights::make(
    const Model& model, const ModelConfig& config, const WeightPrecision& precision,
    const Progress& progress, std::stop_token stop) {
  const Weights& from = model.weights();
  const int own = model.config().nKvHeads;
  const int kvHeads = config.nKvHeads;
  const std::uint64_t wanted = valueCount(from) * sizeof(float);
  const std::uint64_t available = availableMemoryBytes();
  if (wanted > available) {
    return fail(ErrorCode::kOutOfMemory,
                "the reference backend holds weights in FP32 and needs {} MiB for them; {} MiB are "
                "free",
                wanted >> 20, available >> 20);
  }
  try {
    auto weights = std::make_unique<ReferenceWeights>();
    VITRINE_ASSIGN(weights->plan, QuantPlan::make(model, config, precision));
    const QuantPlan& plan = weights->plan;
    const int nLayers = static_cast<int>(from.layers.size());
    weights->layers.resize(from.layers.size());
    for (int i = 0; i < nLayers; ++i) {
      if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "loading was stopped");
      if (progress) progress("Converting weights", static_cast<double>(i) / (nLayers + 1));
      const LayerWeights& file = from.layers[static_cast<std::size_t>(i)];
      ReferenceLayer& layer = weights->layers[static_cast<std::size_t>(i)];
      const auto load = [&](ReferenceMatrix& to, const TensorView& view,
                            MatrixPart part) -> Result<void> {
        const bool kv = part == MatrixPart::kK || part == MatrixPart::kV;
        const RegroupedTensor tensor = RegroupedTensor::make(view, own, kv ? kvHeads : own);
        MatrixPlan matrix = plan.matrix(i, part);
        if (kv) matrix.mode = regroupedMode(view.type, matrix.mode, kvGrouping(own, kvHeads));
        VITRINE_ASSIGN(to, loadMatrix(tensor.view(), matrix, precision, matrixName(i, part)));
        return {};
      };
      VITRINE_TRY(load(layer.wq, file.wq, MatrixPart::kQ));
      VITRINE_TRY(load(layer.wk, file.wk, MatrixPart::kK));
      VITRINE_TRY(load(layer.wv, file.wv, MatrixPart::kV));
      VITRINE_TRY(load(layer.wo, file.wo, MatrixPart::kO));
      VITRINE_TRY(load(layer.wGate, file.wGate, MatrixPart::kGate));
      VITRINE_TRY(load(layer.wUp, file.wUp, MatrixPart::kUp));
      VITRINE_TRY(load(layer.wDown, file.wDown, MatrixPart::kDown));
      const auto scale = [&](VectorPart part) { return plan.vectorScale(i, part); };
      const auto regrouped = [&](const TensorView& bias) {
        return RegroupedTensor::make(bias, own, kvHeads);
      };
      layer.attentionNorm = loadVector(file.attentionNorm, scale(VectorPart::kAttentionNorm));
      layer.ffnNorm = loadVector(file.ffnNorm, scale(VectorPart::kFfnNorm));
      layer.bq = loadVector(file.bq, scale(VectorPart::kBq));
      layer.bk = loadVector(regrouped(file.bk).view(), scale(VectorPart::kBk));
      layer.bv = loadVector(regrouped(file.bv).view(), scale(VectorPart::kBv));
      layer.qNorm = loadVector(file.qNorm, scale(VectorPart::kQNorm));
      layer.kNorm = loadVector(file.kNorm, scale(VectorPart::kKNorm));
    }
    weights->outputNorm =
        loadVector(from.outputNorm, plan.vectorScale(-1, VectorPart::kOutputNorm));
    VITRINE_ASSIGN(weights->output, loadMatrix(from.output, plan.matrix(-1, MatrixPart::kOutput),
                                               precision, matrixName(-1, MatrixPart::kOutput)));
    VITRINE_TRY(model.checkFile());
    if (progress) progress("Converting weights", 1.0);
    return weights;
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "no memory for {} MiB of FP32 weights", wanted >> 20);
  }
}

std::uint64_t ReferenceWeights::bytes() const {
  std::uint64_t total = outputNorm.bytes() + output.bytes();
  for (const ReferenceLayer& l : layers) {
    for (const ReferenceMatrix* m :
         {&l.attentionNorm, &l.wq, &l.wk, &l.wv, &l.wo, &l.bq, &l.bk, &l.bv, &l.qNorm, &l.kNorm,
          &l.ffnNorm, &l.wGate, &l.wUp, &l.wDown}) {
      total += m->bytes();
    }
  }
  return total;
}

}  // namespace vitrine::engine

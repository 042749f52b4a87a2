#include "engine/backend/reference_weights.h"

#include <cmath>
#include <new>

#include "engine/backend/kv_regroup.h"
#include "engine/measure/machine.h"
#include "kernels/api/half.h"
#include "kernels/api/quantize.h"
#include "kernels/reference/dequantize.h"

namespace vitrine::engine {
namespace {

/// Rounds a row in place to what the weight mode can hold. False where FP16 overflows.
bool roundRow(float* row, int n, const WeightPrecision& precision) {
  bool fits = true;
  switch (precision.weights) {
    case WeightMode::kNative:
      break;
    case WeightMode::kFp16:
      for (int i = 0; i < n; ++i) {
        const float rounded = kernels::halfToFloat(kernels::floatToHalf(row[i]));
        fits = fits && (std::isfinite(rounded) || !std::isfinite(row[i]));
        row[i] = rounded;
      }
      break;
    case WeightMode::kBf16:
      for (int i = 0; i < n; ++i) {
        row[i] = kernels::bfloat16ToFloat(kernels::floatToBfloat16(row[i]));
      }
      break;
    case WeightMode::kInt8: {
      std::vector<std::int8_t> q(static_cast<std::size_t>(precision.groupSize));
      for (int i = 0; i < n; i += precision.groupSize) {
        const int count = std::min(precision.groupSize, n - i);
        const float scale = kernels::quantizeInt8(row + i, q.data(), count);
        for (int j = 0; j < count; ++j) row[i + j] = scale * static_cast<float>(q[j]);
      }
      break;
    }
  }
  return fits;
}

const WeightPrecision kAsInFile{};

Result<ReferenceMatrix> load(const TensorView& view, const WeightPrecision& precision,
                             const char* name, int layer) {
  ReferenceMatrix matrix;
  if (!view) return matrix;
  matrix.rows = static_cast<int>(view.rows);
  matrix.cols = static_cast<int>(view.cols);
  matrix.values.resize(static_cast<std::size_t>(view.rows) * view.cols);
  for (int r = 0; r < matrix.rows; ++r) {
    float* row = matrix.values.data() + static_cast<std::size_t>(r) * matrix.cols;
    kernels::reference::dequantize(view.type, view.data + view.rowBytes() * r, row, view.cols);
    if (!roundRow(row, matrix.cols, precision)) {
      return fail(ErrorCode::kUnsupported,
                  "{} of layer {} holds weights beyond 65504, which FP16 cannot represent; choose "
                  "native, bf16 or int8 weights",
                  name, layer);
    }
  }
  return matrix;
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
    const Model& model, const WeightPrecision& precision, int kvHeads, const Progress& progress,
    std::stop_token stop) {
  const Weights& from = model.weights();
  const int own = model.config().nKvHeads;
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
    const int nLayers = static_cast<int>(from.layers.size());
    weights->layers.resize(from.layers.size());
    for (int i = 0; i < nLayers; ++i) {
      if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "loading was stopped");
      if (progress) progress("Converting weights", static_cast<double>(i) / (nLayers + 1));
      const LayerWeights& file = from.layers[i];
      ReferenceLayer& layer = weights->layers[i];
      const RegroupedTensor wk = RegroupedTensor::make(file.wk, own, kvHeads);
      const RegroupedTensor wv = RegroupedTensor::make(file.wv, own, kvHeads);
      const RegroupedTensor bk = RegroupedTensor::make(file.bk, own, kvHeads);
      const RegroupedTensor bv = RegroupedTensor::make(file.bv, own, kvHeads);
      const auto kvPrecision = [&](const TensorView& matrix) {
        WeightPrecision held = precision;
        held.weights = regroupedMode(matrix.type, precision.weights, kvGrouping(own, kvHeads));
        return held;
      };
      const WeightPrecision keyPrecision = kvPrecision(file.wk);
      const WeightPrecision valuePrecision = kvPrecision(file.wv);
      struct Item {
        ReferenceMatrix& to;
        const TensorView& view;
        const WeightPrecision& rounding;
        const char* name;
      };
      const Item items[] = {
          {layer.attentionNorm, file.attentionNorm, kAsInFile, "the attention norm"},
          {layer.wq, file.wq, precision, "the query matrix"},
          {layer.wk, wk.view(), keyPrecision, "the key matrix"},
          {layer.wv, wv.view(), valuePrecision, "the value matrix"},
          {layer.wo, file.wo, precision, "the attention output matrix"},
          {layer.bq, file.bq, kAsInFile, "the query bias"},
          {layer.bk, bk.view(), kAsInFile, "the key bias"},
          {layer.bv, bv.view(), kAsInFile, "the value bias"},
          {layer.qNorm, file.qNorm, kAsInFile, "the query norm"},
          {layer.kNorm, file.kNorm, kAsInFile, "the key norm"},
          {layer.ffnNorm, file.ffnNorm, kAsInFile, "the feed-forward norm"},
          {layer.wGate, file.wGate, precision, "the gate matrix"},
          {layer.wUp, file.wUp, precision, "the up matrix"},
          {layer.wDown, file.wDown, precision, "the down matrix"},
      };
      for (const Item& item : items) {
        VITRINE_ASSIGN(item.to, load(item.view, item.rounding, item.name, i));
      }
    }
    VITRINE_ASSIGN(weights->outputNorm, load(from.outputNorm, kAsInFile, "the norm", nLayers));
    VITRINE_ASSIGN(weights->output, load(from.output, precision, "the output matrix", nLayers));
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

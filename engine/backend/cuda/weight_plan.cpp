#include "engine/backend/cuda/weight_plan.h"

#include <algorithm>
#include <utility>

#include "engine/backend/cuda/weight_rows.h"
#include "engine/backend/kv_regroup.h"
#include "kernels/api/int8_weights.h"

namespace vitrine::engine::cuda {

namespace gpu = kernels::cuda;
using kernels::TensorType;

namespace {

constexpr std::size_t kAlignment = 256;

/// Whether the file's own INT8 blocks can be taken as they are.
bool isInt8Already(std::span<const TensorView> parts, int groupSize) {
  return groupSize == 32 && std::all_of(parts.begin(), parts.end(), [](const TensorView& part) {
           return part.type == TensorType::kQ8_0;
         });
}

bool holdsTheSame(const gpu::Matrix& matrix, const TensorView& table) {
  const bool type = (matrix.format == gpu::WeightFormat::kFp16 && table.type == TensorType::kF16) ||
                    (matrix.format == gpu::WeightFormat::kBf16 && table.type == TensorType::kBF16);
  return type && matrix.out == table.rows && matrix.in == table.cols;
}

}  // namespace

gpu::WeightFormat weightFormat(std::span<const TensorView> parts, WeightMode mode) {
  switch (mode) {
    case WeightMode::kInt8:
      return gpu::WeightFormat::kInt8;
    case WeightMode::kBf16:
      return gpu::WeightFormat::kBf16;
    case WeightMode::kFp16:
      return gpu::WeightFormat::kFp16;
    case WeightMode::kNative:
      break;
  }
  const bool bf16 = std::all_of(parts.begin(), parts.end(), [](const TensorView& part) {
    return part.type == TensorType::kBF16;
  });
  return bf16 ? gpu::WeightFormat::kBf16 : gpu::WeightFormat::kFp16;
}

WeightPlan::WeightPlan(CudaWeights& weights, const Weights& from, int ownKvHeads,
                       const ModelConfig& config, const WeightPrecision& precision)
    : m_ownKvHeads(ownKvHeads), m_config(config), m_precision(precision) {
  weights.layers.resize(from.layers.size());
  for (std::size_t i = 0; i < from.layers.size(); ++i) {
    const LayerWeights& f = from.layers[i];
    CudaLayer& t = weights.layers[i];
    const int layer = static_cast<int>(i);
    addMatrix(t.wQkv, layer,
              {{&f.wq, "the query matrix"},
               {&f.wk, "the key matrix", true},
               {&f.wv, "the value matrix", true}});
    addMatrix(t.wo, layer, {{&f.wo, "the attention output matrix"}});
    addMatrix(t.wGateUp, layer, {{&f.wGate, "the gate matrix"}, {&f.wUp, "the up matrix"}});
    addMatrix(t.wDown, layer, {{&f.wDown, "the down matrix"}});
    addVector(t.attentionNorm, {{&f.attentionNorm, config.dModel}});
    addVector(t.ffnNorm, {{&f.ffnNorm, config.dModel}});
    addVector(
        t.bias,
        {{&f.bq, config.qDim()}, {&f.bk, config.kvDim(), true}, {&f.bv, config.kvDim(), true}});
    addVector(t.qNorm, {{&f.qNorm, config.headDim}});
    addVector(t.kNorm, {{&f.kNorm, config.headDim}});
  }
  addVector(weights.outputNorm, {{&from.outputNorm, config.dModel}});
  addMatrix(weights.output, -1, {{&from.output, "the output matrix"}});
  turns = place(static_cast<std::size_t>(config.rope.dims / 2) * sizeof(double));
  weights.embedding = {from.tokenEmbedding.type, nullptr, from.tokenEmbedding.rowBytes(),
                       config.dModel};
  embeddingIsOutput = from.tiedOutput && holdsTheSame(weights.output, from.tokenEmbedding);
  if (embeddingIsOutput) {
    embedding = matrices.back().values;
    weights.embedding.rowBytes = rowValueBytes(weights.output);
  } else {
    embedding = place(from.tokenEmbedding.bytes());
  }
}

std::size_t WeightPlan::place(std::size_t count) {
  const std::size_t at = bytes;
  bytes += (count + kAlignment - 1) / kAlignment * kAlignment;
  return at;
}

void WeightPlan::addMatrix(gpu::Matrix& to, int layer, std::vector<Part> parts) {
  std::vector<TensorView> shapes;  // as they will be converted
  std::vector<TensorView> files;   // as the file has them: an average of BF16 stays BF16
  for (const Part& part : parts) {
    files.push_back(*part.from);
    shapes.push_back(part.kv ? regroupedShape(*part.from, m_ownKvHeads, m_config.nKvHeads)
                             : *part.from);
    to.out += static_cast<int>(shapes.back().rows);
  }
  to.format = weightFormat(files, m_precision.weights);
  to.in = static_cast<int>(shapes.front().cols);
  to.paddedOut = gpu::roundUp(to.out, gpu::kOutputPad);
  to.stride = gpu::roundUp(to.in, gpu::kColumnPad);
  if (to.format == gpu::WeightFormat::kInt8) {
    to.groupSize = m_precision.groupSize;
    to.outputScale = isInt8Already(shapes, to.groupSize) ? 1.0F : kernels::kUsualOutputScale;
  }
  MatrixEntry entry{&to, std::move(parts), layer};
  const auto rows = static_cast<std::size_t>(to.paddedOut);
  entry.values = place(rows * rowValueBytes(to));
  entry.scales = place(rows * rowScaleBytes(to));
  matrices.push_back(std::move(entry));
}

void WeightPlan::addVector(const float*& to, std::vector<VectorPart> parts) {
  VectorEntry entry{&to, std::move(parts), 0, 0};
  bool any = false;
  for (const VectorPart& part : entry.parts) {
    any = any || *part.from;
    entry.count += static_cast<std::size_t>(part.count);
  }
  if (!any) return;
  entry.offset = place(entry.count * sizeof(float));
  vectors.push_back(std::move(entry));
}

}  // namespace vitrine::engine::cuda

#include "engine/backend/cuda/weight_plan.h"

#include <algorithm>
#include <utility>

#include "engine/backend/cuda/weight_rows.h"
#include "engine/backend/kv_regroup.h"
#include "engine/backend/plan_queries.h"
#include "kernels/api/int8_weights.h"

namespace vitrine::engine::cuda {

namespace gpu = kernels::cuda;
using kernels::TensorType;

namespace {

constexpr std::size_t kAlignment = 256;

bool holdsTheSame(const gpu::Matrix& matrix, const TensorView& table) {
  const bool type = (matrix.format == gpu::WeightFormat::kFp16 && table.type == TensorType::kF16) ||
                    (matrix.format == gpu::WeightFormat::kBf16 && table.type == TensorType::kBF16);
  return type && matrix.out == table.rows && matrix.in == table.cols;
}

}  // namespace

gpu::WeightFormat weightFormat(const TensorView& file, WeightMode mode) {
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
  return file.type == TensorType::kBF16 ? gpu::WeightFormat::kBf16 : gpu::WeightFormat::kFp16;
}

WeightPlan::WeightPlan(CudaWeights& weights, const Weights& from, int ownKvHeads,
                       const ModelConfig& config, const WeightPrecision& precision,
                       const QuantPlan& quant)
    : m_ownKvHeads(ownKvHeads), m_config(config), m_precision(precision), m_quant(quant) {
  weights.layers.resize(from.layers.size());
  for (std::size_t i = 0; i < from.layers.size(); ++i) {
    const LayerWeights& f = from.layers[i];
    CudaLayer& t = weights.layers[i];
    const int layer = static_cast<int>(i);
    const auto scale = [&](VectorPart part) { return quant.vectorScale(layer, part); };
    addMatrices(t.qkv, layer,
                {{&f.wq, MatrixPart::kQ}, {&f.wk, MatrixPart::kK}, {&f.wv, MatrixPart::kV}});
    addOne(t.wo, layer, {&f.wo, MatrixPart::kO});
    addMatrices(t.gateUp, layer, {{&f.wGate, MatrixPart::kGate}, {&f.wUp, MatrixPart::kUp}});
    addOne(t.wDown, layer, {&f.wDown, MatrixPart::kDown});
    addVector(t.attentionNorm,
              {{&f.attentionNorm, config.dModel, false, scale(VectorPart::kAttentionNorm)}});
    addVector(t.ffnNorm, {{&f.ffnNorm, config.dModel, false, scale(VectorPart::kFfnNorm)}});
    addVector(t.bias, {{&f.bq, config.qDim(), false, scale(VectorPart::kBq)},
                       {&f.bk, config.kvDim(), true, scale(VectorPart::kBk)},
                       {&f.bv, config.kvDim(), true, scale(VectorPart::kBv)}});
    addVector(t.qNorm, {{&f.qNorm, config.headDim, false, scale(VectorPart::kQNorm)}});
    addVector(t.kNorm, {{&f.kNorm, config.headDim, false, scale(VectorPart::kKNorm)}});
  }
  addVector(weights.outputNorm, {{&from.outputNorm, config.dModel, false,
                                  quant.vectorScale(-1, VectorPart::kOutputNorm)}});
  addOne(weights.output, -1, {&from.output, MatrixPart::kOutput});
  weights.sites.resize(static_cast<std::size_t>(siteCount(config.nLayers)));
  for (int site = 0; site < siteCount(config.nLayers); ++site) {
    addSite(weights.sites[static_cast<std::size_t>(site)], site);
  }
  turns = place(static_cast<std::size_t>(config.rope.dims / 2) * sizeof(double));
  weights.embedding = {from.tokenEmbedding.type, nullptr, from.tokenEmbedding.rowBytes(),
                       config.dModel};
  embeddingIsOutput = from.tiedOutput && !quant.matrix(-1, MatrixPart::kOutput).changesValues() &&
                      holdsTheSame(weights.output.weights, from.tokenEmbedding);
  if (embeddingIsOutput) {
    embedding = matrices.back().values;
    weights.embedding.rowBytes = rowValueBytes(weights.output.weights);
  } else {
    embedding = place(from.tokenEmbedding.bytes());
  }
}

std::size_t WeightPlan::place(std::size_t count) {
  const std::size_t at = bytes;
  bytes += (count + kAlignment - 1) / kAlignment * kAlignment;
  return at;
}

/// Neighbours of the same form become one. FP16 and BF16 do not go together where rows are shared:
/// all of those are FP16 then.
void WeightPlan::addMatrices(CudaMatrices& to, int layer, std::vector<Part> parts) {
  std::vector<gpu::WeightFormat> formats;
  for (Part& part : parts) {
    part.plan = m_quant.matrix(layer, part.part);
    formats.push_back(weightFormat(*part.from, part.plan.mode));
  }
  const auto has = [&](gpu::WeightFormat format) {
    return std::find(formats.begin(), formats.end(), format) != formats.end();
  };
  if (has(gpu::WeightFormat::kFp16)) {
    std::replace(formats.begin(), formats.end(), gpu::WeightFormat::kBf16,
                 gpu::WeightFormat::kFp16);
  }
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i == 0 || formats[i] != formats[i - 1]) runs.emplace_back(i, i);
    runs.back().second = i + 1;
  }
  to.resize(runs.size());  // entries point to them
  int firstOutput = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto [first, end] = runs[r];
    to[r].firstOutput = firstOutput;
    addMatrix(to[r], layer,
              {parts.begin() + static_cast<std::ptrdiff_t>(first),
               parts.begin() + static_cast<std::ptrdiff_t>(end)},
              formats[first]);
    firstOutput += to[r].weights.out;
  }
}

void WeightPlan::addOne(CudaMatrix& to, int layer, Part part) {
  part.plan = m_quant.matrix(layer, part.part);
  const gpu::WeightFormat format = weightFormat(*part.from, part.plan.mode);
  addMatrix(to, layer, std::vector<Part>{part}, format);
}

void WeightPlan::addMatrix(CudaMatrix& to, int layer, std::vector<Part> parts,
                           gpu::WeightFormat format) {
  gpu::Matrix& w = to.weights;
  bool keepsInt8 = m_precision.weightScales == WeightScales::kGroup;  // the integers of the file
  for (const Part& part : parts) {
    const TensorView shape =
        part.isKv() ? regroupedShape(*part.from, m_ownKvHeads, m_config.nKvHeads) : *part.from;
    w.out += static_cast<int>(shape.rows);
    w.in = static_cast<int>(shape.cols);
    const bool changed = part.plan.changesValues() || !part.plan.outliers.empty();
    keepsInt8 =
        keepsInt8 && kernels::keepsFileInt8(shape.type, m_precision.groupSize == 32, changed);
  }
  w.format = format;
  w.paddedOut = gpu::roundUp(w.out, gpu::kOutputPad);
  w.stride = gpu::roundUp(w.in, gpu::kColumnPad);
  MatrixEntry entry{&to, std::move(parts), layer};
  if (w.format == gpu::WeightFormat::kInt8) {
    w.groupSize =
        m_precision.weightScales == WeightScales::kGroup ? m_precision.groupSize : gpu::kWholeRow;
    w.outputScale = keepsInt8 ? 1.0F : kernels::kUsualOutputScale;
  }
  const auto rows = static_cast<std::size_t>(w.paddedOut);
  entry.values = place(rows * rowValueBytes(w));
  entry.scales = place(rows * rowScaleBytes(w));
  const auto nOutliers = static_cast<int>(entry.parts.front().plan.outliers.size());
  if (nOutliers > 0) {
    gpu::Matrix& beside = to.outliers;
    beside.format = gpu::WeightFormat::kFp16;
    beside.out = w.out;
    beside.paddedOut = w.paddedOut;
    beside.in = nOutliers;
    beside.stride = gpu::roundUp(nOutliers, gpu::kColumnPad);
    entry.outliers = place(rows * rowValueBytes(beside));
  }
  matrices.push_back(std::move(entry));
}

void WeightPlan::addVector(const float*& to, std::vector<VectorSource> parts) {
  VectorEntry entry{&to, std::move(parts), 0, 0};
  bool any = false;
  for (const VectorSource& part : entry.parts) {
    any = any || *part.from;
    entry.count += static_cast<std::size_t>(part.count);
  }
  if (!any) return;
  entry.offset = place(entry.count * sizeof(float));
  vectors.push_back(std::move(entry));
}

void WeightPlan::addSite(CudaSite& to, int site) {
  if (!isReadByInt8(m_quant, site, m_config.nLayers)) return;
  to.staticScale = m_quant.staticScale(site);
  const std::span<const int> columns = m_quant.outliers(site);
  if (columns.empty()) return;
  to.outliers.count = static_cast<int>(columns.size());
  to.outliers.stride = gpu::roundUp(to.outliers.count, gpu::kColumnPad);
  SiteEntry entry{&to, columns};
  entry.stride =
      gpu::roundUp(widthOf(m_config, inputOfSite(site, m_config.nLayers)), gpu::kColumnPad);
  entry.columnsAt = place(columns.size() * sizeof(std::int32_t));
  entry.bitsAt = place(static_cast<std::size_t>(entry.stride / 32) * sizeof(std::uint32_t));
  sites.push_back(entry);
}

}  // namespace vitrine::engine::cuda

#include "engine/backend/cuda/cuda_pass.h"

#include <algorithm>

#include "engine/backend/model_math.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/logits.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/rows.h"

namespace vitrine::engine::cuda {

namespace gpu = kernels::cuda;

namespace {

gpu::Heads headsOf(const ModelConfig& config) {
  return {config.nHeads, config.nKvHeads, config.headDim};
}

}  // namespace

void CudaPass::norm(int site, const float* weight, std::span<const CudaMatrix> readers,
                    const NormRows& rows) const {
  gpu::RmsNormParams params;
  params.x = work.x;
  params.rowIndex = rows.index;
  params.weight = weight;
  params.rows = rows.count;
  params.dim = config.dModel;
  params.eps = config.normEps;
  if (tap != nullptr) {
    const int stride = readers.front().weights.stride;
    params.y = tap->rows(stride);
    gpu::rmsNorm(stream, params);
    tap->showRows(site, rows.count, stride, config.dModel);
  }
  // Once in each form that is wanted: two where a part of the matrices stays FP16.
  for (std::size_t i = 0; i < readers.size(); ++i) {
    const gpu::RowType type = work.activationType(readers[i].weights);
    const bool done = std::any_of(
        readers.begin(), readers.begin() + static_cast<int>(i),
        [&](const CudaMatrix& other) { return work.activationType(other.weights) == type; });
    if (done) continue;
    params.y = work.normed(site, readers[i].weights);
    params.y.positions = rows.positions;
    gpu::rmsNorm(stream, params);
  }
}

void CudaPass::multiply(const CudaMatrix& matrix, const gpu::Rows& x, int rows, float* y,
                        int yStride, bool accumulate) const {
  gpu::LinearParams params;
  params.weights = matrix.weights;
  params.x = x;
  params.rows = rows;
  params.y = y;
  params.yStride = yStride;
  params.accumulate = accumulate;
  gpu::linear(stream, blas, params, work.linear);
  if (!matrix.hasOutliers()) return;
  params.weights = matrix.outliers;
  params.x = gpu::Rows{};
  params.x.type = gpu::RowType::kFp16;
  params.x.values = x.outliers.values;
  params.x.stride = x.outliers.stride;
  params.accumulate = true;
  gpu::linear(stream, blas, params, work.linear);
}

void CudaPass::multiplyNormed(int site, std::span<const CudaMatrix> readers, int rows, float* y,
                              int yStride) const {
  for (const CudaMatrix& m : readers) {
    multiply(m, work.normed(site, m.weights), rows, y + m.firstOutput, yStride, false);
  }
}

void CudaPass::layers(const StepPlan::Pass& pass, std::span<const StepPlan::Prefill> prefills,
                      int splits) const {
  const gpu::StepRows step = inputs.rows(pass.firstRow, pass.rows);
  gpu::embed(stream, weights.embedding, inputs.tokens(pass.firstRow), pass.rows,
             config.embeddingScale, work.x);
  gpu::ropeAngles(stream, step.positions, weights.ropeTurns, pass.rows, config.rope.dims / 2,
                  work.angles);
  for (int i = 0; i < config.nLayers; ++i) {
    const CudaLayer& layer = weights.layers[static_cast<std::size_t>(i)];
    const int site = siteIndex(i, LinearInput::kAttention);
    norm(site, layer.attentionNorm, layer.qkv, {pass.rows, nullptr, step.positions});
    multiplyNormed(site, layer.qkv, pass.rows, work.qkv, headsOf(config).qkvDim());
    rotateAndAppend(layer, i, step);
    // Nothing after the last layer's K and V is wanted of a chunk that is not a prompt's last,
    // except by who looks on.
    if (i + 1 == config.nLayers && pass.nWanted == 0 && tap == nullptr) return;
    attend(layer, i, pass, prefills, splits);
    feedForward(layer, i, pass);
  }
}

void CudaPass::rotateAndAppend(const CudaLayer& layer, int index, const gpu::StepRows& step) const {
  gpu::RopeAppendParams params;
  params.qkv = work.qkv;
  params.heads = headsOf(config);
  params.bias = layer.bias;
  params.qNorm = layer.qNorm;
  params.kNorm = layer.kNorm;
  params.normEps = config.normEps;
  params.angles = work.angles;
  params.pairs = config.rope.dims / 2;
  params.halves = config.rope.style == RopeStyle::kHalves;
  params.step = step;
  params.kv = kv[static_cast<std::size_t>(index)];
  if (tap != nullptr) params.keys = tap->keys();
  gpu::ropeAppend(stream, params);
  if (tap != nullptr) tap->showKeys(index, step.rows, config.kvDim());
}

void CudaPass::attend(const CudaLayer& layer, int index, const StepPlan::Pass& pass,
                      std::span<const StepPlan::Prefill> prefills, int splits) const {
  const int site = siteIndex(index, LinearInput::kAttentionOut);
  const gpu::Matrix& next = layer.wo.weights;
  gpu::Rows to = work.attended(site, next);
  to.positions = inputs.rows(pass.firstRow, pass.rows).positions;
  const bool apart = tap != nullptr || to.type == gpu::RowType::kInt8;
  gpu::AttentionParams params;
  params.q = work.qkv;
  params.heads = headsOf(config);
  params.qStride = params.heads.qkvDim();
  params.scale = attentionScale(config);
  params.softcap = config.attentionSoftcap;
  params.window = config.slidingWindow;
  params.kv = kv[static_cast<std::size_t>(index)];
  params.y = to;
  if (apart) params.y = tap != nullptr ? tap->rows(next.stride) : work.wide(next);
  if (pass.decodeRows > 0) {
    params.step = inputs.rows(pass.firstRow, pass.decodeRows);
    gpu::decodeAttention(stream, params, splits, work.partials);
  }
  params.step = inputs.rows(pass.firstRow, pass.rows);
  for (const StepPlan::Prefill& p : prefills) {
    gpu::prefillAttention(stream, params, p.firstRow, p.count, p.firstPosition);
  }
  if (tap != nullptr) tap->showRows(site, pass.rows, next.stride, config.qDim());
  if (apart) {
    gpu::convertRows(stream, static_cast<const float*>(params.y.values), params.y.stride,
                     config.qDim(), pass.rows, to);
  }
  multiply(layer.wo, to, pass.rows, work.x, config.dModel, true);
}

void CudaPass::feedForward(const CudaLayer& layer, int index, const StepPlan::Pass& pass) const {
  const int site = siteIndex(index, LinearInput::kDown);
  const std::int32_t* positions = inputs.rows(pass.firstRow, pass.rows).positions;
  norm(siteIndex(index, LinearInput::kFfn), layer.ffnNorm, layer.gateUp,
       {pass.rows, nullptr, positions});
  gpu::Rows to = work.gated(site, layer.wDown.weights);
  to.positions = positions;
  gate(layer, index, pass.rows, to);
  multiply(layer.wDown, to, pass.rows, work.x, config.dModel, true);
}

/// The rows of the down product from the normed ones. One pass over the weights where few rows,
/// one form of both matrices and no second product allow it.
void CudaPass::gate(const CudaLayer& layer, int index, int rows, const gpu::Rows& to) const {
  const int site = siteIndex(index, LinearInput::kFfn);
  const bool gelu = config.activation == Activation::kGeluTanh;
  const CudaMatrix& first = layer.gateUp.front();
  if (rows <= gpu::kGemvRows && layer.gateUp.size() == 1 && !first.hasOutliers() &&
      tap == nullptr) {
    const bool int8 = to.type == gpu::RowType::kInt8;
    gpu::GatedLinearParams params;
    params.weights = first.weights;
    params.x = work.normed(site, first.weights);
    params.rows = rows;
    params.gelu = gelu;
    params.y = int8 ? work.wide(layer.wDown.weights) : to;
    gpu::gatedLinear(stream, params);
    if (int8) {
      gpu::convertRows(stream, static_cast<const float*>(params.y.values), params.y.stride,
                       config.dFfn, rows, to);
    }
    return;
  }
  multiplyNormed(site, layer.gateUp, rows, work.gateUp, 2 * config.dFfn);
  gpu::GateParams params;
  params.gateUp = work.gateUp;
  params.rows = rows;
  params.width = config.dFfn;
  params.gelu = gelu;
  if (tap != nullptr) {
    const int stride = layer.wDown.weights.stride;
    params.y = tap->rows(stride);
    gpu::gate(stream, params);
    tap->showRows(siteIndex(index, LinearInput::kDown), rows, stride, config.dFfn);
  }
  params.y = to;
  gpu::gate(stream, params);
}

void CudaPass::head(const StepPlan::Pass& pass, const std::int32_t* rowIndex, int rows) const {
  const int site = outputSite(config.nLayers);
  const std::span<const CudaMatrix> output(&weights.output, 1);
  const std::int32_t* positions =
      rowIndex == nullptr ? inputs.rows(pass.firstRow, rows).positions : nullptr;
  norm(site, weights.outputNorm, output, {rows, rowIndex, positions});
  multiplyNormed(site, output, rows, work.logits, config.vocabSize);
  if (config.logitSoftcap > 0.0F) {
    gpu::softcap(stream, work.logits,
                 static_cast<std::size_t>(rows) * static_cast<std::size_t>(config.vocabSize),
                 config.logitSoftcap);
  }
}

}  // namespace vitrine::engine::cuda

#include "engine/backend/cuda/cuda_pass.h"

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

void CudaPass::norm(const float* weight, const gpu::Matrix& next, int rows,
                    const std::int32_t* rowIndex) const {
  gpu::RmsNormParams params;
  params.x = work.x;
  params.rowIndex = rowIndex;
  params.weight = weight;
  params.rows = rows;
  params.dim = config.dModel;
  params.eps = config.normEps;
  params.y = work.normed(next);
  gpu::rmsNorm(stream, params);
}

void CudaPass::multiply(const gpu::Matrix& matrix, const gpu::Rows& x, int rows, float* y,
                        int yStride, bool accumulate) const {
  gpu::LinearParams params;
  params.weights = matrix;
  params.x = x;
  params.rows = rows;
  params.y = y;
  params.yStride = yStride;
  params.accumulate = accumulate;
  gpu::linear(stream, blas, params, work.linear);
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
    norm(layer.attentionNorm, layer.wQkv, pass.rows, nullptr);
    multiply(layer.wQkv, work.normed(layer.wQkv), pass.rows, work.qkv, headsOf(config).qkvDim(),
             false);
    rotateAndAppend(layer, i, step);
    // Nothing after the last layer's K and V is wanted of a chunk that is not a prompt's last.
    if (i + 1 == config.nLayers && pass.nWanted == 0) return;
    attend(layer, i, pass, prefills, splits);
    feedForward(layer, pass.rows);
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
  gpu::ropeAppend(stream, params);
}

void CudaPass::attend(const CudaLayer& layer, int index, const StepPlan::Pass& pass,
                      std::span<const StepPlan::Prefill> prefills, int splits) const {
  const gpu::Rows to = work.attended(layer.wo);
  const bool int8 = to.type == gpu::RowType::kInt8;
  gpu::AttentionParams params;
  params.q = work.qkv;
  params.heads = headsOf(config);
  params.qStride = params.heads.qkvDim();
  params.scale = attentionScale(config);
  params.softcap = config.attentionSoftcap;
  params.window = config.slidingWindow;
  params.kv = kv[static_cast<std::size_t>(index)];
  params.y = int8 ? work.wide(layer.wo) : to;
  if (pass.decodeRows > 0) {
    params.step = inputs.rows(pass.firstRow, pass.decodeRows);
    gpu::decodeAttention(stream, params, splits, work.partials);
  }
  params.step = inputs.rows(pass.firstRow, pass.rows);
  for (const StepPlan::Prefill& p : prefills) {
    gpu::prefillAttention(stream, params, p.firstRow, p.count, p.firstPosition);
  }
  if (int8) {
    gpu::convertRows(stream, static_cast<const float*>(params.y.values), params.y.stride,
                     config.qDim(), pass.rows, to);
  }
  multiply(layer.wo, to, pass.rows, work.x, config.dModel, true);
}

void CudaPass::feedForward(const CudaLayer& layer, int rows) const {
  norm(layer.ffnNorm, layer.wGateUp, rows, nullptr);
  const gpu::Rows x = work.normed(layer.wGateUp);
  const gpu::Rows to = work.gated(layer.wDown);
  const bool gelu = config.activation == Activation::kGeluTanh;
  if (rows <= gpu::kGemvRows) {
    const bool int8 = to.type == gpu::RowType::kInt8;
    gpu::GatedLinearParams params;
    params.weights = layer.wGateUp;
    params.x = x;
    params.rows = rows;
    params.gelu = gelu;
    params.y = int8 ? work.wide(layer.wDown) : to;
    gpu::gatedLinear(stream, params);
    if (int8) {
      gpu::convertRows(stream, static_cast<const float*>(params.y.values), params.y.stride,
                       config.dFfn, rows, to);
    }
  } else {
    multiply(layer.wGateUp, x, rows, work.gateUp, 2 * config.dFfn, false);
    gpu::GateParams params;
    params.gateUp = work.gateUp;
    params.rows = rows;
    params.width = config.dFfn;
    params.gelu = gelu;
    params.y = to;
    gpu::gate(stream, params);
  }
  multiply(layer.wDown, to, rows, work.x, config.dModel, true);
}

void CudaPass::head(const std::int32_t* rowIndex, int rows) const {
  norm(weights.outputNorm, weights.output, rows, rowIndex);
  multiply(weights.output, work.normed(weights.output), rows, work.logits, config.vocabSize, false);
  if (config.logitSoftcap > 0.0F) {
    gpu::softcap(stream, work.logits,
                 static_cast<std::size_t>(rows) * static_cast<std::size_t>(config.vocabSize),
                 config.logitSoftcap);
  }
}

}  // namespace vitrine::engine::cuda

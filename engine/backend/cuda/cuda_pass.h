#pragma once

#include <span>
#include <vector>

#include "engine/backend/cuda/cuda_weights.h"
#include "engine/backend/cuda/cuda_workspace.h"
#include "engine/backend/cuda/step_inputs.h"
#include "engine/backend/cuda/step_plan.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/blas.h"

namespace vitrine::engine::cuda {

/// Queues what one pass computes. Nothing here allocates or waits, so that it can be captured.
/// A view of the backend's parts.
struct CudaPass {
  const ModelConfig& config;
  const CudaWeights& weights;
  const CudaWorkspace& work;
  const StepInputs& inputs;
  std::span<const kernels::cuda::KvLayer> kv;  // [nLayers]
  kernels::cuda::Blas& blas;
  cudaStream_t stream;

  /// All layers: the residual stream of the pass's rows, and their K and V in the cache. `splits`:
  /// shares of a history that decode attention works on at the same time.
  void layers(const StepPlan::Pass& pass, std::span<const StepPlan::Prefill> prefills,
              int splits) const;
  /// Logits [rows, vocabSize] of rows of the pass: those that `rowIndex` (device) names, or the
  /// first ones.
  void head(const std::int32_t* rowIndex, int rows) const;

 private:
  void norm(const float* weight, const kernels::cuda::Matrix& next, int rows,
            const std::int32_t* rowIndex) const;
  void multiply(const kernels::cuda::Matrix& matrix, const kernels::cuda::Rows& x, int rows,
                float* y, int yStride, bool accumulate) const;
  void rotateAndAppend(const CudaLayer& layer, int index,
                       const kernels::cuda::StepRows& step) const;
  void attend(const CudaLayer& layer, int index, const StepPlan::Pass& pass,
              std::span<const StepPlan::Prefill> prefills, int splits) const;
  void feedForward(const CudaLayer& layer, int rows) const;
};

}  // namespace vitrine::engine::cuda

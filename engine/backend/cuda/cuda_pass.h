#pragma once

#include <span>
#include <vector>

#include "engine/backend/cuda/activation_tap.h"
#include "engine/backend/cuda/cuda_weights.h"
#include "engine/backend/cuda/cuda_workspace.h"
#include "engine/backend/cuda/step_inputs.h"
#include "engine/backend/cuda/step_plan.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/blas.h"

namespace vitrine::engine::cuda {

/// Queues what one pass computes. Nothing here allocates or waits, so that it can be captured,
/// except while somebody looks on (`tap`). A view of the backend's parts.
struct CudaPass {
  const ModelConfig& config;
  const CudaWeights& weights;
  const CudaWorkspace& work;
  const StepInputs& inputs;
  std::span<const kernels::cuda::KvLayer> kv;  // [nLayers]
  kernels::cuda::Blas& blas;
  cudaStream_t stream;
  ActivationTap* tap = nullptr;  ///< where it is on

  /// All layers: the residual stream of the pass's rows, and their K and V in the cache. `splits`:
  /// shares of a history that decode attention works on at the same time.
  void layers(const StepPlan::Pass& pass, std::span<const StepPlan::Prefill> prefills,
              int splits) const;
  /// Logits [rows, vocabSize] of rows of the pass: those that `rowIndex` (device) names, or the
  /// first ones (of which those at position −1 are padding).
  void head(const StepPlan::Pass& pass, const std::int32_t* rowIndex, int rows) const;

 private:
  /// Rows of a norm: of the stream, or those that `index` names.
  struct NormRows {
    int count = 0;
    const std::int32_t* index = nullptr;      // device
    const std::int32_t* positions = nullptr;  // device; null: all are real
  };
  void norm(int site, const float* weight, std::span<const CudaMatrix> readers,
            const NormRows& rows) const;
  void multiply(const CudaMatrix& matrix, const kernels::cuda::Rows& x, int rows, float* y,
                int yStride, bool accumulate) const;
  void multiplyNormed(int site, std::span<const CudaMatrix> readers, int rows, float* y,
                      int yStride) const;
  void rotateAndAppend(const CudaLayer& layer, int index,
                       const kernels::cuda::StepRows& step) const;
  void attend(const CudaLayer& layer, int index, const StepPlan::Pass& pass,
              std::span<const StepPlan::Prefill> prefills, int splits) const;
  void feedForward(const CudaLayer& layer, int index, const StepPlan::Pass& pass) const;
  void gate(const CudaLayer& layer, int index, int rows, const kernels::cuda::Rows& to) const;
};

}  // namespace vitrine::engine::cuda

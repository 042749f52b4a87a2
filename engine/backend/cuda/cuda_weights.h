#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/backend/precision.h"
#include "engine/model/model.h"
#include "engine/quant/quant_plan.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/types.h"

namespace vitrine::engine::cuda {

/// A matrix, or neighbours that read the same rows in the same form, one below the other.
struct CudaMatrix {
  kernels::cuda::Matrix weights;
  kernels::cuda::Matrix outliers;  ///< FP16: the columns that are zero in `weights`; out 0: none
  int firstOutput = 0;             ///< among those of all matrices that read the rows

  bool hasOutliers() const { return outliers.out > 0; }
};
/// The matrices that read the same rows: one where all have the same form, which is fast.
using CudaMatrices = std::vector<CudaMatrix>;

/// How INT8 rows are made at a site (engine/quant/sites.h) that INT8 matrices read. All zero: each
/// row has its own scales.
struct CudaSite {
  float staticScale = 0.0F;
  kernels::cuda::Outliers outliers;  ///< without a place for values
};

/// One layer on the device. Vectors are FP32; null where the architecture has none.
struct CudaLayer {
  CudaMatrices qkv;                      // [qkvDim, dModel]: queries, keys, values
  CudaMatrix wo;                         // [dModel, qDim]
  CudaMatrices gateUp;                   // [2 · dFfn, dModel]: the gates first
  CudaMatrix wDown;                      // [dModel, dFfn]
  const float* attentionNorm = nullptr;  // [dModel]
  const float* ffnNorm = nullptr;        // [dModel]
  const float* bias = nullptr;           // [qkvDim]
  const float* qNorm = nullptr;          // [headDim]
  const float* kNorm = nullptr;          // [headDim]
};

/// A model's weights in device memory, in one run, converted on the host on their way there.
/// Immutable after make().
class CudaWeights final {
 public:
  /// For a model that runs with `config` (its KV heads may be others than the file's). Copies on
  /// `stream`, and waits for it. `progress` is called on the calling thread. Throws CudaError.
  static Result<std::unique_ptr<const CudaWeights>> make(
      const Model& model, const ModelConfig& config, const WeightPrecision& precision,
      cudaStream_t stream, const Progress& progress, std::stop_token stop);

  std::vector<CudaLayer> layers;
  std::vector<CudaSite> sites;        // [siteCount(nLayers)]
  const float* outputNorm = nullptr;  // [dModel]
  CudaMatrix output;                  // [vocabSize, dModel]
  kernels::cuda::EmbeddingTable embedding;
  const double* ropeTurns = nullptr;  // [rope.dims / 2]: turns of 2π that a position takes

  std::uint64_t bytes() const { return m_memory.bytes(); }
  /// Bytes that one decode step reads: everything, but of the embedding one row.
  std::uint64_t bytesPerToken() const { return m_bytesPerToken; }

 private:
  kernels::cuda::DeviceBuffer<std::byte> m_memory;
  std::uint64_t m_bytesPerToken = 0;
};

}  // namespace vitrine::engine::cuda

#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/backend/precision.h"
#include "engine/model/model.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/types.h"

namespace vitrine::engine::cuda {

/// One layer on the device. Vectors are FP32; null where the architecture has none.
struct CudaLayer {
  kernels::cuda::Matrix wQkv;            // [qkvDim, dModel]: queries, keys, values
  kernels::cuda::Matrix wo;              // [dModel, qDim]
  kernels::cuda::Matrix wGateUp;         // [2 · dFfn, dModel]: the gates first
  kernels::cuda::Matrix wDown;           // [dModel, dFfn]
  const float* attentionNorm = nullptr;  // [dModel]
  const float* ffnNorm = nullptr;        // [dModel]
  const float* bias = nullptr;           // [qkvDim]
  const float* qNorm = nullptr;          // [headDim]
  const float* kNorm = nullptr;          // [headDim]
};

/// The format of a matrix that was joined from `parts`. WeightMode::kNative: BF16 where the file
/// has BF16 alone, else FP16. (Kernels that compute with 4-bit blocks will get theirs here.)
kernels::cuda::WeightFormat weightFormat(std::span<const TensorView> parts, WeightMode mode);

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
  const float* outputNorm = nullptr;  // [dModel]
  kernels::cuda::Matrix output;       // [vocabSize, dModel]
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

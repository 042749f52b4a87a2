#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/api/tensor_type.h"
#include "kernels/cuda/types.h"

// Operations on rows. Every launcher queues on `stream` and returns; a broken argument or a failed
// launch throws CudaError.

namespace vitrine::kernels::cuda {

/// The embedding table as it lies in the model file (kernels/api/embedding.h), on the device.
struct EmbeddingTable {
  TensorType type = TensorType::kF32;
  const std::byte* data = nullptr;  // [vocab] rows of the type
  std::size_t rowBytes = 0;
  int dim = 0;
};
/// x [rows, dim] FP32 = scale · E[tokens]. `tokens` [rows], device; −1 gives zeros.
void embed(cudaStream_t stream, const EmbeddingTable& table, const std::int32_t* tokens, int rows,
           float scale, float* x);

/// y = rmsNorm(x) · weight (kernels/api/rms_norm.h), written in the form that the next product
/// reads: rounded (FP16 saturates), or quantized in groups.
/// x [·, dim] FP32; `rowIndex` [rows] or null picks the rows of x (device; −1: zeros); weight [dim]
/// FP32. dim ≤ 16384.
struct RmsNormParams {
  const float* x = nullptr;
  const std::int32_t* rowIndex = nullptr;
  const float* weight = nullptr;
  int rows = 0;
  int dim = 0;
  float eps = 1e-5F;
  Rows y;
};
void rmsNorm(cudaStream_t stream, const RmsNormParams& params);

/// FP32 rows [rows, xStride] of `width` values into the form of `y`.
void convertRows(cudaStream_t stream, const float* x, int xStride, int width, int rows,
                 const Rows& y);

/// y = act(gate) · up (kernels/api/activation.h). gateUp [rows, 2 · width] FP32, the gates first;
/// y of any type.
struct GateParams {
  const float* gateUp = nullptr;
  int rows = 0;
  int width = 0;
  bool gelu = false;
  Rows y;
};
void gate(cudaStream_t stream, const GateParams& params);

/// Copies the first `slots` positions of every run of a block to another (copy on write), all
/// layers: `layers` lies in host memory.
void copyBlock(cudaStream_t stream, const std::byte* from, std::byte* to, const KvLayer* layers,
               int nLayers, int slots);

}  // namespace vitrine::kernels::cuda

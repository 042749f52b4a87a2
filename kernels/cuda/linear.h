#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/types.h"

// Products with weights, y = x Wᵀ (kernels/api/linear.h). Up to kGemvRows rows read each weight
// once with kernels of ours, every row's sum in one fixed order that does not depend on the number
// of rows; more go to cuBLAS (INT8 groups with INT8 activations: a tiled kernel of ours).
//
//   weights   activations   up to kGemvRows rows         more
//   FP16      FP16          FP32 sums                    cuBLAS, FP32 accumulation
//   BF16      BF16          FP32 sums                    cuBLAS, FP32 accumulation
//   INT8      FP16 (W8A16)  FP32 sums, scale a group     widened to FP16, then cuBLAS
//   INT8      INT8 (W8A8)   __dp4a, INT32 in a group     groups: __dp4a tiles; a scale a row:
//                                                        cuBLAS to INT32, then the scales
// INT8 groups of weights and activations are the same in W8A8. Outlier columns are a second product
// (FP16 weights and Outliers::values) that is added to the first.

namespace vitrine::kernels::cuda {

class Blas;

inline constexpr int kGemvRows = 8;

struct LinearParams {
  Matrix weights;
  Rows x;  ///< kFp16, kBf16 or kInt8, stride as that of the weights
  int rows = 0;
  float* y = nullptr;  // [rows, yStride] FP32
  int yStride = 0;
  bool accumulate = false;  ///< y += instead of y = (the residual stream)
};
/// `workspace`: linearWorkspaceBytes() of device memory, 256-byte aligned; null where that is 0.
void linear(cudaStream_t stream, Blas& blas, const LinearParams& params, void* workspace);
std::size_t linearWorkspaceBytes(const Matrix& weights, RowType activations, int rows);

/// The gate, the up product and the activation in one pass over the weights, for up to kGemvRows
/// rows: weights [2 · width, in] with the gates first; y [rows, width], kFp32, kFp16 (saturates) or
/// kBf16, and zeros from the width up to its stride.
struct GatedLinearParams {
  Matrix weights;
  Rows x;
  int rows = 0;
  bool gelu = false;
  Rows y;
};
void gatedLinear(cudaStream_t stream, const GatedLinearParams& params);

}  // namespace vitrine::kernels::cuda

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/linear.h"
#include "kernels/cuda/types.h"

// What linear() needs for many rows of INT8 products beside cuBLAS.

namespace vitrine::kernels::cuda {

/// INT8 weights widened to FP16, the scales in: to [outputs, stride] of rows firstOutput … of the
/// matrix. outputScale stays out, so that FP16 holds everything.
void widenWeights(cudaStream_t stream, const Matrix& weights, int firstOutput, int outputs,
                  void* to);

/// y[r, firstOutput + o] (+)= outputScale · sx[r] · s[firstOutput + o] · sums[r, o], a scale a row.
/// sums [rows, sumStride] INT32.
void scaleSums(cudaStream_t stream, const LinearParams& params, int firstOutput, int outputs,
               const std::int32_t* sums, int sumStride);

/// W8A8 in groups, any number of rows (at most 65535 · 64).
void groupedInt8Product(cudaStream_t stream, const LinearParams& params);

}  // namespace vitrine::kernels::cuda

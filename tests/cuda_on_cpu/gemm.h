#pragma once

#include <cublas_v2.h>

#include <cstddef>

namespace cuda_on_cpu {

/// A matrix as cuBLAS names it: column-major, elements (row, column) at row + column · stride, or
/// transposed.
struct GemmOperand {
  const void* data = nullptr;
  cudaDataType type{};
  int stride = 0;
  bool isTransposed = false;
};

/// C [m, n] = alpha · A [m, k] · B [k, n] + beta · C; c and its column stride. Sums of FP16, BF16
/// and FP32 in FP32, of INT8 in INT32.
void multiply(int m, int n, int k, float alpha, const GemmOperand& a, const GemmOperand& b,
              float beta, float* c, int cStride);
void multiplyInt8(int m, int n, int k, int alpha, const GemmOperand& a, const GemmOperand& b,
                  int beta, int* c, int cStride);

}  // namespace cuda_on_cpu

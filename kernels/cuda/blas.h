#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

// cuBLAS, taken in when it is needed: the library (and half a gigabyte beside it) is loaded at run
// time, so that a machine without a GPU never touches it.

namespace vitrine::kernels::cuda {

/// cublasGemmEx(), which has two signatures in C++.
using CublasGemmEx = cublasStatus_t (*)(cublasHandle_t handle, cublasOperation_t transA,
                                        cublasOperation_t transB, int m, int n, int k,
                                        const void* alpha, const void* a, cudaDataType aType,
                                        int lda, const void* b, cudaDataType bType, int ldb,
                                        const void* beta, void* c, cudaDataType cType, int ldc,
                                        cublasComputeType_t computeType, cublasGemmAlgo_t algo);

/// The functions of cuBLAS that are used. Filled by loadCublas(), once for the process.
struct CublasFunctions {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) setStream = nullptr;
  decltype(&cublasSetWorkspace_v2) setWorkspace = nullptr;
  decltype(&cublasSetMathMode) setMathMode = nullptr;
  CublasGemmEx gemmEx = nullptr;
};
/// Null and a sentence in `problem` where the library cannot be had. From any thread.
const CublasFunctions* loadCublas(std::string& problem);

/// A cuBLAS handle on one stream. Row-major products with transposed weights:
/// c [rows, out] = a [rows, k] · w [out, k]ᵀ (+ c). Throws CudaError; what cuBLAS itself could not
/// allocate is cudaErrorMemoryAllocation.
class Blas final {
 public:
  /// `workspace` stays the caller's: device memory that cuBLAS may use on this stream.
  Blas(cudaStream_t stream, void* workspace, std::size_t workspaceBytes);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  /// FP16 or BF16 (`type` CUDA_R_16F, CUDA_R_16BF), summed in FP32, c FP32; `scale` multiplies the
  /// product.
  void multiply(cudaDataType type, const void* a, int aStride, const void* w, int wStride, int rows,
                int out, int k, float* c, int cStride, bool accumulate, float scale = 1.0F);
  /// INT8 to INT32; out, k and strides are multiples of 4.
  void multiplyInt8(const void* a, int aStride, const void* w, int wStride, int rows, int out,
                    int k, std::int32_t* c, int cStride);

 private:
  const CublasFunctions* m_functions = nullptr;
  cublasHandle_t m_handle = nullptr;
};

}  // namespace vitrine::kernels::cuda

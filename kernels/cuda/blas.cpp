#include "kernels/cuda/blas.h"

#include "kernels/cuda/check.h"

namespace vitrine::kernels::cuda {
namespace {

/// A status as CudaError. The names are written here: cublasGetStatusString() would be one more
/// function to load.
void checkStatus(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaError_t code = cudaErrorUnknown;
  std::string name = "status " + std::to_string(static_cast<int>(status));
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      code = cudaErrorInitializationError;
      name = "not initialized";
      break;
    case CUBLAS_STATUS_ALLOC_FAILED:
      code = cudaErrorMemoryAllocation;
      name = "out of memory";
      break;
    case CUBLAS_STATUS_INVALID_VALUE:
      code = cudaErrorInvalidValue;
      name = "invalid value";
      break;
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      code = cudaErrorNotSupported;
      name = "not supported";
      break;
    case CUBLAS_STATUS_EXECUTION_FAILED:
      code = cudaErrorLaunchFailure;
      name = "execution failed";
      break;
    default:
      break;
  }
  cudaGetLastError();  // an error that does not stick must not fail the next launch
  throw CudaError(code, std::string(what) + ": cuBLAS: " + name);
}

}  // namespace

Blas::Blas(cudaStream_t stream, void* workspace, std::size_t workspaceBytes) {
  std::string problem;
  m_functions = loadCublas(problem);
  if (m_functions == nullptr) throw CudaError(cudaErrorSharedObjectInitFailed, problem);
  checkStatus(m_functions->create(&m_handle), "making a cuBLAS handle");
  try {
    checkStatus(m_functions->setStream(m_handle, stream), "giving cuBLAS its stream");
    // After the stream: setting a stream takes the workspace away.
    if (workspace != nullptr) {
      checkStatus(m_functions->setWorkspace(m_handle, workspace, workspaceBytes),
                  "giving cuBLAS its workspace");
    }
    checkStatus(m_functions->setMathMode(m_handle, CUBLAS_DEFAULT_MATH), "setting up cuBLAS");
  } catch (...) {
    m_functions->destroy(m_handle);
    throw;
  }
}

Blas::~Blas() {
  if (m_handle != nullptr && m_functions->destroy(m_handle) != CUBLAS_STATUS_SUCCESS) {
    cudaGetLastError();
  }
}

// cuBLAS counts in columns: cᵀ [out, rows] = w [k, out]ᵀ · aᵀ [k, rows], so the weights come first
// and are the transposed one. It is the one order that its INT8 kernels take.

void Blas::multiply(cudaDataType type, const void* a, int aStride, const void* w, int wStride,
                    int rows, int out, int k, float* c, int cStride, bool accumulate, float scale) {
  const float beta = accumulate ? 1.0F : 0.0F;
  checkStatus(m_functions->gemmEx(m_handle, CUBLAS_OP_T, CUBLAS_OP_N, out, rows, k, &scale, w, type,
                                  wStride, a, type, aStride, &beta, c, CUDA_R_32F, cStride,
                                  CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
              "matrix product");
}

void Blas::multiplyInt8(const void* a, int aStride, const void* w, int wStride, int rows, int out,
                        int k, std::int32_t* c, int cStride) {
  const std::int32_t one = 1;
  const std::int32_t zero = 0;
  checkStatus(m_functions->gemmEx(m_handle, CUBLAS_OP_T, CUBLAS_OP_N, out, rows, k, &one, w,
                                  CUDA_R_8I, wStride, a, CUDA_R_8I, aStride, &zero, c, CUDA_R_32I,
                                  cStride, CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT),
              "INT8 matrix product");
}

}  // namespace vitrine::kernels::cuda

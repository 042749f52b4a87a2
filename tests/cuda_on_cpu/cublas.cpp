#include "cublas.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "api.h"
#include "device_memory.h"
#include "gemm.h"
#include "harness.h"

// cuBLAS: what the library would refuse is refused, and what it would read or write out of bounds
// is a fault.

using namespace cuda_on_cpu;

namespace cuda_on_cpu {

Handles<cublasContext>& cublasHandles() {
  static auto* handles = new Handles<cublasContext>;
  return *handles;
}

}  // namespace cuda_on_cpu

namespace {

cublasStatus_t statusFor(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return CUBLAS_STATUS_SUCCESS;
    case cudaErrorMemoryAllocation:
      return CUBLAS_STATUS_ALLOC_FAILED;
    case cudaErrorNotSupported:
      return CUBLAS_STATUS_NOT_SUPPORTED;
    case cudaErrorInvalidValue:
      return CUBLAS_STATUS_INVALID_VALUE;
    default:
      return CUBLAS_STATUS_EXECUTION_FAILED;
  }
}

template <typename Call>
cublasStatus_t blasCall(const char* function, ApiKind kind, cublasHandle_t handle, Call&& work) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const cudaError_t code = apiCall(function, kind, [&] {
    if (!cublasHandles().has(handle)) {
      note(std::string(function) + " with a handle that does not exist");
      status = CUBLAS_STATUS_NOT_INITIALIZED;
    } else {
      status = work();
    }
    return cudaSuccess;  // cuBLAS leaves the runtime's last error alone
  });
  return code != cudaSuccess ? statusFor(code) : status;
}

std::size_t sizeOf(cudaDataType type) {
  switch (type) {
    case CUDA_R_8I:
      return 1;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    default:
      return 4;
  }
}

/// What is wrong with a product, or null; `status` for it.
struct Product {
  bool transA, transB;
  int m, n, k;
  cudaDataType typeA, typeB, typeC;
  int lda, ldb, ldc;
  const void *a, *b;
  void* c;
  cublasComputeType_t compute;

  bool isInt8() const { return compute == CUBLAS_COMPUTE_32I; }
  cublasStatus_t check(int architecture) const {
    if (m < 0 || n < 0 || k < 0 || lda < std::max(1, transA ? k : m) ||
        ldb < std::max(1, transB ? n : k) || ldc < std::max(1, m)) {
      note("cublasGemmEx: a stride is smaller than a column");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (isInt8()) {
      // What the integer tensor cores take.
      const bool fits = typeA == CUDA_R_8I && typeB == CUDA_R_8I && typeC == CUDA_R_32I && transA &&
                        !transB && m % 4 == 0 && k % 4 == 0 && lda % 4 == 0 && ldb % 4 == 0 &&
                        reinterpret_cast<std::uintptr_t>(a) % 4 == 0 &&
                        reinterpret_cast<std::uintptr_t>(b) % 4 == 0;
      if (!fits) note("cublasGemmEx: INT8 needs A transposed and multiples of 4");
      return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const bool isKnown = typeA == CUDA_R_16F || typeA == CUDA_R_16BF || typeA == CUDA_R_32F;
    if (compute != CUBLAS_COMPUTE_32F || typeA != typeB || typeC != CUDA_R_32F || !isKnown) {
      note("cublasGemmEx: these types are not multiplied here");
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (typeA == CUDA_R_16BF && architecture < 80) {
      note("cublasGemmEx: BF16 needs sm_80");
      return CUBLAS_STATUS_ARCH_MISMATCH;
    }
    return CUBLAS_STATUS_SUCCESS;
  }
  /// Every operand in memory of a device.
  bool fitsMemory() const {
    const DeviceMemory& memory = DeviceMemory::instance();
    const auto extent = [](int rows, int columns, int stride, cudaDataType type) {
      return (static_cast<std::size_t>(columns - 1) * stride + rows) * sizeOf(type);
    };
    const bool fits = memory.holds(a, extent(transA ? k : m, transA ? m : k, lda, typeA)) &&
                      memory.holds(b, extent(transB ? n : k, transB ? k : n, ldb, typeB)) &&
                      memory.holds(c, extent(m, n, ldc, typeC));
    if (!fits) {
      reportFault("cublasGemmEx " + std::to_string(m) + " x " + std::to_string(n) + " x " +
                      std::to_string(k) + ": an operand is not inside of an allocation",
                  cudaErrorIllegalAddress);
    }
    return fits;
  }
};

}  // namespace

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  const cudaError_t code = apiCall("cublasCreate", ApiKind::kUnsafe, [&] {
    *handle = cublasHandles().make();
    return cudaSuccess;
  });
  return code == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED
         : code != cudaSuccess             ? CUBLAS_STATUS_NOT_INITIALIZED
                                           : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  return blasCall("cublasDestroy", ApiKind::kGiveBack, handle, [&] {
    Queue::instance().runAll();
    cublasHandles().destroy(handle);
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  return blasCall("cublasSetStream", ApiKind::kWork, handle, [&] {
    handle->stream = stream;
    handle->workspace = nullptr;  // as the library does
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  return blasCall("cublasSetWorkspace", ApiKind::kWork, handle, [&] {
    if (workspace != nullptr && reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) {
      note("cublasSetWorkspace: memory that is not aligned to 256 bytes");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (workspace != nullptr && !DeviceMemory::instance().holds(workspace, bytes)) {
      note("cublasSetWorkspace: memory that is not inside of an allocation");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    handle->workspace = workspace;
    handle->workspaceBytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t) {
  return blasCall("cublasSetMathMode", ApiKind::kWork, handle,
                  [] { return CUBLAS_STATUS_SUCCESS; });
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown cuBLAS status";
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transposeA,
                            cublasOperation_t transposeB, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType typeA, int lda, const void* b,
                            cudaDataType typeB, int ldb, const void* beta, void* c,
                            cudaDataType typeC, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t) {
  return blasCall("cublasGemmEx", ApiKind::kWork, handle, [&] {
    const Product product{transposeA == CUBLAS_OP_T,
                          transposeB == CUBLAS_OP_T,
                          m,
                          n,
                          k,
                          typeA,
                          typeB,
                          typeC,
                          lda,
                          ldb,
                          ldc,
                          a,
                          b,
                          c,
                          compute};
    if (const cublasStatus_t status = product.check(settings().architecture);
        status != CUBLAS_STATUS_SUCCESS || m == 0 || n == 0 || k == 0) {
      return status;
    }
    if (!product.fitsMemory()) return CUBLAS_STATUS_EXECUTION_FAILED;
    // Read now: they lie in host memory that need not live longer than the call.
    const float floatAlpha = product.isInt8() ? 0 : *static_cast<const float*>(alpha);
    const float floatBeta = product.isInt8() ? 0 : *static_cast<const float*>(beta);
    const int intAlpha = product.isInt8() ? *static_cast<const int*>(alpha) : 0;
    const int intBeta = product.isInt8() ? *static_cast<const int*>(beta) : 0;
    return statusFor(Queue::instance().add(handle->stream, [=] {
      if (!product.fitsMemory()) return;
      const GemmOperand left{a, typeA, lda, product.transA}, right{b, typeB, ldb, product.transB};
      if (product.isInt8()) {
        multiplyInt8(m, n, k, intAlpha, left, right, intBeta, static_cast<int*>(c), ldc);
      } else {
        multiply(m, n, k, floatAlpha, left, right, floatBeta, static_cast<float*>(c), ldc);
      }
    }));
  });
}

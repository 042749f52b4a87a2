#include "harness.h"
#include "kernels/cuda/blas.h"

// The stand-in for kernels/cuda/cublas_loader.cpp: cuBLAS is there, or "cannot be loaded" as a test
// wishes.

namespace vitrine::kernels::cuda {

const CublasFunctions* loadCublas(std::string& problem) {
  static const CublasFunctions functions{&cublasCreate_v2,    &cublasDestroy_v2,
                                         &cublasSetStream_v2, &cublasSetWorkspace_v2,
                                         &cublasSetMathMode,  &cublasGemmEx};
  problem = cuda_on_cpu::settings().cublasProblem;
  return problem.empty() ? &functions : nullptr;
}

}  // namespace vitrine::kernels::cuda

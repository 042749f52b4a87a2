#pragma once

#include <cublas_v2.h>

#include <cstddef>

#include "streams.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  std::size_t workspaceBytes = 0;
};

namespace cuda_on_cpu {
Handles<cublasContext>& cublasHandles();
}  // namespace cuda_on_cpu

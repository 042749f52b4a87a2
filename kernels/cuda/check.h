#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

// Errors of CUDA calls. Exceptions live in kernels/cuda and in the CUDA backend alone; the
// backend's public calls turn them into values.

namespace vitrine::kernels::cuda {

/// A CUDA call failed. what() names the call, the error and what was asked for.
class CudaError : public std::runtime_error {
 public:
  CudaError(cudaError_t code, const std::string& what) : std::runtime_error(what), m_code(code) {}
  cudaError_t code() const { return m_code; }
  bool isOutOfMemory() const { return m_code == cudaErrorMemoryAllocation; }

 private:
  cudaError_t m_code;
};

/// Throws CudaError unless `code` is cudaSuccess: "cudaMalloc of 4096 bytes: out of memory".
inline void check(cudaError_t code, const std::string& what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // an error that does not stick must not fail the next launch
  throw CudaError(code, what + ": " + cudaGetErrorString(code));
}
inline void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) check(code, std::string(what));
}

/// A launcher's own promise about its arguments (sizes, alignment) was broken by its caller.
inline void require(bool condition, const char* what) {
  if (!condition) throw CudaError(cudaErrorInvalidValue, std::string("kernel arguments: ") + what);
}

}  // namespace vitrine::kernels::cuda

#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace vitrine::device {

/// Reads `bytes` (a multiple of 16) with wide loads and leaves a sum in *sum, so that nothing can
/// be left out.
void readAll(cudaStream_t stream, const void* memory, std::size_t bytes, unsigned* sum);

}  // namespace vitrine::device

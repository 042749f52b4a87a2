#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

// Small kernels for the tests of the harness.

namespace cuda_on_cpu {

/// out[i] = a[i] + b, n values.
cudaError_t addNumber(cudaStream_t stream, const float* a, float b, float* out, int n);
/// out[i] = a[i] + *b.
cudaError_t addValueAt(cudaStream_t stream, const float* a, const float* b, float* out, int n);
/// out[i] = the index of the block that was the i-th to run; one thread a block.
cudaError_t orderOfBlocks(cudaStream_t stream, unsigned* counter, unsigned* out, int blocks);
/// out[i] = the index of the thread that was the i-th to pass an atomic.
cudaError_t orderOfThreads(cudaStream_t stream, unsigned* counter, unsigned* out, int threads);
/// What each lane gets from each collective; kCollectives rows of 32.
inline constexpr int kCollectives = 17;
cudaError_t collectives(cudaStream_t stream, const int* in, int* out);
/// Votes of a block of 96 threads: count, and, or.
cudaError_t votes(cudaStream_t stream, const int* in, int* out);
/// Leaves NaN in every value of fresh static and dynamic shared memory alone: out = what was read.
cudaError_t freshShared(cudaStream_t stream, std::uint32_t* out, int blocks);
/// blockIdx, threadIdx, blockDim and gridDim of every thread: out [threads, 12].
cudaError_t indices(cudaStream_t stream, dim3 grid, dim3 block, unsigned* out);
/// As the launch is asked for; does nothing.
cudaError_t launchEmpty(cudaStream_t stream, dim3 grid, dim3 block, std::size_t dynamicBytes,
                        bool allowDynamic);
/// A fault of the device, in block 3.
cudaError_t failKernel(cudaStream_t stream);

}  // namespace cuda_on_cpu

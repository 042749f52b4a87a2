#include "test_kernels.h"

namespace cuda_on_cpu {
namespace {

constexpr unsigned kAll = 0xFFFFFFFFU;

cudaLaunchConfig_t config(cudaStream_t stream, dim3 grid, dim3 block, std::size_t bytes = 0) {
  cudaLaunchConfig_t all = {};
  all.gridDim = grid;
  all.blockDim = block;
  all.dynamicSmemBytes = bytes;
  all.stream = stream;
  return all;
}

__global__ void addNumberKernel(const float* a, float b, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = a[i] + b;
}

__global__ void addValueAtKernel(const float* a, const float* b, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = a[i] + *b;
}

__global__ void orderOfBlocksKernel(unsigned* counter, unsigned* out) {
  out[atomicAdd(counter, 1U)] = blockIdx.x;
}

__global__ void orderOfThreadsKernel(unsigned* counter, unsigned* out) {
  out[atomicAdd(counter, 1U)] = threadIdx.x;
}

__global__ void collectivesKernel(const int* in, int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const int value = in[lane];
  const auto put = [&](int row, int result) { out[row * 32 + lane] = result; };
  put(0, __shfl_sync(kAll, value, 5));
  put(1, __shfl_sync(kAll, value, lane + 3));
  put(2, __shfl_sync(kAll, value, 2, 8));
  put(3, __shfl_up_sync(kAll, value, 1));
  put(4, __shfl_up_sync(kAll, value, 3, 16));
  put(5, __shfl_down_sync(kAll, value, 1));
  put(6, __shfl_down_sync(kAll, value, 5, 8));
  put(7, __shfl_xor_sync(kAll, value, 16));
  put(8, __shfl_xor_sync(kAll, value, 3, 4));
  put(9, static_cast<int>(__ballot_sync(kAll, value > 0)));
  put(10, __any_sync(kAll, value > 1000));
  put(11, __all_sync(kAll, value > -1000));
  put(12, __reduce_add_sync(kAll, value));
  put(13, __reduce_min_sync(kAll, value));
  put(14, __reduce_max_sync(kAll, value));
  put(15, static_cast<int>(__match_any_sync(kAll, value)));
  int half = 0;  // the two halves of the warp go different ways
  if (lane < 16) {
    half = __reduce_add_sync(0x0000FFFFU, value);
  } else {
    half = __reduce_max_sync(0xFFFF0000U, value);
  }
  put(16, half);
}

__global__ void votesKernel(const int* in, int* out) {
  const int t = static_cast<int>(threadIdx.x);
  const int count = __syncthreads_count(in[t]);
  const int all = __syncthreads_and(in[t]);
  const int any = __syncthreads_or(in[t]);
  if (t == 95) {
    out[0] = count;
    out[1] = all;
    out[2] = any;
  }
}

__global__ void freshSharedKernel(std::uint32_t* out) {
  __shared__ std::uint32_t values[32];
  VITRINE_DYNAMIC_SHARED(std::uint32_t, more);
  const unsigned i = blockIdx.x * 64 + threadIdx.x;
  out[i] = values[threadIdx.x];
  out[i + 32] = more[threadIdx.x];
  values[threadIdx.x] = more[threadIdx.x] = 1;
}

__global__ void indicesKernel(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out += (block * blockDim.x * blockDim.y * blockDim.z + thread) * 12;
  const unsigned all[12] = {blockIdx.x,  blockIdx.y,  blockIdx.z, threadIdx.x,
                            threadIdx.y, threadIdx.z, blockDim.x, blockDim.y,
                            blockDim.z,  gridDim.x,   gridDim.y,  gridDim.z};
  for (int i = 0; i < 12; ++i) out[i] = all[i];
}

__global__ void emptyKernel() {}

__global__ void failingKernel() {
  if (blockIdx.x == 3 && threadIdx.x == 7) __trap();
}

}  // namespace

cudaError_t addNumber(cudaStream_t stream, const float* a, float b, float* out, int n) {
  const auto where = config(stream, (n + 63) / 64, 64);
  return cudaLaunchKernelEx(&where, addNumberKernel, a, b, out, n);
}

cudaError_t addValueAt(cudaStream_t stream, const float* a, const float* b, float* out, int n) {
  const auto where = config(stream, (n + 63) / 64, 64);
  return cudaLaunchKernelEx(&where, addValueAtKernel, a, b, out, n);
}

cudaError_t orderOfBlocks(cudaStream_t stream, unsigned* counter, unsigned* out, int blocks) {
  const auto where = config(stream, static_cast<unsigned>(blocks), 1);
  return cudaLaunchKernelEx(&where, orderOfBlocksKernel, counter, out);
}

cudaError_t orderOfThreads(cudaStream_t stream, unsigned* counter, unsigned* out, int threads) {
  const auto where = config(stream, 1, static_cast<unsigned>(threads));
  return cudaLaunchKernelEx(&where, orderOfThreadsKernel, counter, out);
}

cudaError_t collectives(cudaStream_t stream, const int* in, int* out) {
  const auto where = config(stream, 1, 32);
  return cudaLaunchKernelEx(&where, collectivesKernel, in, out);
}

cudaError_t votes(cudaStream_t stream, const int* in, int* out) {
  const auto where = config(stream, 1, 96);
  return cudaLaunchKernelEx(&where, votesKernel, in, out);
}

cudaError_t freshShared(cudaStream_t stream, std::uint32_t* out, int blocks) {
  const auto where = config(stream, static_cast<unsigned>(blocks), 32, 32 * sizeof(std::uint32_t));
  return cudaLaunchKernelEx(&where, freshSharedKernel, out);
}

cudaError_t indices(cudaStream_t stream, dim3 grid, dim3 block, unsigned* out) {
  const auto where = config(stream, grid, block);
  return cudaLaunchKernelEx(&where, indicesKernel, out);
}

cudaError_t launchEmpty(cudaStream_t stream, dim3 grid, dim3 block, std::size_t dynamicBytes,
                        bool allowDynamic) {
  if (allowDynamic) {
    const cudaError_t code = cudaFuncSetAttribute(
        emptyKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(dynamicBytes));
    if (code != cudaSuccess) return code;
  }
  const auto where = config(stream, grid, block, dynamicBytes);
  return cudaLaunchKernelEx(&where, emptyKernel);
}

cudaError_t failKernel(cudaStream_t stream) {
  const auto where = config(stream, 8, 32);
  return cudaLaunchKernelEx(&where, failingKernel);
}

}  // namespace cuda_on_cpu

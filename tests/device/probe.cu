#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/check.h"
#include "tests/device/probe.h"

namespace vitrine::device {
namespace {

constexpr int kThreads = 256;
constexpr int kLoads = 8;  // of a thread at the same time

// Reads uint4 [n]: a grid of blocks walks over it, each thread with eight loads in flight.
__global__ void readAllKernel(const uint4* memory, std::size_t n, unsigned* sum) {
  unsigned mine = 0;
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + (kLoads - 1) * step < n; i += kLoads * step) {
    uint4 v[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) v[k] = memory[i + k * step];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) mine += v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  }
  for (; i < n; i += step) mine += memory[i].x ^ memory[i].y ^ memory[i].z ^ memory[i].w;
  if (mine != 0) atomicAdd(sum, mine);
}

}  // namespace

void readAll(cudaStream_t stream, const void* memory, std::size_t bytes, unsigned* sum) {
  int device = 0;
  int multiprocessors = 0;
  kernels::cuda::check(cudaGetDevice(&device), "asking for the device");
  kernels::cuda::check(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
      "asking for multiprocessors");
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(multiprocessors) * 8);
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  kernels::cuda::check(cudaLaunchKernelEx(&config, readAllKernel, static_cast<const uint4*>(memory),
                                          bytes / sizeof(uint4), sum),
                       "reading memory");
}

}  // namespace vitrine::device

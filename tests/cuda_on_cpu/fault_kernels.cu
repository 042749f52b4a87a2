#include "fault_kernels.h"

// Each kernel is a template on whether it is faulty; the fault is what `if (!kFaulty)` leaves out.

namespace cuda_on_cpu {
namespace {

constexpr int kThreads = 128;
constexpr int kBlocks = kFaultValues / kThreads;
constexpr unsigned kAll = 0xFFFFFFFFU;

__device__ int globalIndex() {
  return static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
}

/// The value at the mirrored place of a block, through shared memory.
template <bool kFaulty>
__global__ void mirror(const float* in, float* out, unsigned*) {
  __shared__ float values[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  values[t] = in[globalIndex()];
  if (!kFaulty) __syncthreads();
  out[globalIndex()] = values[kThreads - 1 - t];
}

/// Each value replaced by its right neighbour, in place.
template <bool kFaulty>
__global__ void shiftInPlace(const float* in, float* out, unsigned*) {
  __shared__ float values[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  values[t] = in[globalIndex()];
  __syncthreads();
  const float neighbour = values[(t + kThreads - 1) % kThreads];
  if (!kFaulty) __syncthreads();
  values[t] = neighbour;
  __syncthreads();
  out[globalIndex()] = values[t];
}

template <bool kFaulty>
__global__ void mirrorWarp(const float* in, float* out, unsigned*) {
  __shared__ float values[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  values[t] = in[globalIndex()];
  if (!kFaulty) __syncwarp();
  out[globalIndex()] = values[t ^ 31];
}

/// A shuffle lets lanes meet, but it is no fence.
template <bool kFaulty>
__global__ void shuffleAsFence(const float* in, float* out, unsigned*) {
  __shared__ float values[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  values[t] = in[globalIndex()];
  const float zero = __shfl_xor_sync(kAll, 0.0F, 1);
  if (!kFaulty) __syncwarp();
  out[globalIndex()] = values[t ^ 31] + zero;
}

/// The fault: block 1 takes what block 0 writes.
template <bool kFaulty>
__global__ void acrossBlocks(const float* in, float* out, unsigned*) {
  const int i = globalIndex();
  float value = in[i];
  if (kFaulty && blockIdx.x == 1) value = out[i - kThreads] * 0.0F + in[i];
  out[i] = value;
}

/// Counts all threads.
template <bool kFaulty>
__global__ void count(const float* in, float* out, unsigned* counter) {
  if (kFaulty) {
    *counter += 1;
  } else {
    atomicAdd(counter, 1U);
  }
  out[globalIndex()] = in[globalIndex()];
}

/// The block that comes last writes what all have prepared.
template <bool kFaulty>
__global__ void lastBlock(const float* in, float* out, unsigned* counter) {
  __shared__ bool isLast;
  out[globalIndex()] = in[globalIndex()];
  if (!kFaulty) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) isLast = atomicAdd(counter, 1U) == gridDim.x - 1;
  __syncthreads();
  if (!isLast) return;
  for (int i = static_cast<int>(threadIdx.x); i < kFaultValues; i += kThreads) out[i] *= 2.0F;
}

template <bool kFaulty>
__global__ void readBehind(const float* in, float* out, unsigned*) {
  const int i = globalIndex();
  const int behind = kFaulty && i == kFaultValues - 1 ? kFaultValues : i;
  out[i] = in[behind];
}

template <bool kFaulty>
__global__ void writeBehind(const float* in, float* out, unsigned*) {
  const int i = globalIndex();
  out[i] = in[i];
  if (kFaulty && i == kFaultValues - 1) out[i + 1] = 1.0F;
}

template <bool kFaulty>
__global__ void dynamicShared(const float* in, float* out, unsigned*) {
  VITRINE_DYNAMIC_SHARED(float, values);
  const int t = static_cast<int>(threadIdx.x);
  values[t + (kFaulty ? 1 : 0)] = in[globalIndex()];
  __syncthreads();
  out[globalIndex()] = values[t + (kFaulty ? 1 : 0)];
}

template <bool kFaulty>
__global__ void staticShared(const float* in, float* out, unsigned*) {
  __shared__ float values[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  values[t + (kFaulty && t == kThreads - 1 ? 1 : 0)] = in[globalIndex()];
  __syncthreads();
  out[globalIndex()] = values[t + (kFaulty && t == kThreads - 1 ? 1 : 0)];
}

template <bool kFaulty>
__global__ void misaligned(const float* in, float* out, unsigned*) {
  const int i = globalIndex();
  const int first = kFaulty ? min(i, kFaultValues - 4) : i / 4 * 4;
  const float4 four = *reinterpret_cast<const float4*>(in + first);
  const float values[4] = {four.x, four.y, four.z, four.w};
  out[i] = values[i - first];
}

/// Adds what nobody has written to shared memory.
template <bool kFaulty>
__global__ void uninitialized(const float* in, float* out, unsigned*) {
  __shared__ float values[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  if (!kFaulty || t % 2 == 0) values[t] = 0.0F;
  __syncthreads();
  out[globalIndex()] = in[globalIndex()] + values[t];
}

template <bool kFaulty>
__global__ void dividedBarrier(const float* in, float* out, unsigned*) {
  out[globalIndex()] = in[globalIndex()];
  if (kFaulty && threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
template <bool kFaulty>
__global__ void returnBeforeBarrier(const float* in, float* out, unsigned*) {
  out[globalIndex()] = in[globalIndex()];
  if (kFaulty && threadIdx.x >= 100) return;
  __syncthreads();
}
template <bool kFaulty>
__global__ void dividedShuffle(const float* in, float* out, unsigned*) {
  const float value = in[globalIndex()];
  float other = 0.0F;
  if (kFaulty && threadIdx.x % 2 == 0) {
    other = __shfl_xor_sync(kAll, value, 2);
  } else {
    other = __shfl_xor_sync(kAll, value, 2);
  }
  out[globalIndex()] = other * 0.0F + value;
}
template <bool kFaulty>
__global__ void wrongMask(const float* in, float* out, unsigned*) {
  const float value = in[globalIndex()];
  const unsigned mask = kFaulty && threadIdx.x % 32 >= 16 ? 0x0000FFFFU : kAll;
  out[globalIndex()] = __shfl_sync(mask, value, 0) * 0.0F + value;
}
template <bool kFaulty>
__global__ void laneEnds(const float* in, float* out, unsigned*) {
  out[globalIndex()] = in[globalIndex()];
  if (kFaulty && threadIdx.x % 32 == 31) return;
  __syncwarp();
}
/// A warp waits for the block while another lane of it waits for the warp.
template <bool kFaulty>
__global__ void deadlock(const float* in, float* out, unsigned*) {
  out[globalIndex()] = in[globalIndex()];
  if (kFaulty && threadIdx.x == 5) __syncwarp();
  __syncthreads();
}
/// What a lane brings that does not take part.
template <bool kFaulty>
__global__ void shuffleFromOutside(const float* in, float* out, unsigned*) {
  const int i = globalIndex();
  float value = in[i];
  if (i % 32 < 16) value += 0.0F * __shfl_sync(0x0000FFFFU, value, kFaulty ? 20 : 3);
  out[i] = value;
}
template <bool kFaulty>
__global__ void trap(const float* in, float* out, unsigned*) {
  out[globalIndex()] = in[globalIndex()];
  if (kFaulty && globalIndex() == 200) __trap();
}

using Kernel = void (*)(const float*, float*, unsigned*);

template <Kernel kFaulty, Kernel kCorrect>
cudaError_t launch(cudaStream_t stream, bool isFaulty, const float* in, float* out,
                   unsigned* counter) {
  cudaLaunchConfig_t config = {};
  config.gridDim = kBlocks;
  config.blockDim = kThreads;
  config.dynamicSmemBytes = kThreads * sizeof(float);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, isFaulty ? kFaulty : kCorrect, in, out, counter);
}

float same(const float* in, int i) {
  return in[i];
}
float mirrored(const float* in, int i) {
  return in[i / kThreads * kThreads + kThreads - 1 - i % kThreads];
}
float shifted(const float* in, int i) {
  return in[i / kThreads * kThreads + (i + kThreads - 1) % kThreads];
}
float mirroredWarp(const float* in, int i) {
  return in[i ^ 31];
}
float twice(const float* in, int i) {
  return 2.0F * in[i];
}

#define FAULT(kernel, foundBy, expected) \
  { #kernel, foundBy, &launch < &kernel < true>, &kernel < false>>, &expected }

constexpr FaultKernel kFaults[] = {
    FAULT(mirror, kByResult | kByThread, mirrored),
    FAULT(shiftInPlace, kByResult | kByThread, shifted),
    FAULT(mirrorWarp, kByResult | kByThread, mirroredWarp),
    FAULT(shuffleAsFence, kByThread, mirroredWarp),
    FAULT(acrossBlocks, kByThread, same),
    FAULT(count, kByThread, same),
    FAULT(lastBlock, kByThread, twice),
    FAULT(readBehind, kByResult | kByAddress, same),
    FAULT(writeBehind, kByGuard | kByAddress, same),
    FAULT(dynamicShared, kByAddress, same),
    FAULT(staticShared, kByAddress, same),
    FAULT(misaligned, kByAddress, same),
    FAULT(uninitialized, kByResult, same),
    FAULT(dividedBarrier, kByReport, same),
    FAULT(returnBeforeBarrier, kByReport, same),
    FAULT(dividedShuffle, kByReport, same),
    FAULT(wrongMask, kByReport, same),
    FAULT(laneEnds, kByReport, same),
    FAULT(deadlock, kByReport, same),
    FAULT(shuffleFromOutside, kByResult, same),
    FAULT(trap, kByReport, same),
};
#undef FAULT

}  // namespace

std::span<const FaultKernel> faultKernels() {
  return kFaults;
}

}  // namespace cuda_on_cpu

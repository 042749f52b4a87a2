#include "kernels/cuda/rope.h"

#include "kernels/api/hadamard.h"
#include "kernels/cuda/device.cuh"

namespace vitrine::kernels::cuda {
namespace {

constexpr int kAngleThreads = 128;
constexpr int kWarps = 4;  // heads a block

// angles[r, i] = (cos, sin) of 2π · positions[r] · turns[i]; (1, 0) where the position is −1
// positions [rows]; turns [pairs] FP64; angles [rows, pairs]
// blocks of 128 threads, one an angle. The whole turns are taken off in double, so that what is
// left has the accuracy of FP32 at every position, and the sine needs no reduction of large
// arguments (which would use local memory)
// moves 8 bytes an angle; a few FP64 operations each
// source: Su et al. 2021 (RoFormer); reference: kernels::reference::rope; abs 1e-6
__global__ void __launch_bounds__(kAngleThreads)
    ropeAnglesKernel(const std::int32_t* positions, const double* turns, int rows, int pairs,
                     float2* angles) {
  const int i = blockIdx.x * kAngleThreads + threadIdx.x;
  if (i >= rows * pairs) return;
  const int position = positions[i / pairs];
  const double turn = static_cast<double>(max(position, 0)) * turns[i % pairs];
  const auto halfTurns = static_cast<float>(2.0 * (turn - rint(turn)));  // −1 … 1
  float sine, cosine;
  sincospif(halfTurns, &sine, &cosine);
  angles[i] = {cosine, sine};
}

/// Where the two values of a lane's pair `slot` lie in a head: first and second.
struct Pair {
  int first, second;
};
__device__ __forceinline__ Pair pairOf(int slot, int pairs, bool halves) {
  if (halves && slot < pairs) return {slot, slot + pairs};
  return {2 * slot, 2 * slot + 1};  // interleaved, and what is not rotated
}

/// kernels/api/hadamard.h of a head: a lane has the elements lane, lane + 32, …, zeros behind the
/// last.
template <int kElements>
__device__ __forceinline__ void hadamard(float (&x)[kElements], int headDim) {
  const int block = hadamardBlock(headDim);
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    if (distance >= block) break;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const float other = __shfl_xor_sync(kAllLanes, x[i], distance);
      x[i] = (lane & distance) != 0 ? other - x[i] : x[i] + other;
    }
  }
#pragma unroll
  for (int step = 1; step < kElements; step *= 2) {
    if (step * kWarp >= block) break;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if ((i & step) != 0) continue;
      const float sum = x[i] + x[i + step];
      x[i + step] = x[i] - x[i + step];
      x[i] = sum;
    }
  }
  const float factor = hadamardFactor(block);
#pragma unroll
  for (int i = 0; i < kElements; ++i) x[i] *= factor;
}

// One head of q, k or v of one row: + bias; q, k: · norm weight / rms, the rotation, and for an
// INT8 cache the Hadamard transform; q goes back where it was, k and v go to slot
// position % blockSize of the row's block, in the form of the cache
// qkv [rows, qkvDim] FP32; bias [qkvDim]; qNorm, kNorm [headDim]; angles [rows, pairs]
// a warp a head, 4 heads a block, blocks (row, head / 4). A lane holds kSlots pairs, so that the
// rotation needs no other lane; then, by way of shared memory, elements lane, lane + 32, …
// rows at position −1 are left alone
// moves rows · (8 · qDim + 4 · 2 · kvDim + 2 · kvDim · element) bytes: at one row a matter of
// latency
// source: Su et al. 2021; Henry et al. 2020 (QK norm); kernels/api/hadamard.h, kv_cache.h
// reference: kernels::reference::rope, rmsNorm, hadamard, kvAppend; abs 1e-6 + rel 1e-5, rounding
// and quantizing exact
template <KvElement kElement, int kSlots>
__global__ void __launch_bounds__(kWarps* kWarp) ropeAppendKernel(RopeAppendParams p) {
  const int row = blockIdx.x;
  const int head = blockIdx.y * kWarps + threadIdx.x / kWarp;  // of q, then k, then v
  const int lane = threadIdx.x % kWarp;
  const int nHeads = p.heads.nHeads;
  const int nKvHeads = p.heads.nKvHeads;
  const int headDim = p.heads.headDim;
  const int position = p.step.positions[row];
  // Whole warps leave; below is no barrier of the block.
  if (head >= nHeads + 2 * nKvHeads || position < 0) return;
  const bool isQuery = head < nHeads;
  const bool isValue = head >= nHeads + nKvHeads;
  const int pairs = isValue ? 0 : p.pairs;
  const bool halves = p.halves;
  constexpr int kElements = 2 * kSlots * kWarp;  // zeros behind the head's

  float* x = p.qkv + static_cast<std::size_t>(row) * p.heads.qkvDim() + head * headDim;
  float2 v[kSlots];
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    const int slot = s * kWarp + lane;
    v[s] = {0.0F, 0.0F};
    if (2 * slot >= headDim) continue;
    const Pair at = pairOf(slot, pairs, halves);
    v[s] = {x[at.first], x[at.second]};
    if (p.bias != nullptr) {
      v[s].x += p.bias[head * headDim + at.first];
      v[s].y += p.bias[head * headDim + at.second];
    }
  }

  const float* norm = isQuery ? p.qNorm : p.kNorm;
  if (!isValue && norm != nullptr) {
    float sum = 0.0F;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) sum += v[s].x * v[s].x + v[s].y * v[s].y;
    const float inverse = rsqrtf(warpSum(sum) / static_cast<float>(headDim) + p.normEps);
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      const int slot = s * kWarp + lane;
      if (2 * slot >= headDim) continue;
      const Pair at = pairOf(slot, pairs, halves);
      v[s].x *= inverse * norm[at.first];
      v[s].y *= inverse * norm[at.second];
    }
  }

#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    const int slot = s * kWarp + lane;
    if (slot >= pairs) continue;
    const float2 turn = p.angles[static_cast<std::size_t>(row) * pairs + slot];
    v[s] = {v[s].x * turn.x - v[s].y * turn.y, v[s].x * turn.y + v[s].y * turn.x};
  }

  __shared__ float shared[kWarps][kElements];
  float* const inOrder = shared[threadIdx.x / kWarp];
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    const Pair at = pairOf(s * kWarp + lane, pairs, halves);
    inOrder[at.first] = v[s].x;
    inOrder[at.second] = v[s].y;
  }
  __syncwarp();
  float y[kElements / kWarp];
#pragma unroll
  for (int i = 0; i < kElements / kWarp; ++i) y[i] = inOrder[i * kWarp + lane];
  const auto eachElement = [&](auto&& body) {
#pragma unroll
    for (int i = 0; i < kElements / kWarp; ++i) {
      if (i * kWarp + lane < headDim) body(i * kWarp + lane, y[i]);
    }
  };

  const int kvHead = head - nHeads - (isValue ? nKvHeads : 0);
  if (!isQuery && !isValue && p.keys != nullptr) {
    float* to = p.keys + (static_cast<std::size_t>(row) * nKvHeads + kvHead) * headDim;
    eachElement([&](int i, float value) { to[i] = value; });
  }
  if (kElement == KvElement::kInt8 && !isValue) hadamard(y, headDim);
  if (isQuery) {
    eachElement([&](int i, float value) { x[i] = value; });
    return;
  }

  const int blockSize = p.kv.blockSize;
  const std::size_t line = static_cast<std::size_t>(p.step.sequences[row]) * p.step.maxBlocks;
  std::byte* block = p.step.blocks[line + position / blockSize];
  const std::size_t token = static_cast<std::size_t>(kvHead) * blockSize + position % blockSize;
  std::byte* run = block + (isValue ? p.kv.vOffset : p.kv.kOffset);
  if constexpr (kElement == KvElement::kFp16) {
    std::uint16_t* to = reinterpret_cast<std::uint16_t*>(run) + token * headDim;
    eachElement([&](int i, float value) { to[i] = toHalfBits(value); });
  } else {
    unsigned largest = 0;
    eachElement([&](int, float value) { largest = max(largest, magnitudeBits(value)); });
    const Int8Scale scale = int8Scale(warpMax(largest));
    std::byte* scales = block + (isValue ? p.kv.vScaleOffset : p.kv.kScaleOffset);
    if (lane == 0) reinterpret_cast<float*>(scales)[token] = scale.scale;
    std::int8_t* to = reinterpret_cast<std::int8_t*>(run) + token * headDim;
    eachElement([&](int i, float value) {
      to[i] = static_cast<std::int8_t>(quantizeInt8(value, scale.inverse));
    });
  }
}

using RopeAppendKernel = void (*)(RopeAppendParams);

template <KvElement kElement>
RopeAppendKernel kernelFor(int headDim) {
  if (headDim <= 64) return ropeAppendKernel<kElement, 1>;
  if (headDim <= 128) return ropeAppendKernel<kElement, 2>;
  return ropeAppendKernel<kElement, 4>;
}

}  // namespace

void ropeAngles(cudaStream_t stream, const std::int32_t* positions, const double* turns, int rows,
                int pairs, float2* angles) {
  if (rows * pairs == 0) return;
  const Launch where = {stream, ceilDiv(rows * pairs, kAngleThreads), kAngleThreads};
  launchKernel("ropeAngles", ropeAnglesKernel, where, positions, turns, rows, pairs, angles);
}

void ropeAppend(cudaStream_t stream, const RopeAppendParams& p) {
  const Heads& heads = p.heads;
  require(heads.headDim >= 2 && heads.headDim % 2 == 0 && heads.headDim <= 256,
          "ropeAppend: an odd head size, or one above 256");
  require(p.pairs >= 0 && 2 * p.pairs <= heads.headDim, "ropeAppend: more pairs than a head has");
  require(p.kv.headDim == heads.headDim && p.kv.nKvHeads == heads.nKvHeads && p.kv.blockSize >= 1,
          "ropeAppend: a cache for other heads");
  if (p.step.rows == 0) return;
  const int all = heads.nHeads + 2 * heads.nKvHeads;
  const Launch where = {stream, dim3(p.step.rows, ceilDiv(all, kWarps)), kWarps * kWarp};
  const auto kernel = p.kv.element == KvElement::kFp16 ? kernelFor<KvElement::kFp16>(heads.headDim)
                                                       : kernelFor<KvElement::kInt8>(heads.headDim);
  launchKernel("ropeAppend", kernel, where, p);
}

}  // namespace vitrine::kernels::cuda

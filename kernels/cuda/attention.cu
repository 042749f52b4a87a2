#include "kernels/cuda/attention_decode.cuh"

namespace vitrine::kernels::cuda {
namespace {

constexpr int kMergeThreads = 128;

// y[r, h] = Σ_s 2^(m_s − m) · sums[r, h, s] / Σ_s 2^(m_s − m) · total_s, m the largest m_s
//
// grid (nHeads, rows), 128 threads: headDim / 4 of them add one split each time, so that several
// splits are added side by side, and meet in shared memory. An empty split has a total of 0.
// Moves splits · headDim · 4 bytes a row and head: latency bound.
__global__ void __launch_bounds__(kMergeThreads)
    mergeSplitsKernel(const Heads heads, const std::int32_t* __restrict__ positions,
                      const int splits, const Partials partials, const Rows y) {
  VITRINE_DYNAMIC_SHARED(float4, shared);  // [lanes a split, headDim / 4]
  const int head = static_cast<int>(blockIdx.x);
  const int row = static_cast<int>(blockIdx.y);
  const int quads = heads.headDim / 4;
  const int side = static_cast<int>(threadIdx.x) / quads;  // which of the splits side by side
  const int quad = static_cast<int>(threadIdx.x) % quads;
  const int sides = kMergeThreads / quads;

  const std::size_t first = (static_cast<std::size_t>(row) * heads.nHeads + head) * splits;
  const float2* const weights = partials.weights + first;
  const bool isPadding = positions[row] < 0;

  // Each warp finds the maximum and the total by itself.
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float highest = -INFINITY;
  for (int s = lane; s < splits; s += kWarp) highest = fmaxf(highest, weights[s].x);
  const float relative = exponentBase(warpMax(highest));
  float total = 0.0F;
  for (int s = lane; s < splits; s += kWarp) {
    total = fmaf(exp2f(weights[s].x - relative), weights[s].y, total);
  }
  total = warpSum(total);

  float4 sum = {0.0F, 0.0F, 0.0F, 0.0F};
  if (side < sides) {
    const float4* const sums = reinterpret_cast<const float4*>(partials.sums) + first * quads;
    for (int s = side; s < splits; s += sides) {
      const float2 weight = weights[s];
      if (weight.y == 0.0F) continue;  // nothing was written for it
      const float factor = exp2f(weight.x - relative);
      const float4 part = sums[static_cast<std::size_t>(s) * quads + quad];
      sum.x = fmaf(factor, part.x, sum.x);
      sum.y = fmaf(factor, part.y, sum.y);
      sum.z = fmaf(factor, part.z, sum.z);
      sum.w = fmaf(factor, part.w, sum.w);
    }
    shared[side * quads + quad] = sum;
  }
  __syncthreads();

  const float* const parts = reinterpret_cast<const float*>(shared);
  for (int i = static_cast<int>(threadIdx.x); i < heads.headDim; i += kMergeThreads) {
    float value = 0.0F;
    for (int s = 0; s < sides; ++s) value += parts[s * heads.headDim + i];
    storeResult(y, row, head * heads.headDim + i, isPadding ? 0.0F : value / total);
  }
  if (head == 0) clearPadding(y, row, heads.qDim());
}

Partials partialsAt(void* memory, const Heads& heads, int rows, int splits) {
  Partials partials;
  partials.sums = static_cast<float*>(memory);
  partials.weights = reinterpret_cast<float2*>(partials.sums + static_cast<std::size_t>(rows) *
                                                                   heads.qDim() * splits);
  return partials;
}

}  // namespace

void checkAttention(const AttentionParams& params) {
  const Heads& heads = params.heads;
  const KvLayer& kv = params.kv;
  require(heads.nKvHeads > 0 && heads.nHeads > 0 && heads.nHeads % heads.nKvHeads == 0,
          "attention: query heads are a multiple of the KV heads");
  require(heads.headDim > 0 && heads.headDim % 8 == 0 && heads.headDim <= kMostHeadDim,
          "attention: the head size is a multiple of 8, at most 256");
  require(kv.headDim == heads.headDim && kv.nKvHeads == heads.nKvHeads,
          "attention: the cache has other heads than the queries");
  require(kv.blockSize > 0 && kv.blockSize % kUnit == 0,
          "attention: the block size is a multiple of 16");
  require(kv.kOffset % 16 == 0 && kv.vOffset % 16 == 0 && kv.kScaleOffset % 4 == 0 &&
              kv.vScaleOffset % 4 == 0,
          "attention: the runs of a block are aligned");
  require(params.q != nullptr && isAligned(params.q, 16) && params.qStride % 4 == 0 &&
              params.qStride >= heads.qDim(),
          "attention: queries are aligned to 16 bytes");
  require(params.step.rows > 0 && params.step.positions != nullptr &&
              params.step.sequences != nullptr && params.step.blocks != nullptr &&
              params.step.maxBlocks > 0,
          "attention: a step has rows and a table of blocks");
  require(params.y.values != nullptr && params.y.type != RowType::kInt8 &&
              params.y.stride >= heads.qDim(),
          "attention: results are rows of FP32, FP16 or BF16 that hold all heads");
}

void decodeAttention(cudaStream_t stream, const AttentionParams& params, int splits,
                     void* partials) {
  checkAttention(params);
  require(splits >= 1, "decode attention: at least one split");
  require(splits == 1 || (partials != nullptr && isAligned(partials, 16)),
          "decode attention: splits need scratch, aligned to 16 bytes");
  const int rows = params.step.rows;
  const Partials parts = splits > 1 ? partialsAt(partials, params.heads, rows, splits) : Partials{};
  if (params.kv.element == KvElement::kFp16) {
    launchDecodeFp16(stream, params, splits, parts);
  } else {
    launchDecodeInt8(stream, params, splits, parts);
  }
  if (splits == 1) return;

  Launch where;
  where.stream = stream;
  where.grid = dim3(static_cast<unsigned>(params.heads.nHeads), static_cast<unsigned>(rows));
  where.block = kMergeThreads;
  const int quads = params.heads.headDim / 4;
  where.sharedBytes = sizeof(float4) * static_cast<std::size_t>(kMergeThreads / quads * quads);
  launchKernel("merging the splits of attention", mergeSplitsKernel, where, params.heads,
               params.step.positions, splits, parts, params.y);
}

std::size_t decodePartialBytes(const Heads& heads, int rows, int splits) {
  if (splits <= 1) return 0;
  return sizeof(float) * static_cast<std::size_t>(rows) * heads.nHeads * splits *
         (static_cast<std::size_t>(heads.headDim) + 2);
}

int decodeSplits(const Heads& heads, int rows, int maxLength, int multiprocessors) {
  // Three blocks of 128 threads find room on a multiprocessor; one wave of them. A share below 64
  // positions would leave warps without work and only cost merging.
  constexpr int kBlocksEach = 3;
  constexpr int kLeastShare = 64;
  const int wanted = kBlocksEach * multiprocessors / (rows * heads.nKvHeads);
  const int useful = ceilDiv(maxLength, kLeastShare);
  return wanted < 1 || useful < 1 ? 1 : wanted < useful ? wanted : useful;
}

}  // namespace vitrine::kernels::cuda

#pragma once

#include "kernels/cuda/attention_device.cuh"

// Decode attention over one share of a row's history (the formula: kernels/api/attention.h).
//
//   grid (splits, nKvHeads, rows), 128 threads: four warps that take chunks of 8 to 32 positions in
//   turn and meet only at the end. (Groups of more than 8 heads are cut: nKvHeads · parts; the
//   second part finds K and V in the L2 cache.)
//
// A warp and a chunk. Scores: 4 lanes a position, each with its part of K, which it multiplies with
// the queries of all heads (FP32, in shared memory); sums over the 4 lanes leave each with a
// quarter of the heads. Weights: exp2 relative to the running maximum, passed on through shared
// memory. Values: 8 or 16 elements of V a lane, added up for all heads in registers. So K and V
// are loaded once, 16 bytes a load, all loads of a chunk in flight before the first is used.
//
// Moves the K and V of the share once: length · nKvHeads · headDim · 2 elements a row. A multiply
// and add for each of their elements and each query head of the group: bandwidth bound up to groups
// of about 8 (FP16) on an H200.
// Source: Dao et al. 2023, "Flash-Decoding for long-context inference"; grouped heads: Ainslie et
// al. 2023. Reference: kernels::reference::attention; FP32 rounding.

namespace vitrine::kernels::cuda {

constexpr int powerOfTwoFrom(int n) {
  int power = 1;
  while (power < n) power *= 2;
  return power;
}
/// At least 1, at most `most`.
constexpr int powerOfTwoUpTo(int n, int most) {
  int power = 1;
  while (2 * power <= n && 2 * power <= most) power *= 2;
  return power;
}

/// How a warp divides a chunk. kHeadDim 0: any multiple of 8 up to 256, known at run time.
template <typename Element, int kHeadDim, int kHeads>
struct DecodeShape {
  static constexpr bool kGeneral = kHeadDim == 0;
  static constexpr bool kInt8 = sizeof(Element) == 1;
  static constexpr int kDim = kGeneral ? kMostHeadDim : kHeadDim;

  // K: kParts loads a position, shared by 4 lanes.
  static constexpr int kKBytes = kGeneral && kInt8 ? 8 : 16;
  static constexpr int kKElements = kKBytes / static_cast<int>(sizeof(Element));
  static constexpr int kKParts = kDim / kKElements;
  static constexpr int kKPerLane = ceilDiv(kKParts, 4);
  static constexpr int kKQuads = kKElements / 4;
  static constexpr int kPaddedParts = 4 * kKPerLane;

  // About 8 loads of K in flight a lane, fewer where the sums of many heads need the registers.
  // Tuned by the registers that ptxas reports.
  static constexpr int kLoads = kHeads == 8 || (kHeads == 4 && kInt8) ? 4 : 8;
  static constexpr int kRounds = powerOfTwoUpTo(kLoads / kKPerLane, 4);
  static constexpr int kKeys = 8 * kRounds;  ///< positions of a chunk
  static constexpr int kUnits = ceilDiv(kKeys, kUnit);

  // V: kVLanes lanes a position.
  static constexpr int kVBytes = kInt8 && (kGeneral || kHeads >= 8) ? 8 : 16;
  static constexpr int kVElements = kVBytes / static_cast<int>(sizeof(Element));
  static constexpr int kVParts = kDim / kVElements;
  static constexpr int kVLanes = powerOfTwoFrom(kVParts);
  static constexpr int kVKeys = kWarp / kVLanes;
  static constexpr int kVLoads = kKeys / kVKeys;
  static constexpr int kVQuads = kVElements / 4;
  static constexpr int kSums = kHeads * kVElements;

  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kWarp;
  /// Blocks of a multiprocessor that registers must be left for. ptxas needs a few more registers
  /// for Blackwell (sm_100, sm_120), and three blocks would make it spill.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
  static constexpr int kMinBlocks = 2;
#else
  static constexpr int kMinBlocks = kHeads <= 4 ? 3 : 2;
#endif
  /// Heads whose softmax a lane keeps.
  static constexpr int kOwn = kHeads >= 4 ? kHeads / 4 : 1;

  // Shared memory, floats: while chunks are taken queries, weights and corrections; then the sums
  // of the warps in the same place. Behind both the maxima and totals of the warps.
  static constexpr int kQueries = kHeads * kPaddedParts * kKElements;
  static constexpr int kWarpFloats = (kKeys + 1) * kHeads;
  static constexpr int kLoopFloats = kQueries + kWarps * kWarpFloats;
  static constexpr int kMergeFloats = kWarps * kHeads * kDim;
  static constexpr int kFront =
      (kLoopFloats > kMergeFloats ? kLoopFloats : kMergeFloats + 3) / 4 * 4;
  static constexpr std::size_t kSharedBytes =
      sizeof(float) * (static_cast<std::size_t>(kFront) + 2 * kWarps * kHeads);

  static_assert(kVLanes <= kWarp && kKeys % kVKeys == 0 && kSums % kVKeys == 0);
  static_assert(kSharedBytes <= 48 * 1024);
};

/// Sums over the 4 lanes of a position: afterwards a lane has, in the first values, those heads
/// that ownHead() says.
template <int kHeads>
__device__ __forceinline__ void sumOverFour(float (&dot)[kHeads], int lane) {
  constexpr int kHalf = kHeads / 2;
  if constexpr (kHeads == 1) {
    dot[0] = warpSum<4>(dot[0]);
  } else {
    const bool upper = (lane & 1) != 0;
#pragma unroll
    for (int h = 0; h < kHalf; ++h) {
      const float keep = upper ? dot[h + kHalf] : dot[h];
      const float send = upper ? dot[h] : dot[h + kHalf];
      dot[h] = keep + __shfl_xor_sync(kAllLanes, send, 1);
    }
    if constexpr (kHeads == 2) {
      dot[0] += __shfl_xor_sync(kAllLanes, dot[0], 2);
    } else {
      constexpr int kQuarter = kHeads / 4;
      const bool second = (lane & 2) != 0;
#pragma unroll
      for (int h = 0; h < kQuarter; ++h) {
        const float keep = second ? dot[h + kQuarter] : dot[h];
        const float send = second ? dot[h] : dot[h + kQuarter];
        dot[h] = keep + __shfl_xor_sync(kAllLanes, send, 2);
      }
    }
  }
}
template <int kHeads>
__device__ __forceinline__ int ownHead(int lane) {
  if constexpr (kHeads == 1) return 0;
  if constexpr (kHeads == 2) return lane & 1;
  return (lane & 1) * (kHeads / 2) + ((lane >> 1) & 1) * (kHeads / 4);
}
/// One of the lanes that hold the same heads.
template <int kHeads>
__device__ __forceinline__ bool isOwner(int lane) {
  return (lane & 3) < (kHeads < 4 ? kHeads : 4);
}

/// Partial results of decode: sums [rows, nHeads, splits, headDim] and, for each, the maximum its
/// weights are relative to and their total.
struct Partials {
  float* sums = nullptr;
  float2* weights = nullptr;  // [rows, nHeads, splits]
};

template <typename Element, int kHeadDim, int kHeads>
__global__ void __launch_bounds__(DecodeShape<Element, kHeadDim, kHeads>::kThreads,
                                  DecodeShape<Element, kHeadDim, kHeads>::kMinBlocks)
    decodeAttentionKernel(const AttentionParams params, const int splits, const Partials partials) {
  using S = DecodeShape<Element, kHeadDim, kHeads>;
  VITRINE_DYNAMIC_SHARED(float, shared);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int split = static_cast<int>(blockIdx.x);
  const int row = static_cast<int>(blockIdx.z);
  const int headDim = S::kGeneral ? params.heads.headDim : kHeadDim;
  // The heads of this block: all of a KV head, or kHeads of them at a time.
  const int wholeGroup = params.heads.group();
  const int parts = ceilDiv(wholeGroup, kHeads);
  const int kvHead = static_cast<int>(blockIdx.y) / parts;
  const int headsBefore = static_cast<int>(blockIdx.y) % parts * kHeads;
  const int group = min(kHeads, wholeGroup - headsBefore);
  const int firstHead = kvHead * wholeGroup + headsBefore;

  // The share: whole chunks from the first position that the row sees, rounded down.
  const int position = params.step.positions[row];
  const int seen = firstSeen(position, params.window);
  const int start = seen / S::kKeys * S::kKeys;
  const int share = ceilDiv(ceilDiv(max(position + 1 - start, 0), splits), S::kKeys) * S::kKeys;
  const int from = start + split * share;
  const int until = min(position + 1, from + share);
  if (from >= until) {  // a padding row, or nothing left for this split: the whole block leaves
    if (splits > 1) {
      if (static_cast<int>(threadIdx.x) < group) {
        const std::size_t head = static_cast<std::size_t>(row) * params.heads.nHeads + firstHead;
        partials.weights[(head + threadIdx.x) * splits + split] = {-INFINITY, 0.0F};
      }
      return;
    }
    for (int i = static_cast<int>(threadIdx.x); i < group * headDim; i += S::kThreads) {
      storeResult(params.y, row, firstHead * headDim + i, 0.0F);
    }
    if (firstHead == 0) clearPadding(params.y, row, params.heads.qDim());
    return;
  }

  // Queries, times the factor of the scores, as [head, quad of a part, part] of four: the 4 lanes
  // of a position read neighbouring 16 bytes. Zeros where there is no head or no such part.
  float* const queries = shared;
  {
    const float factor = scoreFactor(params);
    constexpr int kQuads = S::kPaddedParts * S::kKQuads;
    const float* const q = params.q + static_cast<std::size_t>(row) * params.qStride +
                           static_cast<std::size_t>(firstHead) * headDim;
    for (int i = static_cast<int>(threadIdx.x); i < kHeads * kQuads; i += S::kThreads) {
      const int head = i / kQuads;
      const int quad = i % kQuads;
      float4 value = {0.0F, 0.0F, 0.0F, 0.0F};
      if (head < group && 4 * quad < headDim) {
        value = *reinterpret_cast<const float4*>(q + head * headDim + 4 * quad);
      }
      value = {value.x * factor, value.y * factor, value.z * factor, value.w * factor};
      const int at = (head * S::kKQuads + quad % S::kKQuads) * S::kPaddedParts + quad / S::kKQuads;
      reinterpret_cast<float4*>(queries)[at] = value;
    }
  }
  __syncthreads();

  float* const weights = shared + S::kQueries + warp * S::kWarpFloats;  // [kKeys, kHeads]
  float* const corrections = weights + S::kKeys * kHeads;               // [kHeads]
  const std::byte* const* const table =
      params.step.blocks +
      static_cast<std::size_t>(params.step.sequences[row]) * params.step.maxBlocks;
  const int own = ownHead<kHeads>(lane);
  const bool owner = isOwner<kHeads>(lane);
  const int kKey = lane / 4;  // which of 8 positions, in each round
  const int kPart = lane % 4;
  const int vKey = lane / S::kVLanes;
  const int vPart = lane % S::kVLanes;
  const bool hasV = vPart * S::kVElements < headDim;

  float sums[S::kSums] = {};
  float maximum[S::kOwn], total[S::kOwn];
#pragma unroll
  for (int h = 0; h < S::kOwn; ++h) {
    maximum[h] = -INFINITY;
    total[h] = 0.0F;
  }

  for (int base = from + warp * S::kKeys; base < until; base += S::kWarps * S::kKeys) {
    // Where each 16 positions begin.
    const std::byte* block[S::kUnits];
    int slot[S::kUnits];
#pragma unroll
    for (int u = 0; u < S::kUnits; ++u) {
      const int at = base + u * kUnit;
      const int index = at / params.kv.blockSize;
      block[u] = at < until ? table[index] : nullptr;
      slot[u] = at - index * params.kv.blockSize;
    }

    // All loads of the chunk.
    unsigned k[S::kRounds][S::kKPerLane][S::kKBytes / 4];
    float kScale[S::kRounds], vScale[S::kRounds];
    bool valid[S::kRounds];
#pragma unroll
    for (int r = 0; r < S::kRounds; ++r) {
      const int key = 8 * r + kKey;
      const int u = 8 * r / kUnit;
      const int at = slot[u] + key - u * kUnit;
      valid[r] = base + key >= seen && base + key < until;
      const std::byte* const from8 =
          block[u] + params.kv.kOffset + elementOffset(params.kv, kvHead, at, sizeof(Element));
#pragma unroll
      for (int i = 0; i < S::kKPerLane; ++i) {
        const int part = kPart + 4 * i;
        if (valid[r] && part * S::kKElements < headDim) {
          loadWide<S::kKBytes>(from8 + part * S::kKBytes, k[r][i]);
        } else {
#pragma unroll
          for (int w = 0; w < S::kKBytes / 4; ++w) k[r][i][w] = 0;
        }
      }
      kScale[r] = vScale[r] = 1.0F;
      if (S::kInt8 && valid[r]) {
        kScale[r] = loadScale(block[u], params.kv.kScaleOffset, params.kv, kvHead, at);
        vScale[r] = loadScale(block[u], params.kv.vScaleOffset, params.kv, kvHead, at);
      }
    }
    unsigned v[S::kVLoads][S::kVBytes / 4];
#pragma unroll
    for (int l = 0; l < S::kVLoads; ++l) {
      const int key = l * S::kVKeys + vKey;
      const int u = l * S::kVKeys / kUnit;
      if (hasV && base + key >= seen && base + key < until) {
        loadWide<S::kVBytes>(
            block[u] + params.kv.vOffset +
                elementOffset(params.kv, kvHead, slot[u] + key - u * kUnit, sizeof(Element)) +
                vPart * S::kVBytes,
            v[l]);
      } else {
#pragma unroll
        for (int w = 0; w < S::kVBytes / 4; ++w) v[l][w] = 0;
      }
    }

    // Scores of all heads.
    float dot[S::kRounds][kHeads] = {};
#pragma unroll
    for (int i = 0; i < S::kKPerLane; ++i) {
#pragma unroll
      for (int quad = 0; quad < S::kKQuads; ++quad) {
        float4 kFour[S::kRounds];
#pragma unroll
        for (int r = 0; r < S::kRounds; ++r) kFour[r] = unpackFour<Element>(k[r][i], quad);
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          const float4 q = reinterpret_cast<const float4*>(
              queries)[(h * S::kKQuads + quad) * S::kPaddedParts + kPart + 4 * i];
#pragma unroll
          for (int r = 0; r < S::kRounds; ++r) {
            dot[r][h] = fmaf(q.x, kFour[r].x, dot[r][h]);
            dot[r][h] = fmaf(q.y, kFour[r].y, dot[r][h]);
            dot[r][h] = fmaf(q.z, kFour[r].z, dot[r][h]);
            dot[r][h] = fmaf(q.w, kFour[r].w, dot[r][h]);
          }
        }
      }
    }
    float highest[S::kOwn];
#pragma unroll
    for (int h = 0; h < S::kOwn; ++h) highest[h] = maximum[h];
#pragma unroll
    for (int r = 0; r < S::kRounds; ++r) {
      sumOverFour(dot[r], lane);
#pragma unroll
      for (int h = 0; h < S::kOwn; ++h) {
        const float score = capScore(dot[r][h] * kScale[r], params.softcap);
        dot[r][h] = valid[r] ? score : -INFINITY;
        highest[h] = fmaxf(highest[h], dot[r][h]);
      }
    }

    // Weights relative to the new maximum, which is the same in all lanes that share a head.
    bool risen = false;
#pragma unroll
    for (int h = 0; h < S::kOwn; ++h) {
#pragma unroll
      for (int step = 4; step < kWarp; step *= 2) {
        highest[h] = fmaxf(highest[h], __shfl_xor_sync(kAllLanes, highest[h], step));
      }
      risen |= highest[h] > maximum[h];
      const float relative = exponentBase(highest[h]);
      const float correction = exp2f(maximum[h] - relative);
      maximum[h] = highest[h];
      total[h] *= correction;
      if (owner && lane < 4) corrections[own + h] = correction;
#pragma unroll
      for (int r = 0; r < S::kRounds; ++r) {
        const float weight = exp2f(dot[r][h] - relative);
        total[h] += weight;
        if (owner) weights[(8 * r + kKey) * kHeads + own + h] = weight * vScale[r];
      }
    }
    const bool anyRisen = __any_sync(kAllLanes, risen) != 0;
    __syncwarp();
    if (anyRisen) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float correction = corrections[h];
#pragma unroll
        for (int e = 0; e < S::kVElements; ++e) sums[h * S::kVElements + e] *= correction;
      }
    }

    // Values.
#pragma unroll
    for (int l = 0; l < S::kVLoads; ++l) {
      float weight[kHeads];
#pragma unroll
      for (int h = 0; h < kHeads; ++h) weight[h] = weights[(l * S::kVKeys + vKey) * kHeads + h];
#pragma unroll
      for (int quad = 0; quad < S::kVQuads; ++quad) {
        const float4 vFour = unpackFour<Element>(v[l], quad);
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          float* const sum = sums + h * S::kVElements + 4 * quad;
          sum[0] = fmaf(weight[h], vFour.x, sum[0]);
          sum[1] = fmaf(weight[h], vFour.y, sum[1]);
          sum[2] = fmaf(weight[h], vFour.z, sum[2]);
          sum[3] = fmaf(weight[h], vFour.w, sum[3]);
        }
      }
    }
    __syncwarp();  // the weights are read before the next chunk's are written
  }

  // Sums over the lanes that had other positions: each step halves what a lane keeps.
  int kept = S::kSums;
  int offset = 0;
#pragma unroll
  for (int step = kWarp / 2; step >= S::kVLanes; step /= 2) {
    kept /= 2;
    const bool upper = (lane & step) != 0;
    offset += upper ? kept : 0;
#pragma unroll
    for (int i = 0; i < S::kSums / 2; ++i) {
      if (i >= kept) break;
      const float keep = upper ? sums[i + kept] : sums[i];
      const float send = upper ? sums[i] : sums[i + kept];
      sums[i] = keep + __shfl_xor_sync(kAllLanes, send, step);
    }
  }
  float2* const ofWarps = reinterpret_cast<float2*>(shared + S::kFront);  // [kWarps, kHeads]
#pragma unroll
  for (int h = 0; h < S::kOwn; ++h) {
#pragma unroll
    for (int step = 4; step < kWarp; step *= 2) {
      total[h] += __shfl_xor_sync(kAllLanes, total[h], step);
    }
    if (owner && lane < 4) ofWarps[warp * kHeads + own + h] = {maximum[h], total[h]};
  }
  __syncthreads();  // all warps are through with queries and weights
  if (hasV) {
#pragma unroll
    for (int i = 0; i < S::kSums / S::kVKeys; ++i) {
      const int head = (offset + i) / S::kVElements;
      const int element = vPart * S::kVElements + (offset + i) % S::kVElements;
      shared[(warp * kHeads + head) * headDim + element] = sums[i];
    }
  }
  __syncthreads();

  // The warps' results, relative to the largest of their maxima.
  for (int i = static_cast<int>(threadIdx.x); i < group * headDim; i += S::kThreads) {
    const int head = i / headDim;
    float highest = -INFINITY;
#pragma unroll
    for (int w = 0; w < S::kWarps; ++w) highest = fmaxf(highest, ofWarps[w * kHeads + head].x);
    const float relative = exponentBase(highest);
    float sum = 0.0F, all = 0.0F;
#pragma unroll
    for (int w = 0; w < S::kWarps; ++w) {
      const float2 part = ofWarps[w * kHeads + head];
      const float factor = exp2f(part.x - relative);
      sum = fmaf(factor, shared[w * kHeads * headDim + i], sum);
      all = fmaf(factor, part.y, all);
    }
    if (splits == 1) {
      storeResult(params.y, row, firstHead * headDim + i, sum / all);
      continue;
    }
    const std::size_t at =
        (static_cast<std::size_t>(row) * params.heads.nHeads + firstHead + head) * splits + split;
    partials.sums[at * headDim + i % headDim] = sum;
    if (i % headDim == 0) partials.weights[at] = {highest, all};
  }
  if (splits == 1 && firstHead == 0) clearPadding(params.y, row, params.heads.qDim());
}

template <typename Element, int kHeadDim, int kHeads>
void launchDecode(cudaStream_t stream, const AttentionParams& params, int splits,
                  const Partials& partials) {
  using S = DecodeShape<Element, kHeadDim, kHeads>;
  Launch where;
  where.stream = stream;
  const int blocks = params.heads.nKvHeads * ceilDiv(params.heads.group(), kHeads);
  where.grid = dim3(static_cast<unsigned>(splits), static_cast<unsigned>(blocks),
                    static_cast<unsigned>(params.step.rows));
  where.block = S::kThreads;
  where.sharedBytes = S::kSharedBytes;
  launchKernel("decode attention", decodeAttentionKernel<Element, kHeadDim, kHeads>, where, params,
               splits, partials);
}

template <typename Element, int kHeadDim>
void launchDecodeForGroup(cudaStream_t stream, const AttentionParams& params, int splits,
                          const Partials& partials) {
  const int group = params.heads.group();
  if (group == 1) return launchDecode<Element, kHeadDim, 1>(stream, params, splits, partials);
  if (group == 2) return launchDecode<Element, kHeadDim, 2>(stream, params, splits, partials);
  if (group <= 4) return launchDecode<Element, kHeadDim, 4>(stream, params, splits, partials);
  // More would not fit into registers everywhere (sm_120 spills): blocks share the KV head.
  launchDecode<Element, kHeadDim, 8>(stream, params, splits, partials);
}

template <typename Element>
void launchDecodeForDim(cudaStream_t stream, const AttentionParams& params, int splits,
                        const Partials& partials) {
  switch (params.heads.headDim) {
    case 64:
      return launchDecodeForGroup<Element, 64>(stream, params, splits, partials);
    case 80:
      return launchDecodeForGroup<Element, 80>(stream, params, splits, partials);
    case 96:
      return launchDecodeForGroup<Element, 96>(stream, params, splits, partials);
    case 128:
      return launchDecodeForGroup<Element, 128>(stream, params, splits, partials);
    case 256:
      return launchDecodeForGroup<Element, 256>(stream, params, splits, partials);
    default:
      return launchDecodeForGroup<Element, 0>(stream, params, splits, partials);
  }
}

/// One file each, so that they compile side by side.
void launchDecodeFp16(cudaStream_t stream, const AttentionParams& params, int splits,
                      const Partials& partials);
void launchDecodeInt8(cudaStream_t stream, const AttentionParams& params, int splits,
                      const Partials& partials);

}  // namespace vitrine::kernels::cuda

#pragma once

#include "kernels/cuda/attention_device.cuh"

// Prefill attention: many rows of one sequence (the formula: kernels/api/attention.h).
//
//   grid (tiles of queries, nKvHeads · parts of a large group), 128 threads
//
// A tile of queries is 32 pairs (row, query head of the KV head), row after row, so that a tile of
// K and V serves all heads of its group. Tiles of keys begin at multiples of their size whatever
// the chunk of the prompt, those outside the window or after the last row are skipped, and a masked
// position weighs exactly nothing: a row's result does not depend on how a prompt was cut.
//
// Scores: each thread 4 pairs x 4 (or 2) keys, queries FP32 and keys FP16 in shared memory (INT8
// values are exact in FP16; their scales multiply scores and weights). 16 lanes share 4 pairs: the
// running maximum and total stay in their registers. Values: the same 4 pairs x headDim / 16
// elements, FP32 sums in registers. The next tile of K or V is on its way to registers meanwhile.
//
// Two multiply-adds an element of K, V and pair: 4 · rows · length · qDim operations, half of them
// with the causal limit. Bound by FP32 arithmetic; no tensor cores.
// Source: Dao et al. 2022, "FlashAttention"; Milakov & Gimelshein 2018 (running softmax).
// Reference: kernels::reference::attention; FP32 rounding.

namespace vitrine::kernels::cuda {

template <typename Element, int kHeadDim>
struct PrefillShape {
  static constexpr bool kGeneral = kHeadDim == 0;
  static constexpr bool kInt8 = sizeof(Element) == 1;
  static constexpr int kDim = kGeneral ? kMostHeadDim : kHeadDim;
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = kDim > 128 ? 2 : 3;  ///< for which registers are left
  static constexpr int kPairs = 32;                      ///< (row, head) of a tile of queries
  static constexpr int kKeys = kDim > 128 ? 32 : 64;     ///< of a tile of keys
  static constexpr int kKeysEach = kKeys / 16;           ///< keys a thread
  static constexpr int kQuadsEach = ceilDiv(kDim, 64);   ///< groups of four elements a thread

  // Global loads: kPieces a tile, kPerThread a thread.
  static constexpr int kBytes = kInt8 && kGeneral ? 8 : 16;
  static constexpr int kElements = kBytes / static_cast<int>(sizeof(Element));
  static constexpr int kPieces = kDim / kElements;  ///< of a position
  static constexpr int kPerThread = ceilDiv(kKeys * kPieces, kThreads);

  // Shared memory. The paddings let 16 lanes read 16 positions without bank conflicts.
  static constexpr int kScoreStride = kKeys + 4;                         ///< floats
  static constexpr int queryStride(int headDim) { return headDim + 4; }  ///< floats
  static constexpr int tileStride(int headDim) { return headDim + 4; }   ///< halves
  static constexpr std::size_t sharedBytes(int headDim) {
    return sizeof(float) * (kPairs * (queryStride(headDim) + kScoreStride) + 2 * kKeys) +
           sizeof(std::uint16_t) * kKeys * tileStride(headDim);
  }
};

/// Four elements of a tile of K or V in shared memory.
__device__ __forceinline__ float4 tileFour(const std::uint16_t* at) {
  const uint2 words = *reinterpret_cast<const uint2*>(at);
  const float2 low = unpackHalves(words.x);
  const float2 high = unpackHalves(words.y);
  return {low.x, low.y, high.x, high.y};
}

/// Which rows a launch computes.
struct PrefillRows {
  int firstRow = 0;
  int count = 0;
  int firstPosition = 0;
};

template <typename Element, int kHeadDim>
__global__ void __launch_bounds__(PrefillShape<Element, kHeadDim>::kThreads,
                                  PrefillShape<Element, kHeadDim>::kMinBlocks)
    prefillAttentionKernel(const AttentionParams params, const PrefillRows rows) {
  using S = PrefillShape<Element, kHeadDim>;
  const int headDim = S::kGeneral ? params.heads.headDim : kHeadDim;
  const int quads = headDim / 4;
  VITRINE_DYNAMIC_SHARED(float, shared);
  float* const queries = shared;                                         // [kPairs, queryStride]
  float* const weights = queries + S::kPairs * S::queryStride(headDim);  // [kPairs, kScoreStride]
  float* const scales = weights + S::kPairs * S::kScoreStride;           // [2, kKeys] of K, of V
  std::uint16_t* const tile = reinterpret_cast<std::uint16_t*>(scales + 2 * S::kKeys);

  // The block's rows and heads; tiles with the longest history start first.
  const int wholeGroup = params.heads.group();
  const int group = min(wholeGroup, kMostGroup);
  const int parts = ceilDiv(wholeGroup, group);
  const int kvHead = static_cast<int>(blockIdx.y) / parts;
  const int headsBefore = static_cast<int>(blockIdx.y) % parts * group;
  const int heads = min(group, wholeGroup - headsBefore);
  const int firstHead = kvHead * wholeGroup + headsBefore;
  const int tileRows = S::kPairs / group;
  const int tileIndex = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  const int rowsBefore = tileIndex * tileRows;
  const int nRows = min(tileRows, rows.count - rowsBefore);
  const int pairs = nRows * heads;
  const int firstPosition = rows.firstPosition + rowsBefore;
  const int lastPosition = firstPosition + nRows - 1;
  const int firstRow = rows.firstRow + rowsBefore;

  const std::byte* const* const table =
      params.step.blocks +
      static_cast<std::size_t>(params.step.sequences[firstRow]) * params.step.maxBlocks;

  // Queries, times the factor of the scores; zeros for pairs that are not there.
  const float factor = scoreFactor(params);
  for (int i = static_cast<int>(threadIdx.x); i < S::kPairs * quads; i += S::kThreads) {
    const int pair = i / quads;
    const int quad = i % quads;
    float4 q = {0.0F, 0.0F, 0.0F, 0.0F};
    if (pair < pairs) {
      q = *reinterpret_cast<const float4*>(
          params.q + static_cast<std::size_t>(firstRow + pair / heads) * params.qStride +
          (firstHead + pair % heads) * headDim + 4 * quad);
    }
    *reinterpret_cast<float4*>(queries + pair * S::queryStride(headDim) + 4 * quad) = {
        q.x * factor, q.y * factor, q.z * factor, q.w * factor};
  }

  // A thread's part of a tile of K or V, on its way through registers; and one scale.
  unsigned held[S::kPerThread][S::kBytes / 4];
  const int pieces = S::kGeneral ? headDim / S::kElements : S::kPieces;
  const auto fetch = [&](int firstKey, std::size_t offset) {
#pragma unroll
    for (int i = 0; i < S::kPerThread; ++i) {
      const int n = static_cast<int>(threadIdx.x) + i * S::kThreads;
      const int key = n / pieces;
      const int position = firstKey + key;
      if (key < S::kKeys && position <= lastPosition) {
        const int index = position / params.kv.blockSize;
        const int slot = position - index * params.kv.blockSize;
        loadWide<S::kBytes>(table[index] + offset +
                                elementOffset(params.kv, kvHead, slot, sizeof(Element)) +
                                n % pieces * S::kBytes,
                            held[i]);
      } else {
#pragma unroll
        for (int w = 0; w < S::kBytes / 4; ++w) held[i][w] = 0;
      }
    }
  };
  const auto put = [&]() {
#pragma unroll
    for (int i = 0; i < S::kPerThread; ++i) {
      const int n = static_cast<int>(threadIdx.x) + i * S::kThreads;
      const int key = n / pieces;
      if (key >= S::kKeys) continue;
      std::uint16_t* const to = tile + key * S::tileStride(headDim) + n % pieces * S::kElements;
#pragma unroll
      for (int quad = 0; quad < S::kElements / 4; ++quad) {
        uint2 words;
        if constexpr (S::kInt8) {
          const float4 four = unpackFour<Element>(held[i], quad);
          words = {packHalves(four.x, four.y), packHalves(four.z, four.w)};
        } else {
          words = {held[i][2 * quad], held[i][2 * quad + 1]};
        }
        *reinterpret_cast<uint2*>(to + 4 * quad) = words;
      }
    }
  };
  // INT8: thread t of the first 2 · kKeys brings one scale.
  const auto putScale = [&](int firstKey) {
    if constexpr (S::kInt8) {
      const int key = static_cast<int>(threadIdx.x) % S::kKeys;
      const bool ofValues = static_cast<int>(threadIdx.x) >= S::kKeys;
      if (static_cast<int>(threadIdx.x) >= 2 * S::kKeys) return;
      const int position = firstKey + key;
      float scale = 0.0F;
      if (position <= lastPosition) {
        const int index = position / params.kv.blockSize;
        scale = loadScale(table[index], ofValues ? params.kv.vScaleOffset : params.kv.kScaleOffset,
                          params.kv, kvHead, position - index * params.kv.blockSize);
      }
      scales[threadIdx.x] = scale;
    }
  };

  const int firstPair = static_cast<int>(threadIdx.x) / 16 * 4;
  const int column = static_cast<int>(threadIdx.x) % 16;
  float sums[4][S::kQuadsEach][4] = {};
  float maximum[4], total[4];
  int position[4], seen[4];  // of the four pairs
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    maximum[p] = -INFINITY;
    total[p] = 0.0F;
    position[p] = firstPosition + (firstPair + p) / heads;
    seen[p] = firstSeen(position[p], params.window);
  }

  const int start = firstSeen(firstPosition, params.window) / S::kKeys * S::kKeys;
  fetch(start, params.kv.kOffset);
  for (int firstKey = start; firstKey <= lastPosition; firstKey += S::kKeys) {
    __syncthreads();  // the tile and the scales are free again; at first: nothing yet
    put();
    putScale(firstKey);
    __syncthreads();
    fetch(firstKey, params.kv.vOffset);

    float score[4][S::kKeysEach] = {};
    const float* const q = queries + firstPair * S::queryStride(headDim);
    const std::uint16_t* const k = tile + column * S::tileStride(headDim);
#pragma unroll 2
    for (int quad = 0; quad < quads; ++quad) {
      float4 kFour[S::kKeysEach];
#pragma unroll
      for (int j = 0; j < S::kKeysEach; ++j) {
        kFour[j] = tileFour(k + 16 * j * S::tileStride(headDim) + 4 * quad);
      }
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const float4 qFour =
            *reinterpret_cast<const float4*>(q + p * S::queryStride(headDim) + 4 * quad);
#pragma unroll
        for (int j = 0; j < S::kKeysEach; ++j) {
          score[p][j] = fmaf(qFour.x, kFour[j].x, score[p][j]);
          score[p][j] = fmaf(qFour.y, kFour[j].y, score[p][j]);
          score[p][j] = fmaf(qFour.z, kFour[j].z, score[p][j]);
          score[p][j] = fmaf(qFour.w, kFour[j].w, score[p][j]);
        }
      }
    }

    // Weights; the 16 lanes of a pair agree on its maximum.
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      float highest = maximum[p];
#pragma unroll
      for (int j = 0; j < S::kKeysEach; ++j) {
        const int key = column + 16 * j;
        const float scaled = S::kInt8 ? score[p][j] * scales[key] : score[p][j];
        const bool visible = firstKey + key >= seen[p] && firstKey + key <= position[p];
        score[p][j] = visible ? capScore(scaled, params.softcap) : -INFINITY;
        highest = fmaxf(highest, score[p][j]);
      }
      highest = warpMax<16>(highest);
      const float relative = exponentBase(highest);
      const float correction = exp2f(maximum[p] - relative);
      maximum[p] = highest;
      total[p] *= correction;
#pragma unroll
      for (int j = 0; j < S::kKeysEach; ++j) {
        const int key = column + 16 * j;
        const float weight = exp2f(score[p][j] - relative);
        total[p] += weight;
        weights[(firstPair + p) * S::kScoreStride + key] =
            S::kInt8 ? weight * scales[S::kKeys + key] : weight;
      }
#pragma unroll
      for (int c = 0; c < S::kQuadsEach; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[p][c][e] *= correction;
      }
    }

    __syncthreads();  // the keys are no longer read; the weights are there
    put();
    __syncthreads();
    if (firstKey + S::kKeys <= lastPosition) fetch(firstKey + S::kKeys, params.kv.kOffset);

    const float* const w = weights + firstPair * S::kScoreStride;
#pragma unroll 2
    for (int key = 0; key < S::kKeys; key += 4) {
      float4 weight[4];
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        weight[p] = *reinterpret_cast<const float4*>(w + p * S::kScoreStride + key);
      }
#pragma unroll
      for (int c = 0; c < S::kQuadsEach; ++c) {
        const int quad = column + 16 * c;
        if (quad >= quads) continue;
        const std::uint16_t* const v = tile + key * S::tileStride(headDim) + 4 * quad;
        float4 vFour[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) vFour[j] = tileFour(v + j * S::tileStride(headDim));
#pragma unroll
        for (int p = 0; p < 4; ++p) {
          const float each[4] = {weight[p].x, weight[p].y, weight[p].z, weight[p].w};
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            sums[p][c][0] = fmaf(each[j], vFour[j].x, sums[p][c][0]);
            sums[p][c][1] = fmaf(each[j], vFour[j].y, sums[p][c][1]);
            sums[p][c][2] = fmaf(each[j], vFour[j].z, sums[p][c][2]);
            sums[p][c][3] = fmaf(each[j], vFour[j].w, sums[p][c][3]);
          }
        }
      }
    }
  }

#pragma unroll
  for (int p = 0; p < 4; ++p) total[p] = warpSum<16>(total[p]);
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    const int pair = firstPair + p;
    if (pair >= pairs) continue;
    const int row = firstRow + pair / heads;
    const int head = firstHead + pair % heads;
#pragma unroll
    for (int c = 0; c < S::kQuadsEach; ++c) {
      const int quad = column + 16 * c;
      if (quad >= quads) continue;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        storeResult(params.y, row, head * headDim + 4 * quad + e, sums[p][c][e] / total[p]);
      }
    }
  }
  if (firstHead == 0) {
    for (int r = 0; r < nRows; ++r) clearPadding(params.y, firstRow + r, params.heads.qDim());
  }
}

template <typename Element, int kHeadDim>
void launchPrefill(cudaStream_t stream, const AttentionParams& params, const PrefillRows& rows) {
  using S = PrefillShape<Element, kHeadDim>;
  const int wholeGroup = params.heads.group();
  const int group = wholeGroup < kMostGroup ? wholeGroup : kMostGroup;
  Launch where;
  where.stream = stream;
  where.grid = dim3(static_cast<unsigned>(ceilDiv(rows.count, S::kPairs / group)),
                    static_cast<unsigned>(params.heads.nKvHeads * ceilDiv(wholeGroup, group)));
  where.block = S::kThreads;
  where.sharedBytes = S::sharedBytes(params.heads.headDim);
  launchKernel("prefill attention", prefillAttentionKernel<Element, kHeadDim>, where, params, rows);
}

template <typename Element>
void launchPrefillForDim(cudaStream_t stream, const AttentionParams& params,
                         const PrefillRows& rows) {
  switch (params.heads.headDim) {
    case 64:
      return launchPrefill<Element, 64>(stream, params, rows);
    case 80:
      return launchPrefill<Element, 80>(stream, params, rows);
    case 96:
      return launchPrefill<Element, 96>(stream, params, rows);
    case 128:
      return launchPrefill<Element, 128>(stream, params, rows);
    case 256:
      return launchPrefill<Element, 256>(stream, params, rows);
    default:
      return launchPrefill<Element, 0>(stream, params, rows);
  }
}

}  // namespace vitrine::kernels::cuda

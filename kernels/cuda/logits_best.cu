#include <climits>
#include <cmath>
#include <utility>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/logits.h"

// The best tokens of a row in levels: each block keeps the k best of a tile, the next level reads
// what the blocks kept, until one block has everything. Candidates are totally ordered (larger
// logit, then smaller id), so that the order of the levels' candidates does not matter.

namespace vitrine::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kPerThread = 16;
constexpr int kTile = kThreads * kPerThread;
/// Takes places that no token has: behind every token, also one at −∞.
constexpr int kNoToken = INT_MAX;

/// An integer with the order of the logits: NaN as −∞, −0 as 0.
__device__ __forceinline__ unsigned orderOf(float logit) {
  if (logit != logit) logit = -INFINITY;
  const unsigned bits = logit == 0.0F ? 0U : __float_as_uint(logit);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
__device__ __forceinline__ float logitOf(unsigned order) {
  return __uint_as_float((order & 0x80000000U) != 0 ? order & 0x7FFFFFFFU : ~order);
}

struct Ranked {
  unsigned order;
  int id;
};
__device__ __forceinline__ bool isBefore(const Ranked& a, const Ranked& b) {
  return a.order > b.order || (a.order == b.order && a.id < b.id);
}

/// A row of logits, or of what a level before kept.
struct LogitRow {
  const float* logits;
  bool wide;
  __device__ __forceinline__ void loadFour(int first, int n, Ranked (&to)[4]) const {
    float v[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    if (wide && first + 4 <= n) {
      const float4 four = *reinterpret_cast<const float4*>(logits + first);
      v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (first + j < n) v[j] = logits[first + j];
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) to[j] = {orderOf(v[j]), first + j < n ? first + j : kNoToken};
  }
};
struct CandidateRow {
  const Candidate* candidates;
  __device__ __forceinline__ void loadFour(int first, int n, Ranked (&to)[4]) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      to[j] = {orderOf(-INFINITY), kNoToken};
      if (first + j >= n) continue;
      const Candidate c = candidates[first + j];
      to[j] = {orderOf(c.logit), c.id};
    }
  }
};

template <typename Row>
__device__ __forceinline__ void loadTile(const Row& row, int n, Ranked (&mine)[kPerThread]) {
#pragma unroll
  for (int i = 0; i < kPerThread / 4; ++i) {
    Ranked four[4];
    const int first = blockIdx.x * kTile + 4 * (i * kThreads + static_cast<int>(threadIdx.x));
    row.loadFour(first, n, four);
#pragma unroll
    for (int j = 0; j < 4; ++j) mine[4 * i + j] = four[j];
  }
}

__device__ __forceinline__ Candidate candidateOf(const Ranked& r) {
  return {logitOf(r.order), r.id};
}

/// The best of the block's tile, in thread 0.
__device__ __forceinline__ Ranked bestOfTile(const Ranked (&mine)[kPerThread], Ranked* parts) {
  Ranked best = mine[0];
#pragma unroll
  for (int i = 1; i < kPerThread; ++i) best = isBefore(mine[i], best) ? mine[i] : best;
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Ranked other = {__shfl_xor_sync(kAllLanes, best.order, step),
                          __shfl_xor_sync(kAllLanes, best.id, step)};
    best = isBefore(other, best) ? other : best;
  }
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = best;
  __syncthreads();
  best = parts[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) best = isBefore(parts[w], best) ? parts[w] : best;
  return best;
}

/// Sums over the block, one after another: with two lots of parts in turn, one barrier a sum.
struct Counter {
  int* parts;  // shared [2 · kWarps]
  int turn = 0;
  __device__ __forceinline__ int operator()(int mine) {
    turn ^= kWarps;
    return blockSum<kThreads>(mine, parts + turn);
  }
};

/// Leaves the k best of the block's tile in `kept` (shared, [k], in no order; complete after the
/// next barrier). On entry thread i has set kept[i] to no token, thread 0 `slots` (shared) to 0.
__device__ __forceinline__ void keepBest(const Ranked (&mine)[kPerThread], int k, Counter& count,
                                         Candidate* kept, int* slots) {
  // The largest order that k or more reach, bit by bit from the top.
  unsigned bound = 0;
  bool exact = false;
#pragma unroll 1
  for (unsigned bit = 0x80000000U; bit != 0 && !exact; bit >>= 1) {
    int reached = 0;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) reached += mine[i].order >= (bound | bit) ? 1 : 0;
    const int all = count(reached);
    if (all >= k) bound |= bit;
    exact = all == k;
  }
  // Of those exactly at the bound perhaps only some: the smallest ids.
  int lastId = kNoToken;
  if (!exact) {
    int above = 0;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) above += mine[i].order > bound ? 1 : 0;
    const int wanted = k - count(above);
    // The smallest id such that `wanted` or more at the bound have at most that.
    unsigned below = 0;
#pragma unroll 1
    for (unsigned bit = 0x40000000U; bit != 0; bit >>= 1) {
      int smaller = 0;
#pragma unroll
      for (int i = 0; i < kPerThread; ++i) {
        const bool isSmaller = static_cast<unsigned>(mine[i].id) < (below | bit);
        smaller += mine[i].order == bound && isSmaller ? 1 : 0;
      }
      if (count(smaller) < wanted) below |= bit;
    }
    lastId = static_cast<int>(below);
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    if (mine[i].order < bound || (mine[i].order == bound && mine[i].id > lastId)) continue;
    // Places without a token may be more than are wanted, and `kept` has them already.
    if (mine[i].id != kNoToken) kept[atomicAdd(slots, 1)] = candidateOf(mine[i]);
  }
}

// out[row, tile, :] = the k best of candidates tile · 4096 … of the row, in no order
// in [rows, n]: logits FP32, or candidates; out [rows, gridDim.x, k]
// blocks (tile, row) of 256 threads, 16 candidates each in registers; the k-th best is found by
// halving the range of orders: up to 32 counts over the block, fewer as soon as exactly k are left
// moves 4 (or 8) · n bytes a row: a read of the logits, and latency
// reference: tests compare with a sort; exact
template <typename Row>
__device__ __forceinline__ void keepTile(const Row& row, int n, int k, Candidate* out) {
  __shared__ int parts[2 * kWarps];
  __shared__ Candidate kept[kMostCandidates];
  __shared__ int slots;
  // The barriers of the counts come before the use of these.
  if (threadIdx.x == 0) slots = 0;
  if (threadIdx.x < kMostCandidates) kept[threadIdx.x] = {-INFINITY, kNoToken};
  Ranked mine[kPerThread];
  loadTile(row, n, mine);
  Counter count = {parts};
  keepBest(mine, k, count, kept, &slots);
  __syncthreads();
  Candidate* to = out + (static_cast<std::size_t>(blockIdx.y) * gridDim.x + blockIdx.x) * k;
  if (static_cast<int>(threadIdx.x) < k) to[threadIdx.x] = kept[threadIdx.x];
}
__global__ void __launch_bounds__(kThreads)
    keepLogitsKernel(const float* logits, int n, int k, Candidate* out) {
  const float* row = logits + static_cast<std::size_t>(blockIdx.y) * n;
  keepTile(LogitRow{row, n % 4 == 0}, n, k, out);
}
__global__ void __launch_bounds__(kThreads)
    keepCandidatesKernel(const Candidate* candidates, int n, int k, Candidate* out) {
  keepTile(CandidateRow{candidates + static_cast<std::size_t>(blockIdx.y) * n}, n, k, out);
}

// out[row, :] = the k candidates of in[row, :], best first
// in, out [rows, k], k ≤ 64; a block of 64 threads a row: a candidate's place is the number of
// those before it
__global__ void __launch_bounds__(kMostCandidates)
    sortCandidatesKernel(const Candidate* in, int k, Candidate* out) {
  __shared__ Ranked all[kMostCandidates];
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * k;
  const int i = threadIdx.x;
  if (i < k) all[i] = {orderOf(in[first + i].logit), in[first + i].id};
  __syncthreads();
  if (i >= k) return;
  int place = 0;
  for (int j = 0; j < k; ++j) place += isBefore(all[j], all[i]) ? 1 : 0;
  out[first + place] = candidateOf(all[i]);
}

// out[row, tile] = the best of candidates tile · 4096 … of the row; launched as keepLogitsKernel
// moves 4 (or 8) · n bytes a row
template <typename Row>
__device__ __forceinline__ void bestTile(const Row& row, int n, Candidate* out) {
  __shared__ Ranked parts[kWarps];
  Ranked mine[kPerThread];
  loadTile(row, n, mine);
  const Ranked best = bestOfTile(mine, parts);
  if (threadIdx.x == 0) {
    out[static_cast<std::size_t>(blockIdx.y) * gridDim.x + blockIdx.x] = candidateOf(best);
  }
}
__global__ void __launch_bounds__(kThreads)
    bestLogitKernel(const float* logits, int n, Candidate* out) {
  const float* row = logits + static_cast<std::size_t>(blockIdx.y) * n;
  bestTile(LogitRow{row, n % 4 == 0}, n, out);
}
__global__ void __launch_bounds__(kThreads)
    bestCandidateKernel(const Candidate* candidates, int n, Candidate* out) {
  bestTile(CandidateRow{candidates + static_cast<std::size_t>(blockIdx.y) * n}, n, out);
}

}  // namespace

std::size_t bestTokensScratchBytes(int rows, int vocab, int k) {
  // A level at a time in one half or the other; the second is never larger than the first.
  const auto kept = static_cast<std::size_t>(ceilDiv(vocab, kTile)) * static_cast<std::size_t>(k);
  return 2 * static_cast<std::size_t>(rows) * kept * sizeof(Candidate);
}

void bestTokens(cudaStream_t stream, const float* logits, int rows, int vocab, int k,
                Candidate* out, void* scratch) {
  require(vocab >= 1 && k >= 1 && k <= kMostCandidates && k <= vocab,
          "bestTokens: more candidates than tokens, or than 64");
  // Rows of an odd width are not read in wide loads, so they may begin anywhere.
  require(isAligned(logits, vocab % 4 == 0 ? 16 : 4) && isAligned(scratch, 8),
          "bestTokens: memory not aligned");
  if (rows == 0) return;
  auto* level = static_cast<Candidate*>(scratch);
  auto* next = level + bestTokensScratchBytes(rows, vocab, k) / sizeof(Candidate) / 2;
  int tiles = ceilDiv(vocab, kTile);
  Launch where = {stream, dim3(tiles, rows), kThreads};
  if (k == 1) {
    Candidate* to = tiles == 1 ? out : level;
    launchKernel("bestTokens", bestLogitKernel, where, logits, vocab, to);
  } else {
    launchKernel("bestTokens", keepLogitsKernel, where, logits, vocab, k, level);
  }
  while (tiles > 1) {
    const int n = tiles * k;
    tiles = ceilDiv(n, kTile);
    where.grid = dim3(tiles, rows);
    if (k == 1) {
      Candidate* to = tiles == 1 ? out : next;
      launchKernel("bestTokens", bestCandidateKernel, where, level, n, to);
    } else {
      launchKernel("bestTokens", keepCandidatesKernel, where, level, n, k, next);
    }
    std::swap(level, next);
  }
  if (k == 1) return;
  const Launch sort = {stream, rows, kMostCandidates};
  launchKernel("bestTokens", sortCandidatesKernel, sort, level, k, out);
}

}  // namespace vitrine::kernels::cuda

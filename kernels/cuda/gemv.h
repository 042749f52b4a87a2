#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/linear.h"
#include "kernels/cuda/types.h"

// The family of matrix–vector kernels behind linear() and gatedLinear(): what they are given, and
// how a product is cut into warps. gemv.cuh is the kernel.

namespace vitrine::kernels::cuda {

/// What a kernel of the family reads and writes.
struct GemvArgs {
  const void* weights = nullptr;       // [paddedOut, chunks] of 16 bytes
  const void* weightScales = nullptr;  // FP16 [paddedOut, groups]
  const void* x = nullptr;             // [rows, stride]: one or two 16-byte loads a weight chunk
  const float* xScales = nullptr;      // [rows, groups]
  float outputScale = 1.0F;
  int chunks = 0;  ///< of 16 bytes in a row of weights
  int groups = 0;  ///< scales of a row
  int rows = 0;
  int outputs = 0;     ///< plain: rows of weights; gated: half of them
  int splitShift = 0;  ///< 1 << splitShift warps share an output: 1, 2 or 4
  int segment = 0;     ///< chunks of a row that one of them reads, a multiple of 32
  void* y = nullptr;
  int yStride = 0;
  bool accumulate = false;         ///< plain
  RowType yType = RowType::kFp32;  ///< gated: kFp32, kFp16 or kBf16
  int columns = 0;                 ///< gated: columns of y to write; zeros from `outputs` on
  bool gelu = false;               ///< gated
};

inline constexpr int kGemvWarps = 4;    ///< of a thread block
inline constexpr int kGemvOutputs = 2;  ///< that a warp computes at once

/// How many warps share a pair of outputs, as a power of two. Depends on the shape alone, so that a
/// sum's order does too. Pairs are split until there are 16 warps for each of 132 multiprocessors
/// (an H200; with 8 loads of 512 bytes a warp that is 64 KB in flight on each, where 30 to 40
/// saturate memory), but not below two loads a lane and output.
constexpr int gemvSplitShift(int pairs, int chunks) {
  constexpr int kWantedWarps = 16 * 132;
  int shift = 0;
  while (1 << shift < kGemvWarps && pairs << shift < kWantedWarps && chunks >> shift >= 4 * 32) {
    ++shift;
  }
  return shift;
}

/// Queue a kernel for FP16 or BF16 weights and rows, for INT8 weights with FP16 rows, and for INT8
/// with INT8 rows.
void gemvFloat(cudaStream_t stream, bool bf16, bool gated, const GemvArgs& args);
void gemvW8A16(cudaStream_t stream, int groupSize, bool gated, const GemvArgs& args);
void gemvW8A8(cudaStream_t stream, int groupSize, bool gated, const GemvArgs& args);

}  // namespace vitrine::kernels::cuda

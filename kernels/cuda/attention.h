#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/types.h"

// Causal attention over cached blocks (kernels/api/attention.h). Two ways to the same result: rows
// that each belong to a sequence of their own (decode), and many rows of one sequence (prefill).

namespace vitrine::kernels::cuda {

struct AttentionParams {
  const float* q = nullptr;  ///< rotated queries: row r begins at q + r · qStride
  int qStride = 0;
  Heads heads;
  float scale = 1.0F;
  float softcap = 0.0F;  ///< 0: none
  int window = 0;        ///< 0: none
  StepRows step;
  KvLayer kv;
  Rows y;  ///< [rows, nHeads · headDim], kFp32, kFp16 (saturates) or kBf16
};

/// Decode: the history of a row is cut into `splits` shares, each a thread block, in which one
/// block serves all query heads of a KV head; a second kernel merges them. The number of splits is
/// given, and lengths are read on the device, so that a captured graph serves every length.
/// `partials`: scratch of decodePartialBytes().
void decodeAttention(cudaStream_t stream, const AttentionParams& params, int splits,
                     void* partials);
std::size_t decodePartialBytes(const Heads& heads, int rows, int splits);
/// Splits that fill a device for so many rows at contexts up to `maxLength`.
int decodeSplits(const Heads& heads, int rows, int maxLength, int multiprocessors);

/// Prefill: rows firstRow … firstRow + count − 1 of the step are consecutive positions of one
/// sequence, from `firstPosition` on. Tiles of queries against tiles of keys, running softmax.
void prefillAttention(cudaStream_t stream, const AttentionParams& params, int firstRow, int count,
                      int firstPosition);

}  // namespace vitrine::kernels::cuda

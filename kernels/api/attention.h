#pragma once

#include <cstdint>

#include "kernels/api/kv_cache.h"

// Causal attention of the new tokens of one sequence over its cached K and V (the new tokens' own
// are already appended). For query row r at position p = firstPosition + r, head h, KV head
// g = h / (nHeads / nKvHeads):
//     s_j = scale · q[r, h] · K[g, j]            for j in max(0, p − window + 1) … p
//     s_j = softcap · tanh(s_j / softcap)        where softcap > 0
//     y[r, h] = Σ_j softmax(s)_j · V[g, j]
//
//   q, y       [rows, nHeads, headDim] FP32
//   blockTable covers positions 0 … firstPosition + rows − 1
//
// A row's result does not depend on the other rows, on how a prompt was cut into calls, or on which
// blocks the table names. The query heads of one KV head read its K and V once.
// Source: Vaswani et al. 2017; grouped heads: Ainslie et al. 2023; softcap: Gemma 2 report 2024.
// Tolerance of a fast kernel: FP16 KV abs 2e-3 + rel 2e-3, INT8 KV 2e-2 where q is quantized too.

namespace vitrine::kernels {

struct AttentionParams {
  int rows = 0;
  int firstPosition = 0;
  int nHeads = 0;
  float scale = 1.0F;    ///< usually 1/sqrt(headDim)
  float softcap = 0.0F;  ///< 0: none
  int window = 0;        ///< sliding window, positions; 0: none
  const std::int32_t* blockTable = nullptr;
};

}  // namespace vitrine::kernels

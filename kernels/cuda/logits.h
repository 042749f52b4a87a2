#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace vitrine::kernels::cuda {

/// Soft cap of logits in place (kernels/api/elementwise.h), n values.
void softcap(cudaStream_t stream, float* logits, std::size_t n, float cap);

/// A token and its logit.
struct Candidate {
  float logit;
  std::int32_t id;
};
inline constexpr int kMostCandidates = 64;

/// The k best tokens of each row, best first: out [rows, k]. NaN counts as −∞; equal logits go to
/// the smaller id. 1 ≤ k ≤ min(kMostCandidates, vocab). logits [rows, vocab] FP32; `scratch` of
/// bestTokensScratchBytes().
void bestTokens(cudaStream_t stream, const float* logits, int rows, int vocab, int k,
                Candidate* out, void* scratch);
std::size_t bestTokensScratchBytes(int rows, int vocab, int k);

}  // namespace vitrine::kernels::cuda

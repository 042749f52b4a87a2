#pragma once

#include "kernels/cpu/kernels.h"

// The functions behind the tables, one namespace an instruction set. Each is in its own source
// file: <operation>_<instruction set>.cpp.

#define VITRINE_CPU_KERNELS                                                                       \
  void rmsNorm(const float* x, const float* weight, float* y, int n, float eps);                  \
  void swiglu(const float* gate, const float* up, float* y, int n);                               \
  void geglu(const float* gate, const float* up, float* y, int n);                                \
  void rope(float* x, const float* cosines, const float* sines, int dims, bool halves);           \
  void hadamard(float* x, int headDim);                                                           \
  void prepare(const float* x, int n, const Activations& to, int row);                            \
  void matmulFloat(const MatmulParams& params);                                                   \
  void matmulInteger(const MatmulParams& params);                                                 \
  void kvStore(const KvHead& kv, int position, const float* k, const float* v);                   \
  void attendRange(const AttentionTask& task, int range, float* partials);                        \
  void mergeRanges(const float* partials, std::ptrdiff_t stride, int n, int headDim, float* out); \
  void attend(const AttentionTask& task, float* out, std::ptrdiff_t outStride);

namespace vitrine::kernels::cpu {
namespace avx512 {
VITRINE_CPU_KERNELS
}
namespace avx2 {
VITRINE_CPU_KERNELS
}
namespace portable {
VITRINE_CPU_KERNELS
}
}  // namespace vitrine::kernels::cpu

#undef VITRINE_CPU_KERNELS

// KV store and attention: AVX-512 (VNNI, BF16).
#define VITRINE_CPU_NAMESPACE avx512

#include "kernels/cpu/simd_avx512.h"

#include "kernels/cpu/attention_kernels.h"  // after the vectors

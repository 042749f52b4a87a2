// Norm, gates, rotary embedding and activations: AVX-512 (VNNI, BF16).
#define VITRINE_CPU_NAMESPACE avx512

#include "kernels/cpu/simd_avx512.h"

#include "kernels/cpu/row_kernels.h"  // after the vectors

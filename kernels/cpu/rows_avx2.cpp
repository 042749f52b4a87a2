// Norm, gates, rotary embedding and activations: AVX2.
#define VITRINE_CPU_NAMESPACE avx2

#include "kernels/cpu/simd_avx2.h"

#include "kernels/cpu/row_kernels.h"  // after the vectors

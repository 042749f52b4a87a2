// Products with F32, F16 and BF16 weights: AVX-512 (VNNI, BF16).
#define VITRINE_CPU_NAMESPACE avx512

#include "kernels/cpu/simd_avx512.h"

#include "kernels/cpu/matmul_float_kernels.h"  // after the vectors

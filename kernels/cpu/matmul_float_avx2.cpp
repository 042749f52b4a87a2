// Products with F32, F16 and BF16 weights: AVX2.
#define VITRINE_CPU_NAMESPACE avx2

#include "kernels/cpu/simd_avx2.h"

#include "kernels/cpu/matmul_float_kernels.h"  // after the vectors

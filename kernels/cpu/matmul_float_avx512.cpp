#define VITRINE_CPU_NAMESPACE avx512
#include "kernels/cpu/simd_avx512.h"
//
#include "kernels/cpu/matmul_float_kernels.h"

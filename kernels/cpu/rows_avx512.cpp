#define VITRINE_CPU_NAMESPACE avx512
#include "kernels/cpu/simd_avx512.h"
//
#include "kernels/cpu/row_kernels.h"

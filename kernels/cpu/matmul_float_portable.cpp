// Products with F32, F16 and BF16 weights: plain C++.
#define VITRINE_CPU_NAMESPACE portable

#include "kernels/cpu/simd_portable.h"

#include "kernels/cpu/matmul_float_kernels.h"  // after the vectors

// Norm, gates, rotary embedding and activations: plain C++.
#define VITRINE_CPU_NAMESPACE portable

#include "kernels/cpu/simd_portable.h"

#include "kernels/cpu/row_kernels.h"  // after the vectors

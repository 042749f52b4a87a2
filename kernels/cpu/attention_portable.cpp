// KV store and attention: plain C++.
#define VITRINE_CPU_NAMESPACE portable

#include "kernels/cpu/simd_portable.h"

#include "kernels/cpu/attention_kernels.h"  // after the vectors

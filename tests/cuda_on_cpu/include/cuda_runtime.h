#pragma once

// The CUDA runtime for the host compiler, for tests (tests/cuda_on_cpu/README.md): what Vitrine's
// kernels and CUDA backend use of the language and of the runtime, and no more.

#include "cuda_on_cpu/language.h"
// language.h first: the others use its words
#include "cuda_on_cpu/atomics.h"
#include "cuda_on_cpu/collectives.h"
#include "cuda_on_cpu/intrinsics.h"
#include "cuda_on_cpu/launch.h"
#include "cuda_on_cpu/runtime_api.h"

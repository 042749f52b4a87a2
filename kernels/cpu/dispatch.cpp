#include "kernels/cpu/kernel_functions.h"

namespace vitrine::kernels::cpu {
namespace {

constexpr bool isFloat(WeightFormat format) {
  return format == WeightFormat::kF32 || format == WeightFormat::kF16 ||
         format == WeightFormat::kBf16;
}

#define VITRINE_CPU_TABLE(name, isa, dots, ns)                                      \
  constexpr CpuKernels name = {isa,                                                 \
                               dots,                                                \
                               ns::rmsNorm,                                         \
                               ns::swiglu,                                          \
                               ns::geglu,                                           \
                               ns::rope,                                            \
                               ns::hadamard,                                        \
                               ns::prepare,                                         \
                               [](const MatmulParams& p) {                          \
                                 isFloat(p.weights->format) ? ns::matmulFloat(p)    \
                                                            : ns::matmulInteger(p); \
                               },                                                   \
                               ns::kvStore,                                         \
                               ns::attendRange,                                     \
                               ns::mergeRanges,                                     \
                               ns::attend}

VITRINE_CPU_TABLE(kPortableKernels, Isa::kPortable, false, portable);
#ifdef VITRINE_CPU_X86
VITRINE_CPU_TABLE(kAvx2Kernels, Isa::kAvx2, false, avx2);
VITRINE_CPU_TABLE(kAvx512Kernels, Isa::kAvx512, false, avx512);
// vdpbf16ps has twice the rate of FP32 multiply-add on AMD's Zen 4 and later. On Intel's Sapphire
// and Emerald Rapids it has less than one (89 against 150 GFLOP/s a core), so weights are widened
// there and activations stay FP32. Decided by maker, not by a probe: a probe on a busy machine
// could decide otherwise next time, and bits would change between runs.
VITRINE_CPU_TABLE(kAvx512DotKernels, Isa::kAvx512, true, avx512);
#endif

#undef VITRINE_CPU_TABLE

}  // namespace

const CpuKernels& kernelsFor(Isa isa) {
#ifdef VITRINE_CPU_X86
  if (isa == Isa::kAvx512) {
    return __builtin_cpu_is("intel") ? kAvx512Kernels : kAvx512DotKernels;
  }
  if (isa == Isa::kAvx2) return kAvx2Kernels;
#endif
  (void)isa;
  return kPortableKernels;
}

ActivationFormat activationFormat(const CpuKernels& kernels, const PackedMatrix& weights,
                                  bool int8Activations) {
  switch (weights.format) {
    case WeightFormat::kF32:
    case WeightFormat::kF16:
      return ActivationFormat::kF32;
    case WeightFormat::kBf16:
      return kernels.dotsBf16 ? ActivationFormat::kBf16 : ActivationFormat::kF32;
    case WeightFormat::kInt8:
    case WeightFormat::kQ4_0:
    case WeightFormat::kQ4_1:
      break;
  }
  if (!int8Activations) return ActivationFormat::kInt16;
  return weights.scalePerRow ? ActivationFormat::kInt8Row : ActivationFormat::kInt8;
}

std::size_t activationRowBytes(ActivationFormat format, int groups) {
  const bool integers = format >= ActivationFormat::kInt16;
  return static_cast<std::size_t>(groups) * (integers ? 64 : kGroup * 4);
}

std::size_t kvHeadBytes(int headDim, int blockSize, bool int8) {
  const auto values = static_cast<std::size_t>(headDim) * blockSize * 2;
  return int8 ? values + static_cast<std::size_t>(blockSize) * 8 : values * 2;
}

std::size_t attentionScratchFloats(int headDim) {
  const auto padded = static_cast<std::size_t>(partialFloats(headDim) - 16);
  const auto dim = static_cast<std::size_t>(headDim);
  // q and scores · widened K and V · partials and states
  return kAttentionRows * (dim + kAttentionRange) + kAttentionRange * (dim + padded) +
         2 * kAttentionRows * (padded + 16);
}

}  // namespace vitrine::kernels::cpu

#include "kernels/cuda/gemv.cuh"

// FP16 and BF16 weights, rows of the same type, FP32 sums (gemv.cuh).

namespace vitrine::kernels::cuda {

void gemvFloat(cudaStream_t stream, bool bf16, bool gated, const GemvArgs& args) {
  if (bf16) {
    gated ? launchGemv<FloatProduct<true>, true>(stream, args)
          : launchGemv<FloatProduct<true>, false>(stream, args);
  } else {
    gated ? launchGemv<FloatProduct<false>, true>(stream, args)
          : launchGemv<FloatProduct<false>, false>(stream, args);
  }
}

}  // namespace vitrine::kernels::cuda

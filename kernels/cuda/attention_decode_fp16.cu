#include "kernels/cuda/attention_decode.cuh"

namespace vitrine::kernels::cuda {

void launchDecodeFp16(cudaStream_t stream, const AttentionParams& params, int splits,
                      const Partials& partials) {
  launchDecodeForDim<__half>(stream, params, splits, partials);
}

}  // namespace vitrine::kernels::cuda

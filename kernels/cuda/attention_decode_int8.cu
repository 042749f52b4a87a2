#include "kernels/cuda/attention_decode.cuh"

namespace vitrine::kernels::cuda {

void launchDecodeInt8(cudaStream_t stream, const AttentionParams& params, int splits,
                      const Partials& partials) {
  launchDecodeForDim<std::int8_t>(stream, params, splits, partials);
}

}  // namespace vitrine::kernels::cuda

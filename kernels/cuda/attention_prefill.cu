#include "kernels/cuda/attention_prefill.cuh"

namespace vitrine::kernels::cuda {

void prefillAttention(cudaStream_t stream, const AttentionParams& params, int firstRow, int count,
                      int firstPosition) {
  checkAttention(params);
  require(firstRow >= 0 && count >= 0 && firstRow + count <= params.step.rows && firstPosition >= 0,
          "prefill attention: rows of the step");
  if (count == 0) return;
  const PrefillRows rows{firstRow, count, firstPosition};
  if (params.kv.element == KvElement::kFp16) {
    launchPrefillForDim<__half>(stream, params, rows);
  } else {
    launchPrefillForDim<std::int8_t>(stream, params, rows);
  }
}

}  // namespace vitrine::kernels::cuda

#include "kernels/cuda/gemv.cuh"

// INT8 weights, FP16 rows, FP32 sums (gemv.cuh).

namespace vitrine::kernels::cuda {
namespace {

template <int kGroupChunks>
void launch(cudaStream_t stream, bool gated, const GemvArgs& args) {
  gated ? launchGemv<W8A16Product<kGroupChunks>, true>(stream, args)
        : launchGemv<W8A16Product<kGroupChunks>, false>(stream, args);
}

}  // namespace

void gemvW8A16(cudaStream_t stream, int groupSize, bool gated, const GemvArgs& args) {
  if (groupSize == 32) {
    launch<2>(stream, gated, args);
  } else if (groupSize == 64) {
    launch<4>(stream, gated, args);
  } else {
    launch<0>(stream, gated, args);
  }
}

}  // namespace vitrine::kernels::cuda

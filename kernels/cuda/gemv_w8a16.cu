#include "kernels/cuda/gemv.cuh"

// INT8 weights, FP16 rows, FP32 sums (gemv.cuh).

namespace vitrine::kernels::cuda {

void gemvW8A16(cudaStream_t stream, int groupSize, bool gated, const GemvArgs& args) {
  launchInGroups<W8A16Product>(stream, groupSize, gated, args);
}

}  // namespace vitrine::kernels::cuda

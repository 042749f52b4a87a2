#include "kernels/cuda/gemv.cuh"

// INT8 weights and rows, integer sums of a chunk or of the whole row (gemv.cuh).

namespace vitrine::kernels::cuda {

void gemvW8A8(cudaStream_t stream, int groupSize, bool gated, const GemvArgs& args) {
  launchInGroups<W8A8Product>(stream, groupSize, gated, args);
}

}  // namespace vitrine::kernels::cuda

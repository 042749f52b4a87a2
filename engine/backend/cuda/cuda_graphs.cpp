#include "engine/backend/cuda/cuda_graphs.h"

namespace vitrine::engine::cuda {

int CudaGraphs::bucket(int sequences) {
  int rows = 1;
  while (rows < sequences) rows *= 2;
  return rows;
}

}  // namespace vitrine::engine::cuda

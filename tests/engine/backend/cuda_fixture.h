#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/backend/cpu_backend.h"
#include "engine/backend/cuda/cuda_backend.h"
#include "engine/backend/kv_regroup.h"
#include "engine/backend/reference_backend.h"
#include "engine/measure/distribution.h"
#include "tests/cuda_on_cpu/harness.h"
#include "tests/engine/backend/backend_fixture.h"

// The CUDA backend on the stand-in for CUDA (tests/cuda_on_cpu).

namespace vitrine::test {

/// A backend for a model whose config is not the file's: for what no architecture of the table has
/// yet (soft caps, windows, GELU). Its class's own door; makeBackend() is the public one.
std::unique_ptr<engine::Backend> makeWith(engine::BackendKind kind,
                                          const std::shared_ptr<const engine::Model>& model,
                                          const engine::ModelConfig& config,
                                          const engine::WeightPrecision& precision);

/// The class behind a backend of kind kCuda.
inline engine::cuda::CudaBackend& cudaOf(engine::Backend& backend) {
  return dynamic_cast<engine::cuda::CudaBackend&>(backend);
}

/// KL of rows of logits against others, nats.
struct Divergence {
  double mean = 0.0;
  double largest = 0.0;
};
Divergence divergence(const std::vector<float>& wanted, const std::vector<float>& got,
                      int vocabSize);

}  // namespace vitrine::test

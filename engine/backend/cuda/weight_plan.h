#pragma once

#include <string>
#include <vector>

#include "engine/backend/cuda/cuda_weights.h"

namespace vitrine::engine::cuda {

/// What goes where: every matrix and vector of the device with the tensors that it is made of, and
/// its place in the run of memory. Made from shapes and types alone.
class WeightPlan final {
 public:
  struct Part {
    const TensorView* from = nullptr;
    const char* name = "";
    bool kv = false;  ///< K or V, whose heads may be regrouped
  };
  struct MatrixEntry {
    kernels::cuda::Matrix* to = nullptr;
    std::vector<Part> parts;  ///< one below the other
    int layer = -1;           ///< −1: the output
    std::size_t values = 0;   ///< offsets into the run
    std::size_t scales = 0;
  };
  struct VectorPart {
    const TensorView* from = nullptr;  ///< may be missing where others are there: zeros
    int count = 0;
    bool kv = false;
  };
  struct VectorEntry {
    const float** to = nullptr;
    std::vector<VectorPart> parts;  ///< one after the other
    std::size_t offset = 0;
    std::size_t count = 0;
  };

  /// `weights` gets its layers, shapes and formats; addresses are still null.
  WeightPlan(CudaWeights& weights, const Weights& from, int ownKvHeads, const ModelConfig& config,
             const WeightPrecision& precision);

  std::vector<MatrixEntry> matrices;
  std::vector<VectorEntry> vectors;
  std::size_t embedding = 0;       ///< offset
  bool embeddingIsOutput = false;  ///< the output matrix has the table's very bytes
  std::size_t turns = 0;           ///< offset
  std::size_t bytes = 0;           ///< of the run

 private:
  std::size_t place(std::size_t count);
  void addMatrix(kernels::cuda::Matrix& to, int layer, std::vector<Part> parts);
  void addVector(const float*& to, std::vector<VectorPart> parts);

  int m_ownKvHeads;
  const ModelConfig& m_config;
  const WeightPrecision& m_precision;
};

}  // namespace vitrine::engine::cuda

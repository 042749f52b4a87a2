#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/api/tensor_type.h"

namespace vitrine::engine {

/// A matrix [rows, cols] or vector [1, cols] that lies in the mapped model file. Row-major, each
/// row a whole number of the type's blocks. A view: the Model owns the mapping.
struct TensorView {
  kernels::TensorType type = kernels::TensorType::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::byte* data = nullptr;

  explicit operator bool() const { return data != nullptr; }
  std::size_t rowBytes() const {
    const auto info = kernels::tensorTypeInfo(type);
    return static_cast<std::size_t>(cols / info.blockValues) * info.blockBytes;
  }
  std::size_t bytes() const { return rowBytes() * static_cast<std::size_t>(rows); }
};

/// y = W x for each matrix: W [outputs, inputs].
struct LayerWeights {
  TensorView attentionNorm;  // [1, dModel]
  TensorView wq;             // [nHeads * headDim, dModel]
  TensorView wk;             // [nKvHeads * headDim, dModel]
  TensorView wv;             // [nKvHeads * headDim, dModel]
  TensorView wo;             // [dModel, nHeads * headDim]
  TensorView bq, bk, bv;     // [1, outputs]; empty where the architecture has none
  TensorView qNorm, kNorm;   // [1, headDim]; empty where the architecture has none
  TensorView ffnNorm;        // [1, dModel]
  TensorView wGate;          // [dFfn, dModel]
  TensorView wUp;            // [dFfn, dModel]
  TensorView wDown;          // [dModel, dFfn]
};

struct Weights {
  TensorView tokenEmbedding;  // [vocabSize, dModel]
  TensorView outputNorm;      // [1, dModel]
  TensorView output;          // [vocabSize, dModel]; equals tokenEmbedding when tied
  bool tiedOutput = false;
  std::vector<LayerWeights> layers;
};

}  // namespace vitrine::engine

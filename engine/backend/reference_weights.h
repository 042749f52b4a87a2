#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "engine/backend/backend.h"

namespace vitrine::engine {

/// A matrix or vector of the model in FP32, after the rounding that the weight mode asks for.
struct ReferenceMatrix {
  std::vector<float> values;  // [rows, cols]; empty where the architecture has none
  int rows = 0;
  int cols = 0;

  const float* data() const { return values.empty() ? nullptr : values.data(); }
  std::uint64_t bytes() const { return values.size() * sizeof(float); }
};

struct ReferenceLayer {
  ReferenceMatrix attentionNorm, wq, wk, wv, wo, bq, bk, bv, qNorm, kNorm;
  ReferenceMatrix ffnNorm, wGate, wUp, wDown;
};

/// All weights of a model in FP32. Matrices are rounded to FP16, BF16 or INT8 groups and widened
/// again, so that plain FP32 products give what that mode gives; norms and biases stay as they are.
struct ReferenceWeights {
  ReferenceMatrix outputNorm;
  ReferenceMatrix output;  // [vocabSize, dModel]
  std::vector<ReferenceLayer> layers;

  /// For a model run with `kvHeads` KV heads, which are possible (kv_regroup.h).
  /// Errors: kOutOfMemory, kCancelled; kUnsupported where FP16 cannot hold a weight.
  static Result<std::unique_ptr<const ReferenceWeights>> make(const Model& model,
                                                              const WeightPrecision& precision,
                                                              int kvHeads, const Progress& progress,
                                                              std::stop_token stop);
  std::uint64_t bytes() const;
};

}  // namespace vitrine::engine

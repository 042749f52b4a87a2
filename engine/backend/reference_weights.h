#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/quant/quant_plan.h"

namespace vitrine::engine {

/// A matrix or vector of the model in FP32, after the rounding that the weight mode asks for.
struct ReferenceMatrix {
  std::vector<float> values;  // [rows, cols]; empty where the architecture has none
  int rows = 0;
  int cols = 0;
  bool int8 = false;            ///< takes INT8 activations, where there are such
  std::vector<float> outliers;  // [rows, outliers of its site]: columns that stay FP16

  const float* data() const { return values.empty() ? nullptr : values.data(); }
  std::uint64_t bytes() const { return (values.size() + outliers.size()) * sizeof(float); }
};

struct ReferenceLayer {
  ReferenceMatrix attentionNorm, wq, wk, wv, wo, bq, bk, bv, qNorm, kNorm;
  ReferenceMatrix ffnNorm, wGate, wUp, wDown;
};

/// All weights of a model in FP32, scaled as the plan says. Matrices are rounded to FP16, BF16 or
/// INT8 (by kernels/api/int8_weights.h, as every backend) and widened again, which is exact, so
/// that plain FP32 products give what that mode gives; norms and biases are not rounded.
struct ReferenceWeights {
  QuantPlan plan;
  ReferenceMatrix outputNorm;
  ReferenceMatrix output;  // [vocabSize, dModel]
  std::vector<ReferenceLayer> layers;

  /// For a model run with the KV heads of `config`, which are possible (kv_regroup.h).
  /// Errors: kOutOfMemory, kCancelled; kUnsupported where FP16 cannot hold a weight; those of
  /// QuantPlan::make().
  static Result<std::unique_ptr<const ReferenceWeights>> make(const Model& model,
                                                              const ModelConfig& config,
                                                              const WeightPrecision& precision,
                                                              const Progress& progress,
                                                              std::stop_token stop);
  std::uint64_t bytes() const;
};

}  // namespace vitrine::engine

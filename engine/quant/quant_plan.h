#pragma once

#include <span>
#include <vector>

#include "engine/backend/precision.h"
#include "engine/base/result.h"
#include "engine/model/model.h"

namespace vitrine::engine {

/// How one matrix is made from the file's values: W'[o, i] = rowScale[o] · W[o, i] ·
/// columnScale[i], then held in `mode`. Spans lie in the plan.
struct MatrixPlan {
  WeightMode mode = WeightMode::kNative;  ///< kFp16 for a kept matrix
  std::span<const float> rowScale;        // [out]; empty: ones
  std::span<const float> columnScale;     // [in]; empty: ones
  /// kInt8: columns that are zero in the INT8 matrix and lie beside it in FP16, ascending.
  std::span<const int> outliers;

  bool changesValues() const { return !rowScale.empty() || !columnScale.empty(); }
};

/// Vectors that take part in smoothing.
enum class VectorPart : std::uint8_t {
  kAttentionNorm,
  kFfnNorm,
  kOutputNorm,
  kBq,
  kBk,
  kBv,
  kQNorm,
  kKNorm
};

/// What a precision asks of each matrix, vector and row of a model: derived once, the same for
/// every backend. Immutable.
///
/// Smoothing (Xiao et al. 2022, "SmoothQuant") divides the columns of a product's input by
/// s_j = max|x_j|^α / max|W_·j|^(1−α) and multiplies the columns of its matrices by it. The
/// division is folded into what makes the input: the norm's weight (q, k, v; gate, up; output), the
/// rows of V (o; query heads of a KV head share s), the rows of up (down). The function stays the
/// same. A site whose matrices are all kept is left alone.
///
/// Static scales: 127 scales are the profile's limit of the site (staticLimit). Without the outlier
/// columns, at most the largest magnitude of the others; smoothed, the largest smoothed magnitude,
/// times what the method gave on the raw ones as a share of the median column's (at most 1: what it
/// cut of the outlier columns is no reason to cut the others).
///
/// Per-channel keys: K is divided by keyFactors() and Q multiplied by them, folded into the rows of
/// W_k and W_q (or the key and query norms, where the architecture has them): the scale of a cached
/// key is then per channel and per token. A matrix in a block type of the file does not lie on its
/// grid any more once scaled, so WeightMode::kNative turns into kFp16 (kBf16) there.
class QuantPlan final {
 public:
  /// Everything as in the file or rounded, nothing scaled.
  QuantPlan() = default;
  /// `config`: the model as it runs (its KV heads may be others than the file's).
  /// kInvalidArgument: modes that do not go together, a missing or foreign profile, a kept layer
  /// that is not there.
  static Result<QuantPlan> make(const Model& model, const ModelConfig& config,
                                const WeightPrecision& precision);

  /// Layer −1 and kOutput: the output matrix.
  MatrixPlan matrix(int layer, MatrixPart part) const;
  /// Factors of a norm's weight or a bias; empty: ones.
  std::span<const float> vectorScale(int layer, VectorPart part) const;
  /// The scale of INT8 activations at a site; 0: each row or group has its own.
  float staticScale(int site) const;
  /// Columns of a site that go past INT8, ascending.
  std::span<const int> outliers(int site) const;

 private:
  struct SitePlan {
    std::vector<float> columnScale;  // of the matrices that read the site
    std::vector<float> inverse;      // 1 / columnScale, of what makes the input
    std::vector<int> outliers;
    float staticScale = 0.0F;
  };
  struct LayerPlan {
    std::vector<float> valueRows;           // of W_v and its bias
    std::vector<float> upRows;              // of W_up
    std::vector<float> queryRows, keyRows;  // of W_q, W_k and their biases
    std::vector<float> queryNorm, keyNorm;  // [headDim]
    WeightMode queryMode = WeightMode::kFp16, keyMode = WeightMode::kFp16;  // kNative, once scaled
  };
  class Maker;
  WeightPrecision m_precision;
  int m_nLayers = 0;
  std::vector<SitePlan> m_sites;    // empty: nothing is scaled
  std::vector<LayerPlan> m_layers;  // empty likewise
};

/// Modes that go together, without a model: what QuantPlan::make() checks first.
Result<void> checkPrecision(const WeightPrecision& precision);

}  // namespace vitrine::engine

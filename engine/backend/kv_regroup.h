#pragma once

#include <cstddef>
#include <vector>

#include "engine/backend/precision.h"
#include "engine/base/result.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"

// A model run with another number of KV heads than its own. It is done to the weights: the rows of
// wk and wv (and bk, bv) of each head, before RoPE. Query heads keep their order, so query head q
// reads KV head q / (nHeads / nKvHeads) as ever. After Ainslie et al. 2023 (GQA), section 2.1.

namespace vitrine::engine {

/// How the KV heads in force come from the model's own.
enum class KvGrouping {
  kOwn,       ///< as in the file
  kRepeated,  ///< each head as often as needed: the same answers from a larger cache
  kPooled,    ///< neighbouring heads averaged: a smaller cache, other answers (lossy)
};
KvGrouping kvGrouping(int ownKvHeads, int kvHeads);

/// The numbers of KV heads that a model can be run with, ascending: multiples and divisors of its
/// own that divide the query heads.
std::vector<int> possibleKvHeads(int nHeads, int ownKvHeads);

/// The config in force. `kvHeads` 0: the model's own. An impossible number is refused with the
/// possible ones.
Result<ModelConfig> regroupedConfig(const ModelConfig& model, int kvHeads);

/// Shape and type of a K or V matrix [ownKvHeads · headDim, cols] (or bias [1, ownKvHeads ·
/// headDim]) once regrouped; no data. Averages are FP32, and so are biases.
TensorView regroupedShape(const TensorView& from, int ownKvHeads, int kvHeads);

/// How a regrouped K or V matrix is held. An average of block-quantized rows does not lie on the
/// blocks' grid, so WeightMode::kNative holds it in FP16 (plain types stay what they are).
WeightMode regroupedMode(kernels::TensorType type, WeightMode mode, KvGrouping grouping);

/// A K or V matrix or bias for another number of heads.
class RegroupedTensor final {
 public:
  /// Repeating copies the file's bits; averaging widens to FP32. An empty view stays empty, and
  /// equal numbers copy nothing. Requires: kvHeads is possible. Throws std::bad_alloc.
  static RegroupedTensor make(const TensorView& from, int ownKvHeads, int kvHeads);
  RegroupedTensor(RegroupedTensor&&) = default;
  RegroupedTensor& operator=(RegroupedTensor&&) = default;

  /// Of this object's own values, or of the file's where nothing had to be made.
  const TensorView& view() const { return m_view; }

 private:
  RegroupedTensor() = default;

  TensorView m_view;
  std::vector<std::byte> m_bytes;
};

}  // namespace vitrine::engine

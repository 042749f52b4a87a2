#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/model/model.h"
#include "kernels/reference/dequantize.h"

namespace vitrine::test {

/// A loaded model into which columns of large activations are built, function unchanged: elements
/// of a norm's weight times `strength`, the columns of the matrices that read it divided by it
/// (attention and feed-forward), and rows of W_up times it, columns of W_down divided. A power of
/// two, so that nothing is rounded. What real models above some billion parameters have by
/// themselves (Dettmers et al. 2022). tests/golden/make_outlier_model.py writes the same as a file.
class OutlierModel final {
 public:
  /// `columns` of the model's width, evenly apart, in some layers.
  void build(const std::vector<int>& layers, int columns, float strength) {
    auto& weights = const_cast<engine::Weights&>(model->weights());
    const engine::ModelConfig& c = model->config();
    const auto chosen = [columns](int width) {
      std::vector<int> at;
      for (int i = 0; i < columns; ++i) at.push_back((2 * i + 1) * width / (2 * columns));
      return at;
    };
    for (const int index : layers) {
      engine::LayerWeights& layer = weights.layers[static_cast<std::size_t>(index)];
      const std::vector<int> of = chosen(c.dModel), inner = chosen(c.dFfn);
      scaleColumns(layer.attentionNorm, of, strength);
      for (auto* w : {&layer.wq, &layer.wk, &layer.wv}) scaleColumns(*w, of, 1.0F / strength);
      scaleColumns(layer.ffnNorm, of, strength);
      for (auto* w : {&layer.wGate, &layer.wUp}) scaleColumns(*w, of, 1.0F / strength);
      scaleRows(layer.wUp, inner, strength);
      scaleColumns(layer.wDown, inner, 1.0F / strength);
    }
  }

  /// The same in the keys: in all layers the first two elements of each KV head, a rotated pair in
  /// the interleaved style, times `strength`, and of its query heads divided by it.
  void buildKeys(float strength) {
    auto& weights = const_cast<engine::Weights&>(model->weights());
    const engine::ModelConfig& c = model->config();
    const auto firstPairs = [&c](int heads) {
      std::vector<int> at;
      for (int h = 0; h < heads; ++h) {
        at.push_back(h * c.headDim);
        at.push_back(h * c.headDim + 1);
      }
      return at;
    };
    for (engine::LayerWeights& layer : weights.layers) {
      scaleRows(layer.wk, firstPairs(c.nKvHeads), strength);
      scaleRows(layer.wq, firstPairs(c.nHeads), 1.0F / strength);
    }
  }

  std::shared_ptr<const engine::Model> model;

 private:
  std::vector<float>& widened(engine::TensorView& view) {
    auto values =
        std::make_unique<std::vector<float>>(static_cast<std::size_t>(view.rows * view.cols));
    for (std::int64_t r = 0; r < view.rows; ++r) {
      kernels::reference::dequantize(view.type,
                                     view.data + view.rowBytes() * static_cast<std::size_t>(r),
                                     values->data() + r * view.cols, view.cols);
    }
    view.type = kernels::TensorType::kF32;
    view.data = reinterpret_cast<const std::byte*>(values->data());
    m_values.push_back(std::move(values));
    return *m_values.back();
  }
  void scaleColumns(engine::TensorView& view, const std::vector<int>& columns, float factor) {
    std::vector<float>& values = widened(view);
    for (std::int64_t r = 0; r < view.rows; ++r) {
      for (const int i : columns) values[static_cast<std::size_t>(r * view.cols + i)] *= factor;
    }
  }
  void scaleRows(engine::TensorView& view, const std::vector<int>& rows, float factor) {
    std::vector<float>& values = widened(view);
    for (const int r : rows) {
      for (std::int64_t i = 0; i < view.cols; ++i) {
        values[static_cast<std::size_t>(r * view.cols + i)] *= factor;
      }
    }
  }

  std::vector<std::unique_ptr<std::vector<float>>> m_values;
};

}  // namespace vitrine::test

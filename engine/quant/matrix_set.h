#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/quant/sites.h"

namespace vitrine::engine {

/// Some of a model's matrices: those that stay FP16.
///
/// As text: items with commas between them; an item is layers ("3", "0-5", "*") with or without a
/// part ("3.down", "*.o"), or "output". A layer without a part is all seven of its matrices.
class MatrixSet final {
 public:
  /// kInvalidArgument names the item that cannot be read.
  static Result<MatrixSet> parse(std::string_view text, int nLayers);
  /// Every matrix of a model, the output included.
  static MatrixSet all(int nLayers);

  void add(int layer, MatrixPart part);
  void addLayer(int layer);
  void remove(int layer, MatrixPart part);
  bool contains(int layer, MatrixPart part) const;
  bool containsLayer(int layer) const;  ///< all seven
  bool empty() const { return m_items.empty(); }
  int size() const { return static_cast<int>(m_items.size()); }
  /// Short, and parse() gives the same set back.
  std::string text() const;

  struct Item {
    int layer = 0;  ///< −1: the output
    MatrixPart part = MatrixPart::kQ;
    auto operator<=>(const Item&) const = default;
  };
  const std::vector<Item>& items() const { return m_items; }  // ascending, without doubles

  bool operator==(const MatrixSet&) const = default;

 private:
  std::vector<Item> m_items;
};

}  // namespace vitrine::engine

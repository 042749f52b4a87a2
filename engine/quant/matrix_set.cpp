#include "engine/quant/matrix_set.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <spdlog/fmt/fmt.h>

namespace vitrine::engine {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<MatrixPart> layerPart(std::string_view text) {
  for (int i = 0; i < kLayerParts; ++i) {
    const auto part = static_cast<MatrixPart>(i);
    if (text == nameOf(part)) return part;
  }
  return std::nullopt;
}

/// "first-last", one number, or "*".
std::optional<std::pair<int, int>> layerRange(std::string_view text, int nLayers) {
  if (text == "*") return std::pair{0, nLayers - 1};
  const std::size_t dash = text.find('-');
  const auto first = number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *first > *last) return std::nullopt;
  return std::pair{*first, *last};
}

}  // namespace

Result<MatrixSet> MatrixSet::parse(std::string_view text, int nLayers) {
  MatrixSet set;
  while (!trimmed(text).empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view item = trimmed(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    if (item == nameOf(MatrixPart::kOutput)) {
      set.add(-1, MatrixPart::kOutput);
      continue;
    }
    const std::size_t dot = item.find('.');
    const auto range = layerRange(item.substr(0, dot), nLayers);
    const auto part = dot == std::string_view::npos ? std::optional<MatrixPart>{}
                                                    : layerPart(item.substr(dot + 1));
    if (!range || (dot != std::string_view::npos && !part)) {
      return fail(ErrorCode::kInvalidArgument,
                  "\"{}\" names no matrices; write layers (3, 0-5, *), each with or without one of "
                  ".q .k .v .o .gate .up .down, or output",
                  item);
    }
    if (range->second >= nLayers) {
      return fail(ErrorCode::kInvalidArgument, "there is no layer {}; the model has 0 to {}",
                  range->second, nLayers - 1);
    }
    for (int layer = range->first; layer <= range->second; ++layer) {
      part ? set.add(layer, *part) : set.addLayer(layer);
    }
  }
  return set;
}

MatrixSet MatrixSet::all(int nLayers) {
  MatrixSet set;
  set.add(-1, MatrixPart::kOutput);
  for (int layer = 0; layer < nLayers; ++layer) set.addLayer(layer);
  return set;
}

void MatrixSet::add(int layer, MatrixPart part) {
  const Item item{layer, part};
  const auto at = std::lower_bound(m_items.begin(), m_items.end(), item);
  if (at == m_items.end() || *at != item) m_items.insert(at, item);
}

void MatrixSet::addLayer(int layer) {
  for (int i = 0; i < kLayerParts; ++i) add(layer, static_cast<MatrixPart>(i));
}

void MatrixSet::remove(int layer, MatrixPart part) {
  std::erase(m_items, Item{layer, part});
}

bool MatrixSet::contains(int layer, MatrixPart part) const {
  return std::binary_search(m_items.begin(), m_items.end(), Item{layer, part});
}

bool MatrixSet::containsLayer(int layer) const {
  for (int i = 0; i < kLayerParts; ++i) {
    if (!contains(layer, static_cast<MatrixPart>(i))) return false;
  }
  return true;
}

std::string MatrixSet::text() const {
  std::string text;
  const int layers = m_items.empty() ? 0 : m_items.back().layer + 1;
  // Runs of layers for which something holds: "0-3,7", each followed by `suffix`.
  const auto appendRuns = [&](const auto& holds, const std::string& suffix) {
    for (int first = 0; first < layers; ++first) {
      if (!holds(first)) continue;
      int last = first;
      while (last + 1 < layers && holds(last + 1)) ++last;
      if (!text.empty()) text += ',';
      text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
      text += suffix;
      first = last;
    }
  };
  appendRuns([this](int layer) { return containsLayer(layer); }, "");
  for (int i = 0; i < kLayerParts; ++i) {
    const auto part = static_cast<MatrixPart>(i);
    appendRuns([&](int layer) { return contains(layer, part) && !containsLayer(layer); },
               fmt::format(".{}", nameOf(part)));
  }
  if (contains(-1, MatrixPart::kOutput)) {
    if (!text.empty()) text += ',';
    text += nameOf(MatrixPart::kOutput);
  }
  return text;
}

}  // namespace vitrine::engine

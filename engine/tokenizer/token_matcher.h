#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/types.h"

namespace vitrine::engine {

/// Finds given texts inside a text: at each place the longest. A tree of bytes; matching at a place
/// takes time proportional to the longest text. Immutable once filled.
class TokenMatcher {
 public:
  void add(std::string_view text, TokenId id);
  bool empty() const { return m_nodes.size() == 1; }

  struct Match {
    TokenId id;
    std::size_t bytes;
  };
  /// The longest added text that `text` begins with.
  std::optional<Match> longestPrefix(std::string_view text) const;

 private:
  struct Node {
    TokenId id = -1;
    std::vector<std::pair<char, std::uint32_t>> children;
  };
  std::vector<Node> m_nodes{1};
};

}  // namespace vitrine::engine

#pragma once

#include <numeric>
#include <vector>

#include "engine/base/types.h"

namespace vitrine::engine::test {

/// first, first + 1, …
inline std::vector<TokenId> counted(int count, TokenId first = 1) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline std::vector<TokenId> joined(std::vector<TokenId> head, const std::vector<TokenId>& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

}  // namespace vitrine::engine::test

#include "engine/tokenizer/token_matcher.h"

namespace vitrine::engine {

void TokenMatcher::add(std::string_view text, TokenId id) {
  if (text.empty()) return;
  std::uint32_t at = 0;
  for (const char c : text) {
    std::uint32_t next = 0;
    for (const auto& [label, child] : m_nodes[at].children) {
      if (label == c) next = child;
    }
    if (next == 0) {
      next = static_cast<std::uint32_t>(m_nodes.size());
      m_nodes[at].children.emplace_back(c, next);
      m_nodes.emplace_back();
    }
    at = next;
  }
  if (m_nodes[at].id < 0) m_nodes[at].id = id;
}

std::optional<TokenMatcher::Match> TokenMatcher::longestPrefix(std::string_view text) const {
  std::optional<Match> best;
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::uint32_t next = 0;
    for (const auto& [label, child] : m_nodes[at].children) {
      if (label == text[i]) next = child;
    }
    if (next == 0) break;
    at = next;
    if (m_nodes[at].id >= 0) best = Match{m_nodes[at].id, i + 1};
  }
  return best;
}

}  // namespace vitrine::engine

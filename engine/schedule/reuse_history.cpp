#include "engine/schedule/reuse_history.h"

#include <algorithm>

#include <spdlog/fmt/fmt.h>

namespace vitrine::engine {

void ReuseHistory::record(const std::string& conversation, std::span<const TokenId> cachedTokens) {
  constexpr std::size_t kMostConversations = 256;  // 4 bytes a token each
  Last& last = m_last[conversation];
  last.tokens.assign(cachedTokens.begin(), cachedTokens.end());
  last.lostBy.clear();
  last.age = ++m_clock;
  if (m_last.size() <= kMostConversations) return;
  m_last.erase(std::min_element(m_last.begin(), m_last.end(), [](const auto& a, const auto& b) {
    return a.second.age < b.second.age;
  }));
}

void ReuseHistory::emptied(const std::string& reason) {
  for (auto& [conversation, last] : m_last) {
    if (last.lostBy.empty()) last.lostBy = reason;
  }
}

void ReuseHistory::forget(const std::string& conversation) {
  m_last.erase(conversation);
}

std::string ReuseHistory::explain(const std::string& conversation, std::span<const TokenId> prompt,
                                  int reusedTokens) const {
  const auto found = m_last.find(conversation);
  if (found == m_last.end()) {
    return reusedTokens > 0 ? "new conversation, beginning shared" : "new conversation";
  }
  const Last& last = found->second;
  const auto limit = std::min(last.tokens.size(), prompt.size());
  const auto [end, unused] = std::mismatch(
      prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(limit), last.tokens.begin());
  const auto common = static_cast<int>(end - prompt.begin());
  const int possible = std::min(common, static_cast<int>(prompt.size()) - 1);
  if (reusedTokens < possible) return last.lostBy.empty() ? "evicted" : last.lostBy;
  if (common == static_cast<int>(prompt.size())) return "same prompt again";
  if (common == static_cast<int>(last.tokens.size())) return "continued";
  if (reusedTokens > common) return "another branch";
  return fmt::format("edited at token {}", common);
}

}  // namespace vitrine::engine

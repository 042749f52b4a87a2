#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/types.h"

namespace vitrine::engine {

/// Remembers what each conversation last had in the cache, to say in words why a prompt was not
/// reused whole: "edited at token 57", "evicted", "precision changed". Inference thread only.
class ReuseHistory final {
 public:
  /// A turn of the conversation ended with these tokens in the cache.
  void record(const std::string& conversation, std::span<const TokenId> cachedTokens);
  /// Everything cached is gone, for this reason ("precision changed").
  void emptied(const std::string& reason);
  void forget(const std::string& conversation);

  /// Short phrase for a prompt of which the first `reusedTokens` were found.
  std::string explain(const std::string& conversation, std::span<const TokenId> prompt,
                      int reusedTokens) const;

 private:
  struct Last {
    std::vector<TokenId> tokens;
    std::string lostBy;  // not empty: the cache was emptied since
    std::uint64_t age = 0;
  };

  std::unordered_map<std::string, Last> m_last;
  std::uint64_t m_clock = 0;
};

}  // namespace vitrine::engine

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/types.h"
#include "engine/engine_types.h"

namespace vitrine::engine {

class Tokenizer;

/// What a prompt was made of, as far as it tells why two prompts differ.
struct PromptOutline {
  std::vector<std::size_t> messages;  ///< a hash of each; none for raw text
  int systemMessages = 0;             ///< at the beginning
  int promptTokens = 0;
  int droppedMessages = 0;

  static PromptOutline of(const GenerateRequest& request, int promptTokens, int droppedMessages);
};

/// Remembers what each conversation last had in the cache, to say in words why a prompt was not
/// reused whole: "edited at token 57", "evicted", "precision changed". Inference thread only.
class ReuseHistory final {
 public:
  /// The conversation now has these tokens in the cache: a turn of this outline ended.
  void record(const std::string& conversation, std::span<const TokenId> cachedTokens,
              const PromptOutline& outline = {});
  /// Everything cached is gone: kPrecision or kEvicted, and why ("precision changed").
  void emptied(ReuseCause cause, const std::string& reason);
  void forget(const std::string& conversation);
  bool knows(const std::string& conversation) const { return m_last.contains(conversation); }

  /// For a prompt of which the first `reusedTokens` were found.
  ReuseReport explain(const std::string& conversation, std::span<const TokenId> prompt,
                      const PromptOutline& outline, int reusedTokens,
                      const Tokenizer& tokenizer) const;

 private:
  struct Last {
    std::vector<TokenId> tokens;
    PromptOutline outline;
    ReuseCause lostBy = ReuseCause::kNone;  // the cache was emptied since
    std::string lostReason;
    std::uint64_t age = 0;
  };

  static std::string describeChange(const Last& last, const PromptOutline& now, int position);

  std::unordered_map<std::string, Last> m_last;
  std::uint64_t m_clock = 0;
};

}  // namespace vitrine::engine

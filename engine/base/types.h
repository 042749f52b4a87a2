#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vitrine::engine {

using TokenId = std::int32_t;

/// A token and its logit, before anything was done to it.
struct TokenLogit {
  float logit = 0.0F;
  TokenId id = 0;
};

/// Index of a block in the KV pool.
using BlockId = std::int32_t;

/// Names one command given to the engine; its events carry it back.
using RequestId = std::uint64_t;

/// One message of a conversation as the engine sees it.
///
/// `tokens` are the ids that the model itself generated for this answer (the end-of-turn token
/// left out). They are used in place of tokenizing `content` again, which could give other ids
/// and lose the cached prefix; empty for what a person wrote.
struct ChatMessage {
  std::string role;     ///< "system", "user", "assistant", or what the template knows
  std::string content;  ///< UTF-8
  std::vector<TokenId> tokens;
  bool pinned = false;  ///< ContextPolicy::kKeepPinned never leaves it out
};

/// A rendered prompt, piece by piece, with the origin of each piece. Only pieces written by the
/// template may contain control tokens; content is plain text whatever it spells.
struct PromptPiece {
  std::string text;
  int message = -1;            ///< index of the message whose content this is; -1: the template
  bool wholeContent = false;   ///< text is exactly that message's content
};
using PromptPieces = std::vector<PromptPiece>;

}  // namespace vitrine::engine

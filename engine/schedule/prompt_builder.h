#pragma once

#include <vector>

#include "engine/base/result.h"
#include "engine/base/types.h"
#include "engine/engine_types.h"

namespace vitrine::engine {

class ChatTemplate;
class Tokenizer;

struct BuiltPrompt {
  std::vector<TokenId> tokens;
  std::vector<int> dropped;  ///< messages that the context policy left out, ascending
  bool keepsPins = false;    ///< pinned messages stayed by the policy
  float renderMs = 0, tokenizeMs = 0;
};

/// Whether the context has room for the prompt and one token of the answer.
inline bool fits(const BuiltPrompt& prompt, int contextTokens) {
  return prompt.tokens.size() < static_cast<std::size_t>(contextTokens);
}

/// The error of a prompt that does not.
Error doesNotFit(const BuiltPrompt& prompt, int contextTokens);

/// Renders and tokenizes a request for a context of `contextTokens`. Any thread.
///
/// At least one token of the context is left for the answer. What does not fit is refused with
/// kContextFull and both numbers, or some of its messages are left out by the request's policy (see
/// planContext()).
Result<BuiltPrompt> buildPrompt(const ChatTemplate& chatTemplate, const Tokenizer& tokenizer,
                                const GenerateRequest& request, int contextTokens);

/// The same, and a prompt that does not fit is returned as well.
Result<BuiltPrompt> buildAnyPrompt(const ChatTemplate& chatTemplate, const Tokenizer& tokenizer,
                                   const GenerateRequest& request, int contextTokens);

}  // namespace vitrine::engine

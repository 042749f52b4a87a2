#pragma once

#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/types.h"
#include "engine/engine_types.h"

namespace vitrine::engine {

class ChatTemplate;
class Tokenizer;

struct ContextLimits {
  int contextTokens = 0;
  int maxTokens = 0;    ///< of the answer; 0: no limit of its own
  int extraTokens = 0;  ///< to plan ahead: as if the prompt were longer by these
};

/// Which messages of a chat stay in its prompt.
struct ContextPlan {
  std::vector<int> dropped;     ///< indices into the messages, ascending
  std::vector<TokenId> tokens;  ///< of what stays
  int wholeTokens = 0;          ///< of the prompt with nothing left out
  float renderMs = 0, tokenizeMs = 0;
};

/// Renders and tokenizes a chat, and leaves messages out by the policy where they do not fit with
/// room for an answer (a quarter of the context, or maxTokens where that is less). Any thread.
///
/// - kStop leaves out nothing: the plan may be longer than the context.
/// - kDropOldest: the oldest turns go. System messages at the beginning and the last question stay.
/// - kKeepPinned: the same, but a pinned message stays. Where the template wants questions and
///   answers to take turns, its whole turn stays; elsewhere the rest of its turn goes.
///
/// Messages leave in steps of a quarter of the context, so that the next turns still begin with the
/// same tokens and find them cached. Where even the most that may leave is not enough, the plan is
/// what remains then.
Result<ContextPlan> planContext(const ChatTemplate& chatTemplate, const Tokenizer& tokenizer,
                                std::span<const ChatMessage> messages, ContextPolicy policy,
                                const ContextLimits& limits);

}  // namespace vitrine::engine

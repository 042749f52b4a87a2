#include "engine/schedule/prompt_builder.h"

#include <algorithm>
#include <chrono>

#include "engine/schedule/context_plan.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::engine {
namespace {

using Clock = std::chrono::steady_clock;

float millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<float, std::milli>(Clock::now() - start).count();
}

bool keepsPins(const std::vector<ChatMessage>& messages, ContextPolicy policy) {
  return policy == ContextPolicy::kKeepPinned &&
         std::any_of(messages.begin(), messages.end(),
                     [](const ChatMessage& message) { return message.pinned; });
}

Result<BuiltPrompt> buildChat(const ChatTemplate& chatTemplate, const Tokenizer& tokenizer,
                              const ChatPrompt& prompt, const GenerateRequest& request,
                              int contextTokens) {
  if (prompt.messages.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the conversation has no message to answer");
  }
  ContextLimits limits;
  limits.contextTokens = contextTokens;
  limits.maxTokens = request.maxTokens;
  VITRINE_ASSIGN(auto plan, planContext(chatTemplate, tokenizer, prompt.messages,
                                        request.contextPolicy, limits));
  BuiltPrompt built;
  built.tokens = std::move(plan.tokens);
  built.dropped = std::move(plan.dropped);
  built.keepsPins = keepsPins(prompt.messages, request.contextPolicy);
  built.renderMs = plan.renderMs;
  built.tokenizeMs = plan.tokenizeMs;
  return built;
}

Result<BuiltPrompt> buildRaw(const Tokenizer& tokenizer, const RawPrompt& prompt) {
  BuiltPrompt built;
  const auto start = Clock::now();
  if (tokenizer.addsBos() && tokenizer.bos()) built.tokens.push_back(*tokenizer.bos());
  const auto ids = prompt.parseControlTokens ? tokenizer.encodeWithControlTokens(prompt.text)
                                             : tokenizer.encode(prompt.text);
  built.tokens.insert(built.tokens.end(), ids.begin(), ids.end());
  built.tokenizeMs = millisecondsSince(start);
  return built;
}

Result<BuiltPrompt> checkTokens(const Tokenizer& tokenizer, const TokenPrompt& prompt) {
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= tokenizer.vocabSize()) {
      return fail(ErrorCode::kInvalidArgument,
                  "token {} of the prompt is {}, but the vocabulary has {} entries", i, prompt[i],
                  tokenizer.vocabSize());
    }
  }
  BuiltPrompt built;
  built.tokens = prompt;
  return built;
}

}  // namespace

Error doesNotFit(const BuiltPrompt& prompt, int contextTokens) {
  if (prompt.keepsPins) {
    return fail(ErrorCode::kContextFull,
                "the pinned messages and the last question take {} tokens, but the context holds "
                "{} and one must be left for the answer; unpin a message, shorten the question, or "
                "raise the context",
                prompt.tokens.size(), contextTokens)
        .value();
  }
  return fail(ErrorCode::kContextFull,
              "the prompt has {} tokens, but the context holds {} and one must be left for the "
              "answer; shorten it, or raise the context",
              prompt.tokens.size(), contextTokens)
      .value();
}

Result<BuiltPrompt> buildAnyPrompt(const ChatTemplate& chatTemplate, const Tokenizer& tokenizer,
                                   const GenerateRequest& request, int contextTokens) {
  Result<BuiltPrompt> built;
  if (const auto* chat = std::get_if<ChatPrompt>(&request.prompt)) {
    built = buildChat(chatTemplate, tokenizer, *chat, request, contextTokens);
  } else if (const auto* raw = std::get_if<RawPrompt>(&request.prompt)) {
    built = buildRaw(tokenizer, *raw);
  } else {
    built = checkTokens(tokenizer, std::get<TokenPrompt>(request.prompt));
  }
  if (built && built->tokens.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the prompt is empty; write something to go on from");
  }
  return built;
}

Result<BuiltPrompt> buildPrompt(const ChatTemplate& chatTemplate, const Tokenizer& tokenizer,
                                const GenerateRequest& request, int contextTokens) {
  auto built = buildAnyPrompt(chatTemplate, tokenizer, request, contextTokens);
  if (built && !fits(*built, contextTokens)) {
    return tl::unexpected(doesNotFit(*built, contextTokens));
  }
  return built;
}

}  // namespace vitrine::engine

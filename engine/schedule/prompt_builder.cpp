#include "engine/schedule/prompt_builder.h"

#include <algorithm>
#include <chrono>
#include <span>

#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::engine {
namespace {

using Clock = std::chrono::steady_clock;

float millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<float, std::milli>(Clock::now() - start).count();
}

class ChatBuilder {
 public:
  ChatBuilder(const ChatTemplate& chatTemplate, const Tokenizer& tokenizer,
              const std::vector<ChatMessage>& messages)
      : m_template(chatTemplate), m_tokenizer(tokenizer), m_messages(messages) {
    while (m_nSystem < messages.size() && messages[m_nSystem].role == "system") ++m_nSystem;
    // A turn begins at each question; the first may begin with an answer.
    for (std::size_t i = m_nSystem; i < messages.size(); ++i) {
      if (i == m_nSystem || messages[i].role == "user") m_turnStarts.push_back(i);
    }
  }

  /// Most turns that may leave: all but the last question with what follows it.
  std::size_t mostDropped() const { return m_turnStarts.empty() ? 0 : m_turnStarts.size() - 1; }
  int messagesIn(std::size_t droppedTurns) const {
    return droppedTurns == 0 ? 0 : static_cast<int>(m_turnStarts[droppedTurns] - m_nSystem);
  }

  Result<std::vector<TokenId>> build(std::size_t droppedTurns) {
    std::span<const ChatMessage> messages = m_messages;
    std::vector<ChatMessage> shorter;
    if (droppedTurns > 0) {
      shorter.assign(m_messages.begin(),
                     m_messages.begin() + static_cast<std::ptrdiff_t>(m_nSystem));
      shorter.insert(shorter.end(),
                     m_messages.begin() + static_cast<std::ptrdiff_t>(m_turnStarts[droppedTurns]),
                     m_messages.end());
      messages = shorter;
    }
    auto start = Clock::now();
    auto pieces = m_template.render(messages);
    renderMs += millisecondsSince(start);
    if (!pieces) return tl::unexpected(std::move(pieces).error());
    start = Clock::now();
    auto tokens = m_tokenizer.encode(*pieces, messages);
    tokenizeMs += millisecondsSince(start);
    return tokens;
  }

  float renderMs = 0, tokenizeMs = 0;

 private:
  const ChatTemplate& m_template;
  const Tokenizer& m_tokenizer;
  const std::vector<ChatMessage>& m_messages;
  std::size_t m_nSystem = 0;
  std::vector<std::size_t> m_turnStarts;
};

/// The fewest turns between `low` and `high` to leave out so that at most `limit` tokens remain
/// (`high` where none does).
Result<std::size_t> fewestDropped(ChatBuilder& builder, std::size_t low, std::size_t high,
                                  std::int64_t limit) {
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    VITRINE_ASSIGN(const auto tokens, builder.build(middle));
    if (static_cast<std::int64_t>(tokens.size()) <= limit) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

Result<BuiltPrompt> buildChat(const ChatTemplate& chatTemplate, const Tokenizer& tokenizer,
                              const ChatPrompt& prompt, const GenerateRequest& request,
                              int contextTokens) {
  if (prompt.messages.empty()) {
    return fail(ErrorCode::kInvalidArgument, "the conversation has no message to answer");
  }
  ChatBuilder builder(chatTemplate, tokenizer, prompt.messages);
  BuiltPrompt built;
  VITRINE_ASSIGN(built.tokens, builder.build(0));
  const auto whole = static_cast<std::int64_t>(built.tokens.size());

  if (request.contextPolicy == ContextPolicy::kDropOldest) {
    const int quarter = std::max(1, contextTokens / 4);
    const int room = request.maxTokens > 0 ? std::min(request.maxTokens, quarter) : quarter;
    const std::int64_t limit = contextTokens - room;
    if (whole > limit && builder.mostDropped() > 0) {
      const std::size_t most = builder.mostDropped();
      VITRINE_ASSIGN(std::size_t dropped, fewestDropped(builder, 1, most, limit));
      VITRINE_ASSIGN(built.tokens, builder.build(dropped));
      const std::int64_t left = whole - static_cast<std::int64_t>(built.tokens.size());
      const std::int64_t step = (left + quarter - 1) / quarter * quarter;
      if (dropped < most && step > left) {
        VITRINE_ASSIGN(dropped, fewestDropped(builder, dropped, most, whole - step));
        VITRINE_ASSIGN(built.tokens, builder.build(dropped));
      }
      built.droppedMessages = builder.messagesIn(dropped);
    }
  }
  built.renderMs = builder.renderMs;
  built.tokenizeMs = builder.tokenizeMs;
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
  return BuiltPrompt{.tokens = prompt};
}

}  // namespace

Error doesNotFit(const BuiltPrompt& prompt, int contextTokens) {
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

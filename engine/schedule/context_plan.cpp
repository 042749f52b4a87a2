#include "engine/schedule/context_plan.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::engine {
namespace {

using Clock = std::chrono::steady_clock;

float millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<float, std::milli>(Clock::now() - start).count();
}

/// Builds the prompt with the first so many parts left out. A part is what leaves together.
class ChatBuilder {
 public:
  ChatBuilder(const ChatTemplate& chatTemplate, const Tokenizer& tokenizer,
              std::span<const ChatMessage> messages, ContextPolicy policy)
      : m_template(chatTemplate), m_tokenizer(tokenizer), m_messages(messages) {
    if (policy != ContextPolicy::kStop) findParts(policy == ContextPolicy::kKeepPinned);
  }

  std::size_t partCount() const { return m_parts.size(); }

  std::vector<int> messagesIn(std::size_t parts) const {
    std::vector<int> dropped;
    for (std::size_t i = 0; i < parts; ++i) {
      dropped.insert(dropped.end(), m_parts[i].begin(), m_parts[i].end());
    }
    return dropped;
  }

  Result<std::vector<TokenId>> build(std::size_t droppedParts) {
    std::span<const ChatMessage> messages = m_messages;
    std::vector<ChatMessage> shorter;
    if (droppedParts > 0) {
      const std::vector<int> dropped = messagesIn(droppedParts);
      auto next = dropped.begin();
      for (std::size_t i = 0; i < m_messages.size(); ++i) {
        if (next != dropped.end() && *next == static_cast<int>(i)) {
          ++next;
        } else {
          shorter.push_back(m_messages[i]);
        }
      }
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
  void findParts(bool pinsStay) {
    std::size_t first = 0;
    while (first < m_messages.size() && m_messages[first].role == "system") ++first;
    // A turn begins at each question; the first may begin with an answer. The last one stays.
    std::vector<std::size_t> starts;
    for (std::size_t i = first; i < m_messages.size(); ++i) {
      if (i == first || m_messages[i].role == "user") starts.push_back(i);
    }
    const auto isPinned = [](const ChatMessage& message) { return message.pinned; };
    const bool anyPinned = pinsStay && std::any_of(m_messages.begin(), m_messages.end(), isPinned);
    const bool turnsStayWhole = anyPinned && !m_template.acceptsAnyOrder();
    for (std::size_t turn = 0; turn + 1 < starts.size(); ++turn) {
      std::vector<int> part;
      bool hasPinned = false;
      for (std::size_t i = starts[turn]; i < starts[turn + 1]; ++i) {
        if (pinsStay && m_messages[i].pinned) {
          hasPinned = true;
        } else {
          part.push_back(static_cast<int>(i));
        }
      }
      if (part.empty() || (hasPinned && turnsStayWhole)) continue;
      m_parts.push_back(std::move(part));
    }
  }

  const ChatTemplate& m_template;
  const Tokenizer& m_tokenizer;
  std::span<const ChatMessage> m_messages;
  std::vector<std::vector<int>> m_parts;  // messages of each, the oldest first
};

/// The fewest parts between `low` and `high` to leave out so that at most `limit` tokens remain
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

}  // namespace

Result<ContextPlan> planContext(const ChatTemplate& chatTemplate, const Tokenizer& tokenizer,
                                std::span<const ChatMessage> messages, ContextPolicy policy,
                                const ContextLimits& limits) {
  ChatBuilder builder(chatTemplate, tokenizer, messages, policy);
  ContextPlan plan;
  VITRINE_ASSIGN(plan.tokens, builder.build(0));
  plan.wholeTokens = static_cast<int>(plan.tokens.size());

  const int quarter = std::max(1, limits.contextTokens / 4);
  const int room = limits.maxTokens > 0 ? std::min(limits.maxTokens, quarter) : quarter;
  // Without the tokens that are only thought of.
  const std::int64_t whole = plan.wholeTokens;
  const std::int64_t limit = std::int64_t{limits.contextTokens} - room - limits.extraTokens;
  if (const std::size_t most = builder.partCount(); whole > limit && most > 0) {
    VITRINE_ASSIGN(std::size_t dropped, fewestDropped(builder, 1, most, limit));
    VITRINE_ASSIGN(plan.tokens, builder.build(dropped));
    const std::int64_t left = whole - static_cast<std::int64_t>(plan.tokens.size());
    const std::int64_t step = (left + quarter - 1) / quarter * quarter;
    if (dropped < most && step > left) {
      VITRINE_ASSIGN(dropped, fewestDropped(builder, dropped, most, whole - step));
      VITRINE_ASSIGN(plan.tokens, builder.build(dropped));
    }
    plan.dropped = builder.messagesIn(dropped);
  }
  plan.renderMs = builder.renderMs;
  plan.tokenizeMs = builder.tokenizeMs;
  return plan;
}

}  // namespace vitrine::engine

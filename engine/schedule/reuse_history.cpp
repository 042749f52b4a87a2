#include "engine/schedule/reuse_history.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include <spdlog/fmt/fmt.h>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8_stream.h"

namespace vitrine::engine {
namespace {

/// Up to 24 tokens from `position` on, as text.
std::string textFrom(std::span<const TokenId> tokens, int position, const Tokenizer& tokenizer) {
  constexpr std::size_t kShown = 24;
  const auto first = std::min(static_cast<std::size_t>(position), tokens.size());
  const auto shown = tokens.subspan(first, std::min(kShown, tokens.size() - first));
  Utf8Stream characters;
  std::string text;
  for (const TokenId id : shown) text += characters.append(tokenizer.bytes(id));
  return text + characters.finish();
}

}  // namespace

PromptOutline PromptOutline::of(const GenerateRequest& request, int promptTokens,
                                int droppedMessages) {
  PromptOutline outline;
  outline.promptTokens = promptTokens;
  outline.droppedMessages = droppedMessages;
  const auto* chat = std::get_if<ChatPrompt>(&request.prompt);
  if (chat == nullptr) return outline;
  bool isBeginning = true;
  for (const ChatMessage& message : chat->messages) {
    isBeginning = isBeginning && message.role == "system";
    if (isBeginning) ++outline.systemMessages;
    outline.messages.push_back(std::hash<std::string>{}(message.role + '\n' + message.content));
  }
  return outline;
}

void ReuseHistory::record(const std::string& conversation, std::span<const TokenId> cachedTokens,
                          const PromptOutline& outline) {
  constexpr std::size_t kMostConversations = 256;  // 4 bytes a token each
  Last& last = m_last[conversation];
  last.tokens.assign(cachedTokens.begin(), cachedTokens.end());
  last.outline = outline;
  last.lostBy = ReuseCause::kNone;
  last.age = ++m_clock;
  if (m_last.size() <= kMostConversations) return;
  m_last.erase(std::min_element(m_last.begin(), m_last.end(), [](const auto& a, const auto& b) {
    return a.second.age < b.second.age;
  }));
}

void ReuseHistory::emptied(ReuseCause cause, const std::string& reason) {
  for (auto& [conversation, last] : m_last) {
    if (last.lostBy == ReuseCause::kPrecision) continue;
    if (last.lostBy != ReuseCause::kNone && cause != ReuseCause::kPrecision) continue;
    last.lostBy = cause;
    last.lostReason = reason;
  }
}

void ReuseHistory::forget(const std::string& conversation) {
  m_last.erase(conversation);
}

ReuseReport ReuseHistory::explain(const std::string& conversation, std::span<const TokenId> prompt,
                                  const PromptOutline& outline, int reusedTokens,
                                  const Tokenizer& tokenizer) const {
  ReuseReport report;
  report.reusedTokens = report.firstNewPosition = reusedTokens;
  const auto because = [&](ReuseCause cause, std::string reason) {
    report.cause = cause;
    report.reason = std::move(reason);
    return report;
  };
  const auto found = m_last.find(conversation);
  if (found == m_last.end()) {
    return because(ReuseCause::kNew,
                   reusedTokens > 0 ? "new conversation, beginning shared" : "new conversation");
  }
  const Last& last = found->second;
  const auto limit = std::min(last.tokens.size(), prompt.size());
  const auto [end, unused] = std::mismatch(
      prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(limit), last.tokens.begin());
  const auto common = static_cast<int>(end - prompt.begin());
  const int possible = std::min(common, static_cast<int>(prompt.size()) - 1);
  // Another model has other tokens, so what they have in common says nothing.
  if (last.lostBy == ReuseCause::kPrecision) return because(last.lostBy, last.lostReason);
  if (reusedTokens < possible) {
    const bool emptied = last.lostBy != ReuseCause::kNone;
    return because(ReuseCause::kEvicted, emptied ? last.lostReason : "evicted");
  }
  if (common == static_cast<int>(prompt.size())) {
    return because(ReuseCause::kNone, "same prompt again");
  }
  if (common == static_cast<int>(last.tokens.size())) {
    return because(ReuseCause::kNone, "continued");
  }
  if (reusedTokens > common) return because(ReuseCause::kNone, "another branch");
  report.cachedText = textFrom(last.tokens, common, tokenizer);
  report.promptText = textFrom(prompt, common, tokenizer);
  return because(ReuseCause::kChanged, describeChange(last, outline, common));
}

/// `position`: of the first token that differs.
std::string ReuseHistory::describeChange(const Last& last, const PromptOutline& now, int position) {
  const PromptOutline& then = last.outline;
  if (now.messages.empty() || then.messages.empty()) {
    return fmt::format("edited at token {}", position);
  }
  const auto system = [](const PromptOutline& outline) {
    return std::span(outline.messages).first(static_cast<std::size_t>(outline.systemMessages));
  };
  if (!std::ranges::equal(system(then), system(now))) {
    return fmt::format("system prompt changed at token {}", position);
  }
  if (then.droppedMessages != now.droppedMessages) {
    return fmt::format("oldest messages left out at token {}", position);
  }
  const auto shared = std::min(then.messages.size(), now.messages.size());
  if (!std::equal(then.messages.begin(),
                  then.messages.begin() + static_cast<std::ptrdiff_t>(shared),
                  now.messages.begin())) {
    return fmt::format("edited at token {}", position);
  }
  // Every message is as it was. The answer may have been rewritten; else it is how the template
  // renders them (a date, a thought that is left out later).
  if (position >= then.promptTokens) return fmt::format("answer changed at token {}", position);
  return fmt::format("template renders otherwise at token {}", position);
}

}  // namespace vitrine::engine

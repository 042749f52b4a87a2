#include "app/studio/studio_tokens.h"

#include <algorithm>
#include <optional>

#include "app/studio/studio_session.h"
#include "app/text.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8_stream.h"

namespace vitrine::app::studio {

using namespace engine;

namespace {

/// Bytes of a rendered prompt that a token stands for.
std::size_t lengthOf(const Tokenizer& tokenizer, TokenId id) {
  return tokenizer.isControl(id) ? tokenizer.piece(id).size() : tokenizer.bytes(id).size();
}

/// Bytes [begin, end) of the rendered prompt that answers take.
struct ByteRange {
  std::size_t begin = 0, end = 0;
};

std::vector<ByteRange> answerBytes(const Tokenizer& tokenizer, const PromptPieces& pieces,
                                   std::span<const ChatMessage> messages) {
  std::vector<ByteRange> ranges;
  std::size_t at = 0;
  for (const PromptPiece& piece : pieces) {
    const ChatMessage* message =
        piece.message >= 0 ? &messages[static_cast<std::size_t>(piece.message)] : nullptr;
    std::size_t length = piece.text.size();
    if (message != nullptr && piece.wholeContent && !message->tokens.empty()) {
      length = 0;
      for (const TokenId id : message->tokens) length += lengthOf(tokenizer, id);
    }
    if (message != nullptr && message->role == "assistant" && length > 0) {
      ranges.push_back({at, at + length});
    }
    at += length;
  }
  return ranges;
}

}  // namespace

Result<ConversationTokens> conversationTokens(const Model& model,
                                              std::span<const ChatMessage> messages) {
  const Tokenizer& tokenizer = model.tokenizer();
  VITRINE_ASSIGN(const PromptPieces pieces, model.chatTemplate().render(messages, false));
  ConversationTokens conversation;
  conversation.tokens = tokenizer.encode(pieces, messages);
  const auto bytes = answerBytes(tokenizer, pieces, messages);
  const auto& ends = model.endTokens();

  // A token that lies on the edge of an answer belongs to where it begins.
  std::size_t at = 0;
  auto range = bytes.begin();
  const auto count = static_cast<int>(conversation.tokens.size());
  for (int i = 0; i < count && range != bytes.end(); ++i) {
    const TokenId id = conversation.tokens[static_cast<std::size_t>(i)];
    if (at >= range->begin && at < range->end) {
      auto& answers = conversation.answers;
      if (!answers.empty() && answers.back().end == i) {
        answers.back().end = i + 1;
      } else {
        answers.push_back({i, i + 1});
      }
    }
    at += lengthOf(tokenizer, id);
    while (range != bytes.end() && at >= range->end) ++range;
  }
  for (TokenRange& answer : conversation.answers) {
    if (answer.end < count &&
        std::binary_search(ends.begin(), ends.end(),
                           conversation.tokens[static_cast<std::size_t>(answer.end)])) {
      ++answer.end;
    }
  }
  return conversation;
}

Result<std::vector<TokenId>> tokensOf(const Model& model, const StudioText& text, int mostTokens) {
  std::vector<TokenId> tokens;
  if (text.messages.empty()) {
    tokens = model.tokenizer().encode(text.text);
  } else {
    VITRINE_ASSIGN(ConversationTokens conversation, conversationTokens(model, text.messages));
    tokens = std::move(conversation.tokens);
  }
  if (tokens.size() > static_cast<std::size_t>(mostTokens)) {
    tokens.resize(static_cast<std::size_t>(mostTokens));
  }
  return tokens;
}

std::vector<QString> tokenPieces(const Model& model, std::span<const TokenId> tokens) {
  const Tokenizer& tokenizer = model.tokenizer();
  std::vector<QString> pieces;
  Utf8Stream characters;
  for (const TokenId id : tokens) {
    if (!tokenizer.isControl(id)) {
      pieces.push_back(toQString(characters.append(tokenizer.bytes(id))));
      continue;
    }
    if (!pieces.empty()) pieces.back() += toQString(characters.finish());
    pieces.push_back(toQString(tokenizer.piece(id)));
  }
  if (!pieces.empty()) pieces.back() += toQString(characters.finish());
  return pieces;
}

}  // namespace vitrine::app::studio

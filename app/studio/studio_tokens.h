#pragma once

#include <QString>
#include <span>
#include <vector>

#include "engine/measure/replay.h"
#include "engine/model/model.h"

namespace vitrine::app::studio {

struct StudioText;

/// A conversation as the model reads it.
struct ConversationTokens {
  std::vector<engine::TokenId> tokens;
  /// Those of each answer, ascending; the token that ends it is one of them.
  std::vector<engine::TokenRange> answers;
};

/// Renders a conversation by the model's template. Answers keep the ids that the model generated
/// (ChatMessage::tokens). Fails where the template refuses.
engine::Result<ConversationTokens> conversationTokens(
    const engine::Model& model, std::span<const engine::ChatMessage> messages);

/// The tokens of a text or conversation, at most so many.
engine::Result<std::vector<engine::TokenId>> tokensOf(const engine::Model& model,
                                                      const StudioText& text, int mostTokens);

/// The text of each token, to be shown one after the other; a character whose bytes lie on several
/// tokens is on the last of them. Control tokens are spelled out.
std::vector<QString> tokenPieces(const engine::Model& model,
                                 std::span<const engine::TokenId> tokens);

}  // namespace vitrine::app::studio

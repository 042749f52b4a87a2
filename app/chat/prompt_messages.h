#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "app/store/conversation_types.h"
#include "engine/base/types.h"

namespace vitrine::engine {
class Tokenizer;
}

namespace vitrine::app {

/// What the model is given of a path of messages, and where each part came from.
struct PromptMessages {
  std::vector<engine::ChatMessage> messages;
  /// For each of them the indices into the path that it was made of; empty: the system prompt.
  std::vector<std::vector<int>> origins;
};

/// Turns a path into what the model is given. Answers without text (stopped before the first
/// character, failed) are left out, and user messages that meet then become one, a blank line
/// between: nothing that was typed is lost and turns keep alternating, as strict templates demand.
/// Answers carry the ids that the model generated, so that history is never tokenized again.
///
/// The system prompt goes first, or before the first user message, or nowhere. An answer that is
/// still to come (the last of the path, if it is an answer) is left out.
/// Ids are given along only for the answers that `idsUsable` accepts.
PromptMessages promptMessages(const Conversation& conversation, const std::vector<Message>& path,
                              const std::function<bool(const Message&)>& idsUsable);

/// Whether a message's ids stand for its text in this model: the same model generated them (another
/// vocabulary gives them other meanings), each is an ordinary token, and their bytes begin with the
/// text (what may follow is the beginning of a character that was never finished). What was
/// imported from a file is not believed.
bool idsMatchText(const Message& message, const engine::Tokenizer& tokenizer,
                  std::string_view modelFingerprint);

/// A title for a conversation out of its first question: its first words, without marks of markup.
QString titleFromText(const QString& text);

}  // namespace vitrine::app

#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/types.h"

namespace vitrine::engine {

/// A model's chat template: Jinja, compiled once, rendered many times. Immutable; any thread.
/// Same text as Jinja2 with the settings of transformers (trim_blocks, lstrip_blocks, loop
/// controls).
class ChatTemplate {
 public:
  /// Errors carry line and column. `bosText`/`eosText` are what the template sees as
  /// bos_token / eos_token.
  static Result<std::unique_ptr<ChatTemplate>> compile(std::string source, std::string bosText,
                                                       std::string eosText);
  /// ChatML, used where a file has no template, an empty or a broken one; `reason` is shown.
  static std::unique_ptr<ChatTemplate> substitute(std::string reason);
  ~ChatTemplate();

  /// The prompt in pieces with their origin. A template that raises an exception gives
  /// ErrorCode::kTemplate with the template's own sentence.
  Result<PromptPieces> render(std::span<const ChatMessage> messages,
                              bool addGenerationPrompt = true) const;

  /// Texts that end an answer, found by rendering: what this template writes right after an
  /// assistant's content ("<|im_end|>"). May be empty.
  std::vector<std::string> turnEndTexts() const;

  const std::string& source() const;
  /// Not empty when this is a substitute: why.
  const std::string& substituteReason() const;
  /// Whether a system message is accepted; found by trial.
  bool acceptsSystemMessage() const;
  /// Whether questions and answers may come in any order, or must take turns; found by trial.
  bool acceptsAnyOrder() const;

 private:
  ChatTemplate();
  struct Impl;
  std::unique_ptr<Impl> m_impl;
};

/// The text of all pieces joined.
std::string joinPieces(const PromptPieces& pieces);

}  // namespace vitrine::engine

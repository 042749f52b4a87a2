#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/types.h"

namespace vitrine::engine {

class GgufFile;

/// Byte-level BPE as GPT-2 introduced it (Radford et al. 2019), with the pre-tokenizer that the
/// file names. Immutable; any thread may use it. Time is close to linear in the text, stack bounded.
class Tokenizer {
 public:
  /// Reads `tokenizer.ggml.*`. `warnings` receives sentences for the user (unknown pre-tokenizer).
  static Result<std::unique_ptr<Tokenizer>> fromGguf(const GgufFile& file,
                                                     std::vector<std::string>& warnings);
  virtual ~Tokenizer() = default;

  /// For the loader, before the tokenizer is shared: `id` is a control token although the file says
  /// otherwise (a template's turn end that a conversion marked as ordinary).
  virtual void markControl(TokenId id) = 0;

  /// Plain text: whatever it spells, no control token comes out.
  virtual std::vector<TokenId> encode(std::string_view text) const = 0;
  /// Text written by a template: control tokens are recognized, the longest first.
  virtual std::vector<TokenId> encodeWithControlTokens(std::string_view text) const = 0;
  /// A rendered prompt. Control tokens come only from template pieces; text between two control
  /// tokens is split into tokens as a whole, across pieces. Where a piece is a message's whole
  /// content and `messages[piece.message].tokens` is not empty, those ids are taken instead.
  virtual std::vector<TokenId> encode(const PromptPieces& pieces,
                                      std::span<const ChatMessage> messages) const = 0;

  /// The exact bytes that a token stands for (may end inside a character). Control tokens give "".
  virtual std::string_view bytes(TokenId id) const = 0;
  /// The token as the vocabulary spells it, control tokens too; for display.
  virtual std::string_view piece(TokenId id) const = 0;
  virtual bool isControl(TokenId id) const = 0;
  virtual std::optional<TokenId> find(std::string_view piece) const = 0;
  virtual int vocabSize() const = 0;

  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  virtual std::optional<TokenId> eot() const = 0;
  /// Whether raw text (not a template's) is to start with bos.
  virtual bool addsBos() const = 0;

  /// Bytes of all tokens joined.
  std::string decode(std::span<const TokenId> ids) const;
};

}  // namespace vitrine::engine

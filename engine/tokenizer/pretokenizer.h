#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace vitrine::engine {

/// How one family of models cuts text into words before byte pairs are merged. A row of a table:
/// a new family is a new row.
struct PreTokenizerRule {
  std::string_view family;
  /// Names that files give it in `tokenizer.ggml.pre`.
  std::vector<std::string_view> names;
  /// Applied one after the other, each to the pieces that the one before left. Matches and what
  /// lies between them are pieces. `\s` is written out (see kSpace in the source).
  std::vector<std::string> expressions;
  /// A piece that is a token as a whole is taken without merging.
  bool wholePieceFirst = false;
  /// Raw text starts with bos where the file does not say.
  bool addsBos = false;
};

/// All rules; the first is the default for files that name none or an unknown one.
std::span<const PreTokenizerRule> preTokenizerRules();
/// nullptr: unknown name.
const PreTokenizerRule* findPreTokenizerRule(std::string_view name);

/// The compiled expressions of a rule. Immutable; any thread. Uses bounded stack whatever the text.
class PreTokenizer {
 public:
  static Result<std::unique_ptr<PreTokenizer>> compile(const PreTokenizerRule& rule);
  ~PreTokenizer();

  using Piece = std::function<void(std::string_view)>;
  /// Calls `piece` for each piece, in order; joined they are `text`. Runs of bytes that are no
  /// UTF-8 are pieces of their own.
  void split(std::string_view text, const Piece& piece) const;

 private:
  PreTokenizer();
  struct Impl;
  std::unique_ptr<Impl> m_impl;
};

}  // namespace vitrine::engine

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tokenizer/bpe_merges.h"
#include "engine/tokenizer/pretokenizer.h"
#include "engine/tokenizer/token_matcher.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::engine {

/// What a token is, with the numbers of `tokenizer.ggml.token_type`.
enum class TokenKind : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,  ///< spelled as it is, and found in any text before words are cut
  kUnused = 5,
  kByte = 6,
};

/// The Tokenizer of `tokenizer.ggml.model` = "gpt2".
class BpeTokenizer final : public Tokenizer {
 public:
  static Result<std::unique_ptr<BpeTokenizer>> fromGguf(const GgufFile& file,
                                                        std::vector<std::string>& warnings);

  void markControl(TokenId id) override;
  std::vector<TokenId> encode(std::string_view text) const override;
  std::vector<TokenId> encodeWithControlTokens(std::string_view text) const override;
  std::vector<TokenId> encode(const PromptPieces& pieces,
                              std::span<const ChatMessage> messages) const override;
  std::string_view bytes(TokenId id) const override;
  std::string_view piece(TokenId id) const override;
  bool isControl(TokenId id) const override;
  std::optional<TokenId> find(std::string_view piece) const override;
  int vocabSize() const override { return static_cast<int>(m_kinds.size()); }
  std::optional<TokenId> bos() const override { return m_bos; }
  std::optional<TokenId> eos() const override { return m_eos; }
  std::optional<TokenId> eot() const override { return m_eot; }
  bool addsBos() const override { return m_addsBos; }

 private:
  BpeTokenizer() = default;
  Result<void> readVocabulary(const GgufFile& file);
  Result<void> readMerges(const GgufFile& file, std::vector<std::string>& warnings);
  Result<void> readPreTokenizer(const GgufFile& file, std::vector<std::string>& warnings);
  Result<void> readSpecialIds(const GgufFile& file, std::vector<std::string>& warnings);
  Result<void> promoteTemplateMarkers(const GgufFile& file);
  void buildMatchers();

  bool isValid(TokenId id) const { return id >= 0 && id < vocabSize(); }
  /// Text between control tokens: user-defined tokens, then words, then merges.
  void encodeRun(std::string_view text, std::vector<TokenId>& ids) const;
  /// Text that a template wrote: control tokens end the run; the rest is added to it.
  void scanTemplateText(std::string_view text, std::string& run, std::vector<TokenId>& ids) const;

  // Views into m_arena, by id.
  std::string m_arena;
  std::vector<std::string_view> m_pieces;  // as the vocabulary spells them
  std::vector<std::string_view> m_bytes;   // what they stand for
  std::vector<TokenKind> m_kinds;
  std::unordered_map<std::string_view, TokenId> m_ids;  // by piece

  std::unique_ptr<BpeMerges> m_merges;
  std::vector<bool> m_reachable;  // by id: a merge or a single byte gives it (used while loading)
  std::unique_ptr<PreTokenizer> m_preTokenizer;
  TokenMatcher m_addedMatcher;        // control and user-defined tokens
  TokenMatcher m_userDefinedMatcher;  // user-defined tokens alone
  bool m_wholePieceFirst = false;
  std::optional<TokenId> m_bos, m_eos, m_eot;
  bool m_addsBos = false;
};

}  // namespace vitrine::engine

#pragma once

#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace vitrine::engine::test {

/// One token a byte, for the first 61 printable characters from space on; token 0 ends answers.
/// A real tokenizer of a very small language.
class TestTokenizer final : public Tokenizer {
 public:
  TestTokenizer() {
    for (int i = 0; i < 61; ++i) m_pieces.emplace_back(1, static_cast<char>(' ' + i));
  }

  std::vector<TokenId> encode(std::string_view text) const override {
    std::vector<TokenId> ids;
    for (const char letter : text) ids.push_back((static_cast<unsigned char>(letter) - ' ') % 61);
    return ids;
  }
  std::vector<TokenId> encodeWithControlTokens(std::string_view text) const override {
    return encode(text);
  }
  std::vector<TokenId> encode(const PromptPieces& pieces,
                              std::span<const ChatMessage>) const override {
    std::vector<TokenId> ids;
    for (const PromptPiece& piece : pieces) {
      const auto more = encode(piece.text);
      ids.insert(ids.end(), more.begin(), more.end());
    }
    return ids;
  }
  std::string_view bytes(TokenId id) const override {
    return m_pieces[static_cast<std::size_t>(id)];
  }
  std::string_view piece(TokenId id) const override { return bytes(id); }
  bool isControl(TokenId id) const override { return id == 0; }
  void markControl(TokenId) override {}
  std::optional<TokenId> find(std::string_view piece) const override { return encode(piece).at(0); }
  int vocabSize() const override { return 61; }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return 0; }
  std::optional<TokenId> eot() const override { return std::nullopt; }
  bool addsBos() const override { return false; }

 private:
  std::vector<std::string> m_pieces;
};

}  // namespace vitrine::engine::test

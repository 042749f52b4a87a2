#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/api/tensor_type.h"
#include "tests/gguf_writer.h"

namespace vitrine::test {

/// ChatML as SmolLM2 writes it, without a default system prompt. A generation prompt ends in "\n".
extern const char* const kChatMl;

/// A byte-level vocabulary: <|endoftext|> 0, <|im_start|> 1, <|im_end|> 2, the 256 bytes (3 to
/// 258), a few merges; tokens can be added. Spelled as in a file ("Ġ" for a space).
class TinyVocabulary {
 public:
  TinyVocabulary();
  /// Adds a token that stands for these bytes, or returns its id if it is there.
  int add(std::string_view bytes);
  /// The same for a token that is spelled as it is; kind 3 control, 4 user-defined, 1 ordinary.
  int addSpecial(const std::string& spelling, int kind = 3);
  int size() const { return static_cast<int>(tokens.size()); }

  std::vector<std::string> tokens;
  std::vector<std::int32_t> kinds;
  std::vector<std::string> merges;
};

/// A context that no answer fills while a test looks on: even the smallest model needs seconds for
/// it. For what is done in the middle of an answer, however late the test's own thread comes to it.
inline constexpr int kLongContext = 1 << 16;

/// Shape and texts of a small real model with the vocabulary above and the pre-tokenizer smollm.
/// The defaults give a file of about 300 KB.
struct TinyModelOptions {
  std::string architecture = "llama";  ///< and the prefix of its keys
  std::string name = "tiny";
  std::string chatTemplate = kChatMl;  ///< empty: no such key
  int nLayers = 2;
  int dModel = 64;
  int nHeads = 4;
  int nKvHeads = 2;
  int dFfn = 96;
  int contextLength = 512;
  bool tiedOutput = false;
  bool attentionBias = false;                                  ///< attn_{q,k,v}.bias
  bool headNorm = false;                                       ///< attn_{q,k}_norm.weight
  kernels::TensorType weightType = kernels::TensorType::kF32;  ///< of the matrices
  std::uint64_t seed = 1;
};

/// Random weights with real attention: what comes next depends on the whole history. Unless the
/// output is tied, only the given letters (single bytes) can be the best token, so an answer has no
/// end of its own.
GgufWriter randomModel(const TinyModelOptions& options = {},
                       std::string_view letters = "abcdefghijkl");

/// A model that always says the same after a prompt that ends in `after`, then its end token. The
/// next token depends on the last one alone, by a wide margin (temperature changes nothing).
struct ParrotOptions : TinyModelOptions {
  std::vector<std::string> pieces;  ///< bytes, one token each; all different
  std::string after = "\n";
  std::string endToken = "<|im_end|>";  ///< control token that follows the last piece
  bool endless = false;                 ///< no end: the first piece follows the last one
  int eosTokenId = 2;                   ///< what the file calls its eos
};
GgufWriter parrotModel(const ParrotOptions& options);
/// The same for a whole text, cut into different pieces of a few bytes (also inside characters).
GgufWriter parrotModel(std::string_view text, ParrotOptions options = {});

/// The cut that parrotModel(text) uses.
std::vector<std::string> cutIntoDifferentPieces(std::string_view text);

}  // namespace vitrine::test

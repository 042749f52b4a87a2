#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/types.h"
#include "engine/model/mapped_file.h"

namespace vitrine::engine {

/// The file that llama.cpp's `llama-perplexity --kl-divergence-base` writes: a text cut into
/// windows and, for the later tokens of each, the distribution before them. With it the engine is
/// compared with llama.cpp itself over a whole text (tools/perplexity/perplexity.cpp of llama.cpp).
///
/// Layout, little-endian: "_logits_", then 32-bit integers: context, vocabulary, windows, and the
/// tokens [windows, context]. Then a row for each token after number context / 2 of a window: two
/// floats (scale, offset), and 16-bit steps [vocabulary, padded to even], a log-probability being
/// offset + scale * step. Logits 16 or more below the best one were raised to that: step 0.
class LlamaLogits final {
 public:
  /// Errors: those of MappedFile; kInvalidFile for another format, sizes without meaning, a token
  /// outside the vocabulary, or a file that ends early (llama.cpp does not notice a full disk).
  static Result<LlamaLogits> open(const std::filesystem::path& path);

  /// All windows, one after the other.
  std::span<const TokenId> tokens() const { return m_tokens; }
  int context() const { return m_context; }
  int vocabSize() const { return m_vocab; }
  int windows() const { return static_cast<int>(m_tokens.size()) / m_context; }
  int rowsPerWindow() const { return m_context - 1 - m_context / 2; }

  /// Log-probabilities [vocabSize] before a token of a window. Step 0 counts as impossible (those
  /// tokens together would weigh up to 0.5 % otherwise), except for `next`, whose probability a
  /// perplexity needs. Valid until the next call.
  /// Requires: a window, a row of it, a token.
  std::span<const float> row(int window, int row, TokenId next);

  /// Whether a part of the file was lost while it was read: rows are zeros there.
  bool lost() const { return m_file->lost(); }

 private:
  std::unique_ptr<MappedFile> m_file;
  int m_context = 0, m_vocab = 0;
  std::vector<TokenId> m_tokens;
  std::size_t m_firstRow = 0, m_rowBytes = 0;  // in the file
  std::vector<float> m_row;
};

}  // namespace vitrine::engine

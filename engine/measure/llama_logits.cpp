#include "engine/measure/llama_logits.h"

#include <cassert>
#include <cstring>
#include <string_view>

namespace vitrine::engine {
namespace {

constexpr std::string_view kMagic = "_logits_";
constexpr std::size_t kHeaderBytes = 8 + 3 * sizeof(std::int32_t);
constexpr std::size_t kRowHead = 2 * sizeof(float);
constexpr float kImpossible = -32.0F;  // a log-probability of nothing, yet finite

template <typename T>
T readAt(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

}  // namespace

Result<LlamaLogits> LlamaLogits::open(const std::filesystem::path& path) {
  LlamaLogits logits;
  VITRINE_ASSIGN(logits.m_file, MappedFile::open(path));
  const auto bytes = logits.m_file->bytes();
  if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return fail(ErrorCode::kInvalidFile,
                "{} does not hold logits of llama.cpp: make it with llama-perplexity "
                "--kl-divergence-base",
                path.string());
  }
  const auto context = readAt<std::int32_t>(bytes, 8);
  const auto vocab = readAt<std::int32_t>(bytes, 12);
  const auto windows = readAt<std::int32_t>(bytes, 16);
  if (context < 3 || vocab < 1 || windows < 1) {
    return fail(ErrorCode::kInvalidFile,
                "{}: {} windows of {} tokens over a vocabulary of {} tokens", path.string(),
                windows, context, vocab);
  }
  logits.m_context = context;
  logits.m_vocab = vocab;
  const auto nWindows = static_cast<std::uint64_t>(windows);
  const std::uint64_t nTokens = nWindows * static_cast<std::uint64_t>(context);
  const std::uint64_t padded = (static_cast<std::uint64_t>(vocab) + 1) / 2 * 2;
  const std::uint64_t rowBytes = kRowHead + padded * sizeof(std::uint16_t);
  const std::uint64_t nRows = nWindows * static_cast<std::uint64_t>(logits.rowsPerWindow());
  const std::uint64_t firstRow = kHeaderBytes + nTokens * sizeof(TokenId);
  // Compared and divided before anything can overflow: a header may be forged.
  if (nTokens > bytes.size() || firstRow > bytes.size() ||
      (bytes.size() - firstRow) / rowBytes < nRows) {
    return fail(ErrorCode::kInvalidFile,
                "{} ends early: {} bytes do not hold {} rows of {} bytes; was the disk full when "
                "llama-perplexity wrote it?",
                path.string(), bytes.size(), nRows, rowBytes);
  }
  logits.m_tokens.resize(nTokens);
  std::memcpy(logits.m_tokens.data(), bytes.data() + kHeaderBytes, nTokens * sizeof(TokenId));
  for (const TokenId token : logits.m_tokens) {
    if (token < 0 || token >= vocab) {
      return fail(ErrorCode::kInvalidFile, "{}: token {} of a vocabulary of {}", path.string(),
                  token, vocab);
    }
  }
  logits.m_firstRow = firstRow;
  logits.m_rowBytes = rowBytes;
  logits.m_row.resize(static_cast<std::size_t>(vocab));
  return logits;
}

std::span<const float> LlamaLogits::row(int window, int row, TokenId next) {
  assert(window >= 0 && window < windows() && row >= 0 && row < rowsPerWindow());
  const std::size_t index =
      static_cast<std::size_t>(window) * static_cast<std::size_t>(rowsPerWindow()) +
      static_cast<std::size_t>(row);
  const auto bytes = m_file->bytes().subspan(m_firstRow + index * m_rowBytes, m_rowBytes);
  const auto scale = readAt<float>(bytes, 0);
  const auto offset = readAt<float>(bytes, sizeof(float));
  for (std::size_t id = 0; id < m_row.size(); ++id) {
    const auto step = readAt<std::uint16_t>(bytes, kRowHead + id * sizeof(std::uint16_t));
    const bool told = step > 0 || scale == 0.0F;  // without a scale all are equal
    m_row[id] = told ? offset + scale * static_cast<float>(step) : kImpossible;
  }
  const auto target = static_cast<std::size_t>(next);
  if (m_row[target] == kImpossible) m_row[target] = offset;
  return m_row;
}

}  // namespace vitrine::engine

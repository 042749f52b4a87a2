#pragma once

#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/measure/evaluate.h"

namespace vitrine::engine {

/// Blocks 0, 1, … of a fresh cache for one sequence of so many tokens. Configures (and so empties)
/// the backend's cache.
Result<std::vector<BlockId>> makeSequenceCache(Backend& backend, KvType type, int tokens);

/// A text cut into windows of which the later tokens are scored: see evaluate().
class ScoredWindows final {
 public:
  struct Options {
    int context = 512, chunk = 128;
    std::optional<TokenId> bos = std::nullopt;  ///< replaces the first token of each window
  };
  /// kInvalidArgument for a text without a token to predict, or a window that the model cannot
  /// take. The tokens must outlive it.
  static Result<ScoredWindows> make(const ModelConfig& config, std::span<const TokenId> tokens,
                                    const Options& options);

  /// Tokens that are scored, all windows together.
  std::int64_t rows() const;

  struct Side {
    Backend* backend = nullptr;
    KvType kv = KvType::kFp16;
  };
  /// The logits before a scored token, one row of each side, and that token. Rows come in order.
  using OnRow = std::function<void(std::span<const std::span<const float>> logits, TokenId next)>;
  /// Runs every window through all sides, chunk after chunk side by side. Configures their caches.
  Result<void> run(std::span<const Side> sides, const OnRow& onRow, const std::string& stage,
                   const Progress& progress, const std::stop_token& stop) const;

 private:
  std::span<const TokenId> m_tokens;
  Options m_options;
  std::size_t m_window = 0, m_firstScored = 0, m_windows = 0;
};

/// The sums of an evaluation; rows come in one by one.
class EvaluationSums final {
 public:
  void add(std::span<const float> logits, TokenId next);
  void add(std::span<const float> logits, std::span<const float> reference, TokenId next);
  /// Requires: at least one row.
  EvaluationReport report() const;

 private:
  std::int64_t m_tokens = 0, m_sameBest = 0;
  double m_negativeLog = 0.0, m_referenceNegativeLog = 0.0;
  std::vector<float> m_divergences;
};

/// The smallest of the values that at least 99 % of them do not exceed. Requires: not empty.
double percentile99(std::vector<float> values);

}  // namespace vitrine::engine

#include "engine/measure/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/measure/distribution.h"

namespace vitrine::engine {
namespace {

constexpr int kBlockSize = 16;

/// A cache for one sequence of `length` tokens; returns its block table.
Result<std::vector<BlockId>> makeCache(Backend& backend, KvType type, int length) {
  const int nBlocks = (length + kBlockSize - 1) / kBlockSize;
  VITRINE_TRY(backend.configureCache({type, kBlockSize, nBlocks, backend.config().nKvHeads}));
  std::vector<BlockId> table(static_cast<std::size_t>(nBlocks));
  std::iota(table.begin(), table.end(), 0);
  return table;
}

Result<void> checkLength(const ModelConfig& config, int tokens, const char* what) {
  if (tokens >= 1 && tokens <= config.contextLength) return {};
  return fail(ErrorCode::kInvalidArgument, "{} of {} tokens; the model takes 1 to {}", what, tokens,
              config.contextLength);
}

/// The sums of an evaluation; rows come in one by one.
struct Sums {
  std::int64_t tokens = 0;
  std::int64_t sameBest = 0;
  double negativeLog = 0.0;
  double referenceNegativeLog = 0.0;
  std::vector<float> divergences;

  void add(std::span<const float> logits, const std::span<const float>* reference, TokenId next) {
    ++tokens;
    negativeLog += logSumExp(logits) - logits[next];
    if (reference == nullptr) return;
    referenceNegativeLog += logSumExp(*reference) - (*reference)[next];
    const RowComparison row = compareRows(*reference, logits);
    divergences.push_back(static_cast<float>(row.divergence));
    sameBest += row.sameBest ? 1 : 0;
  }

  EvaluationReport report() {
    EvaluationReport report;
    const auto n = static_cast<double>(tokens);
    report.tokens = tokens;
    report.perplexity = std::exp(negativeLog / n);
    if (divergences.empty()) return report;
    report.referencePerplexity = std::exp(referenceNegativeLog / n);
    report.klMean = std::accumulate(divergences.begin(), divergences.end(), 0.0) / n;
    report.top1Agreement = static_cast<double>(sameBest) / n;
    // The smallest value that at least 99 % of the rows do not exceed.
    const auto rank = static_cast<std::ptrdiff_t>(std::ceil(0.99 * n)) - 1;
    std::nth_element(divergences.begin(), divergences.begin() + rank, divergences.end());
    report.klP99 = divergences[static_cast<std::size_t>(rank)];
    return report;
  }
};

}  // namespace

Result<EvaluationReport> evaluate(Backend& backend, Backend* reference, const ModelConfig& config,
                                  std::span<const TokenId> tokens, const EvaluationOptions& options,
                                  const Progress& progress, std::stop_token stop) {
  VITRINE_TRY(checkLength(config, options.context, "a window"));
  if (tokens.size() < 2 || options.context < 2 || options.chunk < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "{} tokens in windows of {}: there is no token to predict; give a longer text",
                tokens.size(), options.context);
  }
  const auto window = std::min(tokens.size(), static_cast<std::size_t>(options.context));
  const bool whole = tokens.size() >= static_cast<std::size_t>(options.context);
  const std::size_t firstScored = whole ? std::max<std::size_t>(window / 2, 1) : 1;
  const std::size_t nWindows = tokens.size() / window;
  VITRINE_ASSIGN(const std::vector<BlockId> table,
                 makeCache(backend, options.kv, static_cast<int>(window)));
  if (reference != nullptr) {
    VITRINE_TRY(makeCache(*reference, options.referenceKv, static_cast<int>(window)));
  }

  Sums sums;
  std::vector<TokenId> text;
  for (std::size_t w = 0; w < nWindows; ++w) {
    const auto part = tokens.subspan(w * window, window);
    text.assign(part.begin(), part.end());
    if (options.bos) text.front() = *options.bos;
    for (std::size_t begin = 0; begin < window; begin += static_cast<std::size_t>(options.chunk)) {
      if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "the evaluation was stopped");
      const std::size_t end = std::min(window, begin + static_cast<std::size_t>(options.chunk));
      // Row i predicts token i + 1; the last row of a window predicts nothing that is scored.
      const std::size_t firstRow = std::max(begin, firstScored - 1);
      BatchSequence sequence;
      sequence.tokens = std::span(text).subspan(begin, end - begin);
      sequence.firstPosition = static_cast<int>(begin);
      sequence.blockTable = table;
      sequence.logitRows = firstRow < end ? static_cast<int>(end - firstRow) : 0;
      VITRINE_ASSIGN(const LogitsView logits, backend.forward({&sequence, 1}));
      LogitsView referenceLogits;
      if (reference != nullptr) {
        VITRINE_ASSIGN(referenceLogits, reference->forward({&sequence, 1}));
      }
      for (std::size_t row = firstRow; row < end && row + 1 < window; ++row) {
        const int i = static_cast<int>(row - firstRow);
        std::span<const float> referenceRow;
        if (reference != nullptr) referenceRow = referenceLogits.row(i);
        sums.add(logits.row(i), reference != nullptr ? &referenceRow : nullptr, text[row + 1]);
      }
      if (progress) {
        progress("Evaluating",
                 (static_cast<double>(w) + static_cast<double>(end) / static_cast<double>(window)) /
                     static_cast<double>(nWindows));
      }
    }
  }
  return sums.report();
}

Result<std::vector<float>> nextTokenLogits(Backend& backend, const ModelConfig& config,
                                           std::span<const TokenId> tokens, KvType kv, int chunk) {
  VITRINE_TRY(checkLength(config, static_cast<int>(tokens.size()), "a text"));
  VITRINE_ASSIGN(const std::vector<BlockId> table,
                 makeCache(backend, kv, static_cast<int>(tokens.size())));
  for (std::size_t begin = 0; begin < tokens.size(); begin += static_cast<std::size_t>(chunk)) {
    const std::size_t end = std::min(tokens.size(), begin + static_cast<std::size_t>(chunk));
    BatchSequence sequence;
    sequence.tokens = tokens.subspan(begin, end - begin);
    sequence.firstPosition = static_cast<int>(begin);
    sequence.blockTable = table;
    sequence.logitRows = end == tokens.size() ? 1 : 0;
    VITRINE_ASSIGN(const LogitsView logits, backend.forward({&sequence, 1}));
    if (end == tokens.size()) {
      const auto row = logits.row(0);
      return std::vector<float>(row.begin(), row.end());
    }
  }
  return fail(ErrorCode::kInternal, "no step produced logits");
}

}  // namespace vitrine::engine

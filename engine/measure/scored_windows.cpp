#include "engine/measure/scored_windows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/measure/distribution.h"

namespace vitrine::engine {
namespace {

constexpr int kBlockSize = 16;

}  // namespace

Result<std::vector<BlockId>> makeSequenceCache(Backend& backend, KvType type, int tokens) {
  const int nBlocks = (tokens + kBlockSize - 1) / kBlockSize;
  VITRINE_TRY(backend.configureCache({type, kBlockSize, nBlocks, backend.config().nKvHeads}));
  std::vector<BlockId> table(static_cast<std::size_t>(nBlocks));
  std::iota(table.begin(), table.end(), 0);
  return table;
}

Result<ScoredWindows> ScoredWindows::make(const ModelConfig& config,
                                          std::span<const TokenId> tokens, const Options& options) {
  if (options.context < 1 || options.context > config.contextLength) {
    return fail(ErrorCode::kInvalidArgument, "a window of {} tokens; the model takes 1 to {}",
                options.context, config.contextLength);
  }
  if (tokens.size() < 2 || options.context < 2 || options.chunk < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "{} tokens in windows of {}: there is no token to predict; give a longer text",
                tokens.size(), options.context);
  }
  ScoredWindows windows;
  windows.m_tokens = tokens;
  windows.m_options = options;
  windows.m_window = std::min(tokens.size(), static_cast<std::size_t>(options.context));
  const bool whole = tokens.size() >= static_cast<std::size_t>(options.context);
  windows.m_firstScored = whole ? std::max<std::size_t>(windows.m_window / 2, 1) : 1;
  windows.m_windows = tokens.size() / windows.m_window;
  return windows;
}

std::int64_t ScoredWindows::rows() const {
  return static_cast<std::int64_t>(m_windows * (m_window - m_firstScored));
}

Result<void> ScoredWindows::run(std::span<const Side> sides, const OnRow& onRow,
                                const std::string& stage, const Progress& progress,
                                const std::stop_token& stop) const {
  std::vector<BlockId> table;
  for (const Side& side : sides) {
    VITRINE_ASSIGN(table, makeSequenceCache(*side.backend, side.kv, static_cast<int>(m_window)));
  }
  const auto chunk = static_cast<std::size_t>(m_options.chunk);
  std::vector<TokenId> text;
  std::vector<LogitsView> views(sides.size());
  std::vector<std::span<const float>> rows(sides.size());
  for (std::size_t w = 0; w < m_windows; ++w) {
    const auto part = m_tokens.subspan(w * m_window, m_window);
    text.assign(part.begin(), part.end());
    if (m_options.bos) text.front() = *m_options.bos;
    for (std::size_t begin = 0; begin < m_window; begin += chunk) {
      const std::size_t end = std::min(m_window, begin + chunk);
      // Row i predicts token i + 1; the last row of a window predicts nothing that is scored.
      const std::size_t firstRow = std::max(begin, m_firstScored - 1);
      BatchSequence sequence;
      sequence.tokens = std::span(text).subspan(begin, end - begin);
      sequence.firstPosition = static_cast<int>(begin);
      sequence.blockTable = table;
      sequence.logitRows = firstRow < end ? static_cast<int>(end - firstRow) : 0;
      for (std::size_t s = 0; s < sides.size(); ++s) {
        if (stop.stop_requested()) {
          return fail(ErrorCode::kCancelled, "the measurement was stopped");
        }
        VITRINE_ASSIGN(views[s], sides[s].backend->forward({&sequence, 1}));
      }
      for (std::size_t row = firstRow; row < end && row + 1 < m_window; ++row) {
        for (std::size_t s = 0; s < sides.size(); ++s) {
          rows[s] = views[s].row(static_cast<int>(row - firstRow));
        }
        onRow(rows, text[row + 1]);
      }
      if (progress) {
        progress(stage, (static_cast<double>(w) +
                         static_cast<double>(end) / static_cast<double>(m_window)) /
                            static_cast<double>(m_windows));
      }
    }
  }
  return {};
}

void EvaluationSums::add(std::span<const float> logits, TokenId next) {
  ++m_tokens;
  m_negativeLog += logSumExp(logits) - logits[static_cast<std::size_t>(next)];
}

void EvaluationSums::add(std::span<const float> logits, std::span<const float> reference,
                         TokenId next) {
  const RowComparison row = compareRows(reference, logits);
  const auto id = static_cast<std::size_t>(next);
  ++m_tokens;
  m_negativeLog += row.otherNorm - logits[id];
  m_referenceNegativeLog += row.referenceNorm - reference[id];
  m_divergences.push_back(static_cast<float>(row.divergence));
  m_sameBest += row.sameBest ? 1 : 0;
}

EvaluationReport EvaluationSums::report() const {
  EvaluationReport report;
  const auto n = static_cast<double>(m_tokens);
  report.tokens = m_tokens;
  report.perplexity = std::exp(m_negativeLog / n);
  if (m_divergences.empty()) return report;
  report.referencePerplexity = std::exp(m_referenceNegativeLog / n);
  report.klMean = std::accumulate(m_divergences.begin(), m_divergences.end(), 0.0) / n;
  report.top1Agreement = static_cast<double>(m_sameBest) / n;
  report.klP99 = percentile99(m_divergences);
  return report;
}

double percentile99(std::vector<float> values) {
  const auto rank =
      static_cast<std::ptrdiff_t>(std::ceil(0.99 * static_cast<double>(values.size()))) - 1;
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[static_cast<std::size_t>(rank)];
}

}  // namespace vitrine::engine

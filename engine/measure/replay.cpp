#include "engine/measure/replay.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "engine/measure/distribution.h"
#include "engine/measure/scored_windows.h"

namespace vitrine::engine {
namespace {

constexpr std::size_t kChunk = 64;            // of the comparison: a row of logits a token
constexpr std::size_t kPrefillChunk = 256;    // of the speed measurement, as the engine's
constexpr std::size_t kMostDecodeSteps = 24;  // on each side, in turns of kDecodeTurn
constexpr std::size_t kDecodeTurn = 8;
constexpr double kCompared = 0.6;  // share of the progress

/// Both sides over one conversation.
class Replay {
 public:
  Replay(const std::array<ReplaySide, 2>& sides, std::span<const TokenId> tokens,
         const Progress& progress, std::stop_token stop)
      : m_sides(sides), m_tokens(tokens), m_progress(progress), m_stop(std::move(stop)) {
    m_report.tokens.resize(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) m_report.tokens[i].id = tokens[i];
  }

  Result<void> prepare(std::span<const TokenRange> scored) {
    int from = 1;  // nothing comes before the first token
    for (const TokenRange& range : scored) {
      const int begin = std::max(range.begin, from);
      const int end = std::min(range.end, static_cast<int>(m_tokens.size()));
      for (int i = begin; i < end; ++i) {
        m_report.tokens[static_cast<std::size_t>(i)].scored = true;
        ++m_report.scoredTokens;
      }
      from = std::max(from, end);
    }
    if (m_report.scoredTokens == 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "the conversation holds no answer to compare; replay one with an answer");
    }
    for (std::size_t s = 0; s < 2; ++s) {
      VITRINE_ASSIGN(m_table, makeSequenceCache(*m_sides[s].backend, m_sides[s].kv,
                                                static_cast<int>(m_tokens.size())));
      const BackendMemory memory = m_sides[s].backend->memory();
      m_report.sides[s].weightBytes = memory.weightBytes + memory.mappedBytes;
      m_report.sides[s].kvBytes = memory.kvBytesPerBlock * m_table.size();
    }
    return {};
  }

  /// What each thought of every answer's tokens.
  Result<void> compare() {
    std::array<double, 2> negativeLog{};
    std::vector<float> divergences;
    int sameBest = 0;
    for (std::size_t begin = 0; begin < m_tokens.size(); begin += kChunk) {
      const std::size_t end = std::min(m_tokens.size(), begin + kChunk);
      // Row i predicts token i + 1: rows from the first that predicts a scored one.
      std::size_t first = begin;
      while (first < end && !isScored(first + 1)) ++first;
      std::array<LogitsView, 2> views;
      for (std::size_t s = 0; s < 2; ++s) {
        VITRINE_ASSIGN(views[s], step(s, begin, end, static_cast<int>(end - first)));
      }
      for (std::size_t row = first; row < end; ++row) {
        if (!isScored(row + 1)) continue;
        ReplayToken& token = m_report.tokens[row + 1];
        const int i = static_cast<int>(row - first);
        const std::array rows = {std::span<const float>(views[0].row(i)),
                                 std::span<const float>(views[1].row(i))};
        const RowComparison both = compareRows(rows[0], rows[1]);
        token.divergence = static_cast<float>(both.divergence);
        const std::array norms = {both.referenceNorm, both.otherNorm};
        for (std::size_t s = 0; s < 2; ++s) {
          token.best[s] = bestToken(rows[s]);
          const double logprob = rows[s][static_cast<std::size_t>(token.id)] - norms[s];
          token.logprob[s] = static_cast<float>(logprob);
          negativeLog[s] -= logprob;
        }
        divergences.push_back(token.divergence);
        sameBest += both.sameBest ? 1 : 0;
        if (!both.sameBest && m_report.firstDivergence < 0) {
          m_report.firstDivergence = static_cast<int>(row + 1);
        }
      }
      tell("Comparing", kCompared * static_cast<double>(end) / double(m_tokens.size()));
    }
    const double n = m_report.scoredTokens;
    m_report.klMean = std::accumulate(divergences.begin(), divergences.end(), 0.0) / n;
    m_report.klP99 = percentile99(divergences);
    m_report.top1Agreement = sameBest / n;
    for (std::size_t s = 0; s < 2; ++s) {
      m_report.sides[s].perplexity = std::exp(negativeLog[s] / n);
    }
    return {};
  }

  /// Speeds, on the caches and memory that comparing has warmed. One side at a time is active:
  /// the waiting threads of the other would take its cores.
  Result<void> time() {
    const std::size_t n = m_tokens.size();
    for (std::size_t s = 0; s < 2; ++s) {
      for (std::size_t begin = 0; begin < n; begin += kPrefillChunk) {
        const std::size_t end = std::min(n, begin + kPrefillChunk);
        VITRINE_ASSIGN(const double seconds, timed(s, begin, end, kPrefillChunk));
        m_report.sides[s].prefillMs += seconds * 1000;
        tell("Timing the prefill",
             kCompared + 0.15 * (double(s) + static_cast<double>(end) / static_cast<double>(n)));
      }
    }
    const std::size_t steps = std::min(kMostDecodeSteps, (n + 1) / 2);
    std::array<double, 2> seconds{};
    for (std::size_t begin = n - steps; begin < n; begin += kDecodeTurn) {
      for (std::size_t s = 0; s < 2; ++s) {
        VITRINE_ASSIGN(const double taken, timed(s, begin, std::min(n, begin + kDecodeTurn), 1));
        seconds[s] += taken;
      }
      tell("Timing the decode", 1.0 - 0.1 * static_cast<double>(n - begin) / double(steps));
    }
    for (std::size_t s = 0; s < 2; ++s) {
      m_report.sides[s].decodeTps = static_cast<double>(steps) / std::max(seconds[s], 1e-9);
    }
    return {};
  }

  ReplayReport take() { return std::move(m_report); }

 private:
  bool isScored(std::size_t token) const {
    return token < m_report.tokens.size() && m_report.tokens[token].scored;
  }

  Result<LogitsView> step(std::size_t side, std::size_t begin, std::size_t end, int logitRows) {
    if (m_stop.stop_requested()) return fail(ErrorCode::kCancelled, "the replay was stopped");
    BatchSequence sequence;
    sequence.tokens = m_tokens.subspan(begin, end - begin);
    sequence.firstPosition = static_cast<int>(begin);
    sequence.blockTable = m_table;
    sequence.logitRows = logitRows;
    return m_sides[side].backend->forward({&sequence, 1});
  }

  /// Seconds of the tokens [begin, end) in steps of so many, the logits of each last one included.
  Result<double> timed(std::size_t side, std::size_t begin, std::size_t end, std::size_t chunk) {
    Backend& backend = *m_sides[side].backend;
    backend.setActive(true);
    const auto start = std::chrono::steady_clock::now();
    Result<LogitsView> logits;
    for (; begin < end && logits; begin += chunk) {
      const std::size_t next = std::min(end, begin + chunk);
      logits = step(side, begin, next, chunk == 1 || next == m_tokens.size() ? 1 : 0);
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    backend.setActive(false);
    if (!logits) return tl::unexpected(std::move(logits).error());
    return taken.count();
  }

  void tell(const char* stage, double fraction) const {
    if (m_progress) m_progress(stage, fraction);
  }

  const std::array<ReplaySide, 2>& m_sides;
  std::span<const TokenId> m_tokens;
  const Progress& m_progress;
  std::stop_token m_stop;
  std::vector<BlockId> m_table;  // of both
  ReplayReport m_report;
};

}  // namespace

Result<ReplayReport> replay(const std::array<ReplaySide, 2>& sides, const ModelConfig& config,
                            std::span<const TokenId> tokens, std::span<const TokenRange> scored,
                            const Progress& progress, std::stop_token stop) {
  if (tokens.size() < 2 || tokens.size() > static_cast<std::size_t>(config.contextLength)) {
    return fail(ErrorCode::kInvalidArgument,
                "the conversation has {} tokens; the model takes 2 to {}", tokens.size(),
                config.contextLength);
  }
  Replay run(sides, tokens, progress, std::move(stop));
  VITRINE_TRY(run.prepare(scored));
  VITRINE_TRY(run.compare());
  VITRINE_TRY(run.time());
  return run.take();
}

}  // namespace vitrine::engine

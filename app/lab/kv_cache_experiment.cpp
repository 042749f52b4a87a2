// KV cache: each token of a greedy answer computed twice in turn, with the whole sequence anew and
// with the cache; time and positions of every token.
#include <chrono>
#include <numeric>

#include <spdlog/fmt/fmt.h>

#include "app/lab/experiment.h"
#include "app/measure/page_text.h"
#include "engine/measure/distribution.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app::lab {

using engine::Backend;
using engine::BlockId;
using engine::Result;
using engine::TokenId;

namespace {

constexpr int kPromptTokens = 16;

/// One answer, generated both ways.
struct BothWays {
  std::vector<double> naiveMs, cachedMs;                // a token
  std::vector<double> naivePositions, cachedPositions;  // a token
  int sameTokens = 0;
  std::uint64_t cacheBytes = 0;
};

class Generation {
 public:
  Generation(const LabContext& context, Backend& backend, int answer)
      : m_context(context), m_backend(backend), m_answer(answer) {}

  Result<BothWays> run() {
    const int length = kPromptTokens + m_answer;
    const int blockSize = m_context.config.cache.blockSize;
    const int blocks = (length + blockSize - 1) / blockSize;
    VITRINE_TRY(m_backend.configureCache(
        {m_context.config.cache.type, blockSize, 2 * blocks, m_context.modelConfig().nKvHeads}));
    m_naiveTable.resize(static_cast<std::size_t>(blocks));
    m_cachedTable.resize(static_cast<std::size_t>(blocks));
    std::iota(m_naiveTable.begin(), m_naiveTable.end(), 0);
    std::iota(m_cachedTable.begin(), m_cachedTable.end(), blocks);
    m_tokens = m_context.model->tokenizer().encode(kPageText);
    m_tokens.resize(kPromptTokens);

    BothWays both;
    int cached = 0;  // positions in the cache
    for (int i = 0; i < m_answer; ++i) {
      const int now = static_cast<int>(m_tokens.size());
      VITRINE_TRY(step(m_naiveTable, 0, both.naiveMs));
      both.naivePositions.push_back(now);
      const TokenId naive = m_best;
      VITRINE_TRY(step(m_cachedTable, cached, both.cachedMs));
      both.cachedPositions.push_back(now - cached);
      cached = now;
      both.sameTokens += naive == m_best ? 1 : 0;
      m_tokens.push_back(m_best);
    }
    both.cacheBytes = static_cast<std::uint64_t>(blocks) * m_backend.memory().kvBytesPerBlock;
    return both;
  }

 private:
  /// Computes the positions from `first` on and takes the best next token.
  Result<void> step(const std::vector<BlockId>& table, int first, std::vector<double>& times) {
    constexpr int kChunk = 256;
    const auto start = std::chrono::steady_clock::now();
    const int length = static_cast<int>(m_tokens.size());
    for (int at = first; at < length; at += kChunk) {
      VITRINE_TRY(m_context.checkStop());
      const int n = std::min(kChunk, length - at);
      engine::BatchSequence sequence;
      sequence.tokens =
          std::span(m_tokens).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(n));
      sequence.firstPosition = at;
      sequence.blockTable = table;
      sequence.logitRows = at + n == length ? 1 : 0;
      VITRINE_ASSIGN(const engine::LogitsView logits, m_backend.forward({&sequence, 1}));
      if (at + n == length) m_best = engine::bestToken(logits.row(0));
    }
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    times.push_back(taken.count());
    return {};
  }

  const LabContext& m_context;
  Backend& m_backend;
  int m_answer;
  std::vector<BlockId> m_naiveTable, m_cachedTable;
  std::vector<TokenId> m_tokens;
  TokenId m_best = 0;
};

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::vector<double> runningSum(const std::vector<double>& values) {
  std::vector<double> sums(values.size());
  std::partial_sum(values.begin(), values.end(), sums.begin());
  return sums;
}

/// The median of each token over the repeats.
std::vector<double> medians(const std::vector<BothWays>& repeats,
                            std::vector<double> BothWays::*field) {
  std::vector<double> result;
  for (std::size_t i = 0; i < (repeats.front().*field).size(); ++i) {
    std::vector<double> values;
    for (const BothWays& each : repeats) values.push_back((each.*field)[i]);
    result.push_back(median(values));
  }
  return result;
}

std::vector<double> lastTokens(const std::vector<BothWays>& repeats,
                               std::vector<double> BothWays::*field) {
  std::vector<double> values;
  for (const BothWays& each : repeats) {
    const auto& all = each.*field;
    values.insert(values.end(), all.end() - std::min<std::ptrdiff_t>(8, std::ssize(all)),
                  all.end());
  }
  return values;
}

Chart makeChart(const char* id, const char* title, const char* unit, const std::vector<double>& x,
                const std::vector<double>& naive, const std::vector<double>& cached) {
  Chart chart;
  chart.id = id;
  chart.title = title;
  chart.xLabel = "tokens generated";
  chart.yLabel = unit;
  Series without, with;
  without.id = "naive";
  without.label = "without cache";
  without.x = x;
  without.y = naive;
  without.dashed = true;
  with.id = "cached";
  with.label = "with cache";
  with.x = x;
  with.y = cached;
  chart.series = {with, without};  // the cache in the first colour, that of what is reused
  return chart;
}

LabRow makeRow(const std::vector<BothWays>& repeats) {
  LabRow row;
  std::vector<double> factors, naiveTotals, cachedTotals;
  for (const BothWays& each : repeats) {
    naiveTotals.push_back(sum(each.naiveMs));
    cachedTotals.push_back(sum(each.cachedMs));
    factors.push_back(naiveTotals.back() / cachedTotals.back());
  }
  const std::vector<double> naive = medians(repeats, &BothWays::naiveMs);
  const std::vector<double> cached = medians(repeats, &BothWays::cachedMs);
  std::vector<double> x(naive.size());
  std::iota(x.begin(), x.end(), 1.0);
  const std::vector<double> naiveSum = runningSum(naive), cachedSum = runningSum(cached);
  const Fit naiveQuadratic = fitPolynomial(x, naiveSum, 2);
  const Fit naiveLinear = fitPolynomial(x, naiveSum, 1);
  const Fit cachedLinear = fitPolynomial(x, cachedSum, 1);
  const int tokens = static_cast<int>(naive.size());

  const Figure last = makeFigure("naive_last_ms", "Without cache, at the end", "ms",
                                 lastTokens(repeats, &BothWays::naiveMs));
  const Figure lastCached = makeFigure("cached_last_ms", "With cache, at the end", "ms",
                                       lastTokens(repeats, &BothWays::cachedMs));
  int same = tokens;
  for (const BothWays& each : repeats) same = std::min(same, each.sameTokens);
  const auto& first = repeats.front();
  row.figures = {
      makeFigure("time_factor", "Time without over with cache", "×", factors),
      makeFigure("naive_total_ms", "Whole answer without cache", "ms", naiveTotals),
      makeFigure("cached_total_ms", "Whole answer with cache", "ms", cachedTotals),
      last,
      lastCached,
      makeFigure("naive_positions", "Positions computed without cache", "",
                 sum(first.naivePositions)),
      makeFigure("cached_positions", "Positions computed with cache", "",
                 sum(first.cachedPositions)),
      makeFigure("naive_quadratic_r2", "Without cache: R² of a quadratic fit", "",
                 naiveQuadratic.rSquared),
      makeFigure("naive_linear_r2", "Without cache: R² of a linear fit", "", naiveLinear.rSquared),
      makeFigure("cached_linear_r2", "With cache: R² of a linear fit", "", cachedLinear.rSquared),
      makeFigure("same_tokens", "Tokens that are the same both ways", "%", 100.0 * same / tokens),
      makeFigure("cache_bytes", "KV cache of this answer", "bytes", double(first.cacheBytes)),
  };
  row.gainFactor = row.figures[0].value.median;
  row.gain = fmt::format("{} less time for {} tokens", factorText(row.gainFactor), tokens);
  row.cost = fmt::format("{} for these {} tokens", bytesText(double(first.cacheBytes)),
                         tokens + kPromptTokens);
  row.measured =
      fmt::format("{} → {} per token at {} · quadratic R² {:.3f}", numberText(last.value.median),
                  millisecondsText(lastCached.value.median), tokens, naiveQuadratic.rSquared);
  row.how = fmt::format(
      "A greedy answer of {} tokens after a prompt of {}: for each token the whole sequence was "
      "computed anew, then the new token alone with the cache, in turn, {} times; medians a token. "
      "Least-squares fits are of the time summed up over the answer. {} % of the tokens were the "
      "same both ways.",
      tokens, kPromptTokens, repeats.size(), numberText(100.0 * same / tokens));
  row.charts = {
      makeChart("kv_time", "Time per token, with and without KV cache", "ms", x, naive, cached),
      makeChart("kv_total", "Time for the whole answer", "ms", x, naiveSum, cachedSum),
      makeChart("kv_positions", "Positions computed per token", "positions", x,
                first.naivePositions, first.cachedPositions)};
  return row;
}

Result<LabRow> run(const LabContext& context) {
  const int answer = context.depth(context.quick() ? 128 : 256, kPromptTokens + 1);
  const int repeats = context.quick() ? 2 : 3;
  VITRINE_ASSIGN(const auto backend, context.makeBackend(context.config.precision));
  backend->setActive(true);
  std::vector<BothWays> all;
  VITRINE_TRY(Generation(context, *backend, 8).run());  // warms
  for (int i = 0; i < repeats; ++i) {
    VITRINE_ASSIGN(BothWays both, Generation(context, *backend, answer).run());
    all.push_back(std::move(both));
    context.progress(double(i + 1) / repeats);
  }
  backend->setActive(false);
  return makeRow(all);
}

}  // namespace

const Experiment kKvCacheExperiment{
    "kv-cache", [](const engine::ModelConfig&) { return std::string("KV cache"); }, 18, 100, run};

}  // namespace vitrine::app::lab

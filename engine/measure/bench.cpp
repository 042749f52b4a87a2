#include "engine/measure/bench.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace vitrine::engine {
namespace {

/// The sequences of a measurement, each with blocks of its own.
class Bench {
 public:
  Bench(Backend& backend, const ModelConfig& config, const BenchCase& what,
        const BenchOptions& options, std::stop_token stop)
      : m_backend(backend),
        m_config(config),
        m_what(what),
        m_options(options),
        m_stop(std::move(stop)) {}

  Result<void> prepare() {
    const int length = m_what.depth + m_what.nPrompt + m_what.nGen;
    const int blocks = (length + m_options.blockSize - 1) / m_options.blockSize;
    KvShape shape{m_options.kv, m_options.blockSize, blocks * m_what.sequences,
                  m_backend.config().nKvHeads};
    VITRINE_TRY(m_backend.configureCache(shape));
    for (int s = 0; s < m_what.sequences; ++s) {
      std::vector<BlockId> table(static_cast<std::size_t>(blocks));
      for (int b = 0; b < blocks; ++b) table[static_cast<std::size_t>(b)] = s * blocks + b;
      m_tables.push_back(std::move(table));
      std::vector<TokenId> tokens(static_cast<std::size_t>(length));
      for (int i = 0; i < length; ++i) {
        m_random = m_random * 6364136223846793005ULL + 1442695040888963407ULL;
        tokens[static_cast<std::size_t>(i)] =
            static_cast<TokenId>((m_random >> 33) % static_cast<std::uint64_t>(m_config.vocabSize));
      }
      m_tokens.push_back(std::move(tokens));
    }
    return feed(0, m_what.depth, m_options.chunk);
  }

  /// Seconds of one run.
  Result<double> once() {
    const auto start = std::chrono::steady_clock::now();
    VITRINE_TRY(feed(m_what.depth, m_what.nPrompt, m_options.chunk));
    VITRINE_TRY(feed(m_what.depth + m_what.nPrompt, m_what.nGen, 1));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    return taken.count();
  }

 private:
  /// `count` tokens of every sequence from position `first`, at most `step` of each at a time.
  Result<void> feed(int first, int count, int step) {
    for (int done = 0; done < count; done += step) {
      if (m_stop.stop_requested()) return fail(ErrorCode::kCancelled, "the benchmark was stopped");
      const int n = std::min(step, count - done);
      std::vector<BatchSequence> batch;
      for (std::size_t s = 0; s < m_tokens.size(); ++s) {
        const auto tokens =
            std::span(m_tokens[s])
                .subspan(static_cast<std::size_t>(first + done), static_cast<std::size_t>(n));
        batch.push_back(
            {tokens, first + done, m_tables[s], done + n == count || step == 1 ? 1 : 0});
      }
      if (auto logits = m_backend.forward(batch); !logits) {
        return tl::unexpected(std::move(logits).error());
      }
    }
    return {};
  }

  Backend& m_backend;
  const ModelConfig& m_config;
  const BenchCase& m_what;
  const BenchOptions& m_options;
  std::stop_token m_stop;
  std::uint64_t m_random = 1;
  std::vector<std::vector<BlockId>> m_tables;
  std::vector<std::vector<TokenId>> m_tokens;
};

std::string nameOf(const BenchCase& what) {
  std::string name = what.nPrompt > 0 ? fmt::format("pp{}", what.nPrompt) : "";
  if (what.nGen > 0) name += fmt::format("{}tg{}", name.empty() ? "" : "+", what.nGen);
  if (what.depth > 0) name += fmt::format(" @ d{}", what.depth);
  if (what.sequences > 1) name += fmt::format(" x {}", what.sequences);
  return name;
}

}  // namespace

Result<BenchReport> runBench(Backend& backend, const ModelConfig& config, const BenchCase& what,
                             const BenchOptions& options, std::stop_token stop) {
  if (what.nPrompt < 0 || what.nGen < 0 || what.nPrompt + what.nGen < 1 || what.depth < 0 ||
      what.sequences < 1 || options.repeats < 1 || options.chunk < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "a benchmark of {} prompt tokens, {} generated, {} in the cache, {} sequences, {} "
                "repeats",
                what.nPrompt, what.nGen, what.depth, what.sequences, options.repeats);
  }
  Bench bench(backend, config, what, options, std::move(stop));
  VITRINE_TRY(bench.prepare());
  backend.setActive(true);
  std::vector<double> speeds;
  const double tokens = static_cast<double>(what.nPrompt + what.nGen) * what.sequences;
  for (int i = -1; i < options.repeats; ++i) {  // −1 warms
    Result<double> seconds = bench.once();
    if (!seconds) {
      backend.setActive(false);
      return tl::unexpected(std::move(seconds).error());
    }
    if (i >= 0) speeds.push_back(tokens / std::max(*seconds, 1e-9));
  }
  backend.setActive(false);
  std::sort(speeds.begin(), speeds.end());

  BenchReport report;
  report.test = nameOf(what);
  report.what = what;
  report.tpsMin = speeds.front();
  report.tpsMax = speeds.back();
  const std::size_t middle = speeds.size() / 2;
  report.tpsMedian =
      speeds.size() % 2 == 1 ? speeds[middle] : (speeds[middle - 1] + speeds[middle]) / 2;
  if (what.nPrompt == 0) {
    const BackendMemory memory = backend.memory();
    const double position = what.depth + what.nGen / 2.0;
    report.bytesPerToken =
        static_cast<double>(memory.weightBytesPerToken) / what.sequences +
        static_cast<double>(memory.kvBytesPerBlock) / options.blockSize * position;
    if (options.readBandwidth > 0.0) {
      report.bandwidthShare = report.bytesPerToken * report.tpsMedian / options.readBandwidth;
    }
  }
  return report;
}

}  // namespace vitrine::engine

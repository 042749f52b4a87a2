#include "app/lab/speed_probe.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "app/lab/statistics.h"

namespace vitrine::app::lab {

using engine::Backend;
using engine::BlockId;
using engine::ErrorCode;
using engine::fail;
using engine::Result;
using engine::TokenId;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint64_t kSeed = 20250;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Worker threads of an active backend wait by spinning: only the one that is timed may.
class Active {
 public:
  explicit Active(Backend& backend) : m_backend(backend) { m_backend.setActive(true); }
  ~Active() { m_backend.setActive(false); }
  Active(const Active&) = delete;
  Active& operator=(const Active&) = delete;

 private:
  Backend& m_backend;
};

}  // namespace

SpeedProbe::SpeedProbe(Backend& backend, const Setup& setup, std::stop_token stop)
    : m_backend(backend), m_setup(setup), m_stop(std::move(stop)) {}

Result<std::unique_ptr<SpeedProbe>> SpeedProbe::open(Backend& backend, int vocabSize,
                                                     const Setup& setup, std::stop_token stop) {
  std::unique_ptr<SpeedProbe> probe(new SpeedProbe(backend, setup, std::move(stop)));
  const int length = setup.depth + setup.room;
  const int blocks = (length + setup.blockSize - 1) / setup.blockSize;
  VITRINE_TRY(backend.configureCache(
      {setup.kv, setup.blockSize, blocks * setup.sequences, setup.nKvHeads}));
  std::vector<BlockId> order(static_cast<std::size_t>(blocks) * setup.sequences);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(kSeed);
  if (setup.order != BlockOrder::kInOrder) {
    const std::size_t fixed =
        setup.order == BlockOrder::kMixed ? static_cast<std::size_t>(blocks) : 0;
    for (std::size_t i = order.size(); i > fixed + 1; --i) {
      std::swap(order[i - 1], order[fixed + random() % (i - fixed)]);
    }
  }
  for (int s = 0; s < setup.sequences; ++s) {
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(s) * blocks;
    probe->m_tables.emplace_back(first, first + blocks);
    std::vector<TokenId> tokens(static_cast<std::size_t>(length));
    for (TokenId& token : tokens) {
      token = static_cast<TokenId>(random() % static_cast<std::uint64_t>(vocabSize));
    }
    probe->m_tokens.push_back(std::move(tokens));
  }
  const Active active(backend);
  VITRINE_TRY(probe->feed(0, setup.depth, setup.chunk));
  return probe;
}

Result<void> SpeedProbe::feed(int first, int count, int step, int onlySequence) {
  for (int done = 0; done < count; done += step) {
    if (m_stop.stop_requested()) return fail(ErrorCode::kCancelled, "the lab was stopped");
    const int n = std::min(step, count - done);
    std::vector<engine::BatchSequence> batch;
    for (std::size_t s = 0; s < m_tokens.size(); ++s) {
      if (onlySequence >= 0 && s != static_cast<std::size_t>(onlySequence)) continue;
      const auto tokens =
          std::span(m_tokens[s])
              .subspan(static_cast<std::size_t>(first + done), static_cast<std::size_t>(n));
      batch.push_back({tokens, first + done, m_tables[s], step == 1 || done + n == count ? 1 : 0});
    }
    if (auto logits = m_backend.forward(batch); !logits) {
      return tl::unexpected(std::move(logits).error());
    }
  }
  return {};
}

Result<double> SpeedProbe::decode(int tokens, int onlySequence) {
  const Active active(m_backend);
  const auto start = Clock::now();
  VITRINE_TRY(feed(m_setup.depth, std::min(tokens, m_setup.room), 1, onlySequence));
  return secondsSince(start);
}

Result<double> SpeedProbe::prefill(int tokens) {
  const Active active(m_backend);
  const auto start = Clock::now();
  VITRINE_TRY(feed(m_setup.depth, std::min(tokens, m_setup.room), m_setup.chunk));
  return secondsSince(start);
}

std::vector<double> Interleaved::ratios(std::size_t thing, std::size_t base) const {
  std::vector<double> values;
  for (std::size_t i = 0; i < seconds[thing].size(); ++i) {
    values.push_back(seconds[thing][i] / std::max(seconds[base][i], 1e-12));
  }
  return values;
}

std::vector<double> Interleaved::rates(std::size_t thing, double amount) const {
  std::vector<double> values;
  for (const double taken : seconds[thing]) values.push_back(amount / std::max(taken, 1e-12));
  return values;
}

Result<Interleaved> interleave(const std::vector<Timed>& things, const InterleaveLimits& limits,
                               std::stop_token stop, const std::function<void(double)>& progress) {
  Interleaved result;
  result.seconds.resize(things.size());
  for (const Timed& thing : things) VITRINE_TRY(thing());  // warms
  const auto start = Clock::now();
  for (int round = 0; round < limits.mostRounds; ++round) {
    for (std::size_t i = 0; i < things.size(); ++i) {
      if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "the lab was stopped");
      VITRINE_ASSIGN(const double taken, things[i]());
      result.seconds[i].push_back(taken);
    }
    const double share = secondsSince(start) / std::max(limits.budgetSeconds, 1e-9);
    if (progress) {
      progress(std::min(1.0, std::max(share, double(round + 1) / limits.mostRounds)));
    }
    if (round + 1 < limits.leastRounds) continue;
    if (share >= 1) break;
    bool steady = true;
    for (std::size_t i = 0; i < things.size() && steady; ++i) {
      steady = medianUncertainty(i == 0 ? result.seconds[0] : result.ratios(i, 0)) < limits.steady;
    }
    if (steady) break;
  }
  return result;
}

}  // namespace vitrine::app::lab

#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "engine/backend/backend.h"

namespace vitrine::app::lab {

/// How the blocks of a sequence lie in the pool.
enum class BlockOrder {
  kInOrder,    ///< one after the other, as a contiguous layout has them
  kScattered,  ///< in an order drawn from a seed, as a pool that was in use has them
  kMixed,      ///< the first sequence in order, the others scattered
};

/// Sequences in a backend's pool, filled to a depth, whose next steps can be timed as often as
/// wanted: every run writes the same positions again. Tokens are arbitrary and fixed; nothing is
/// sampled. Owned and used by one thread; the backend outlives it and serves no one else meanwhile.
class SpeedProbe final {
 public:
  struct Setup {
    engine::KvType kv = engine::KvType::kFp16;
    int blockSize = 16;
    int nKvHeads = 0;  ///< of the pool; what the backend runs with
    int depth = 0;     ///< positions filled before
    int room = 512;    ///< positions beyond, at most measured
    int sequences = 1;
    int chunk = 256;
    BlockOrder order = BlockOrder::kInOrder;
  };

  /// Makes the pool and prefills. Errors: what the backend reports; kCancelled.
  static engine::Result<std::unique_ptr<SpeedProbe>> open(engine::Backend& backend, int vocabSize,
                                                          const Setup& setup, std::stop_token stop);

  /// Seconds for `tokens` decode steps from the depth on, of all sequences together or of one.
  engine::Result<double> decode(int tokens, int onlySequence = -1);
  /// Seconds for a prompt of `tokens` of each sequence, from the depth on.
  engine::Result<double> prefill(int tokens);

 private:
  SpeedProbe(engine::Backend& backend, const Setup& setup, std::stop_token stop);
  engine::Result<void> feed(int first, int count, int step, int onlySequence = -1);

  engine::Backend& m_backend;
  Setup m_setup;
  std::stop_token m_stop;
  std::vector<std::vector<engine::BlockId>> m_tables;
  std::vector<std::vector<engine::TokenId>> m_tokens;
};

/// Times several things in turn (A B C, A B C, …), so that what else the machine does meets all of
/// them alike, until the medians of their ratios to the first are steady or the time is over.
struct Interleaved {
  std::vector<std::vector<double>> seconds;  ///< [thing][round]

  /// Each round's value of `thing` over that of `base`.
  std::vector<double> ratios(std::size_t thing, std::size_t base) const;
  /// `amount` / seconds of each round.
  std::vector<double> rates(std::size_t thing, double amount) const;
};
struct InterleaveLimits {
  int leastRounds = 5;
  int mostRounds = 60;
  double budgetSeconds = 10;
  double steady = 0.01;  ///< uncertainty of every ratio's median that is good enough
};
using Timed = std::function<engine::Result<double>()>;
/// One warming round comes first and is not counted. Progress gets shares from 0 to 1.
engine::Result<Interleaved> interleave(const std::vector<Timed>& things,
                                       const InterleaveLimits& limits, std::stop_token stop,
                                       const std::function<void(double)>& progress = {});

}  // namespace vitrine::app::lab

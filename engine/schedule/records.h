#pragma once

#include <cstdint>

#include "engine/schedule/reuse_history.h"
#include "engine/schedule/step_cost.h"
#include "engine/schedule/step_log.h"

namespace vitrine::engine {

/// What the engine remembers of its work. It outlives schedulers, which are made anew when the
/// model or the shape of the pool changes. Inference thread only.
struct Records {
  /// Sums over the program's life.
  struct Totals {
    std::uint64_t prefixQueries = 0, prefixHits = 0, promptTokens = 0, generatedTokens = 0;
    std::uint64_t finishedTurns = 0, finishedTokens = 0;  ///< turns with an answer, its tokens
  };

  Totals totals;
  StepLog steps;
  ReuseHistory history;
  StepCosts costs;
};

}  // namespace vitrine::engine

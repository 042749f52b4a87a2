#pragma once

#include <deque>
#include <vector>

#include "engine/engine_types.h"
#include "engine/schedule/step_cost.h"

namespace vitrine::engine {

/// A turn as far as the time of coming steps depends on it.
struct QueuedTurn {
  int computed = 0;      ///< positions in the cache
  int pending = 0;       ///< positions to compute before its next token
  int tokensToCome = 1;  ///< of its answer, as far as is known
  bool keepsCache = true;
};

/// Plays the scheduler's coming steps with the times that were learned.
struct QueueModel {
  int prefillChunk = 256;
  int maxSequences = 16;
  Batching batching = Batching::kContinuous;
  std::vector<QueuedTurn> running;  ///< the oldest first
  std::deque<QueuedTurn> waiting;   ///< in the order of arrival

  /// Milliseconds until the next token of running[index]. Blocks that have to be waited for are
  /// not foreseen.
  double untilToken(const StepCost& cost, std::size_t index) const;
  /// Milliseconds until the first token of the last one that waits.
  double untilTokenOfLast(const StepCost& cost) const;
};

}  // namespace vitrine::engine

#pragma once

#include <span>
#include <vector>

#include "engine/engine_types.h"

namespace vitrine::ui {

/// What recorded steps say about generating several answers at once. Nothing is estimated: every
/// figure is a sum or a median of steps that ran.
struct BatchFigures {
  int steps = 0;
  int prefillTokens = 0, decodeTokens = 0;
  double milliseconds = 0;  ///< that the steps took, the pauses between them left out
  double tokensPerStep() const {
    return steps > 0 ? double(prefillTokens + decodeTokens) / steps : 0;
  }
  double decodePerSecond() const {
    return milliseconds > 0 ? decodeTokens * 1000.0 / milliseconds : 0;
  }
  double tokensPerSecond() const {
    return milliseconds > 0 ? (prefillTokens + decodeTokens) * 1000.0 / milliseconds : 0;
  }

  /// Steps in which so many answers got a token and no prompt was read.
  struct Size {
    int answers = 0;
    int steps = 0;
    double medianMs = 0;  ///< the time per token (TPOT) of each of the answers
    double tokensPerSecond() const { return medianMs > 0 ? answers * 1000.0 / medianMs : 0; }
  };
  std::vector<Size> sizes;  ///< by the number of answers, those that occurred
  /// Steps in which an answer got a token while prompts of others were read.
  int mixedSteps = 0;
  double mixedMedianMs = 0;

  const Size* ofSize(int answers) const;
};

BatchFigures batchFiguresOf(std::span<const engine::StepRecord> steps);

/// The steps after the last pause of at least this long; what ran together.
std::span<const engine::StepRecord> latestRun(std::span<const engine::StepRecord> steps,
                                              double pauseMs);

}  // namespace vitrine::ui

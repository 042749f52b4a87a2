#pragma once

#include <span>
#include <vector>

#include "engine/base/types.h"
#include "engine/sample/sampler.h"

namespace vitrine::engine {

/// log Σ exp(logits), in double. Requires: at least one logit.
double logSumExp(std::span<const float> logits);

/// The best token; equal logits go to the smaller id.
TokenId bestToken(std::span<const float> logits);

/// The `count` most probable tokens with natural log-probabilities, best first.
std::vector<TokenProbability> topTokens(std::span<const float> logits, int count);

/// What two rows of logits over one vocabulary say about the next token.
struct RowComparison {
  double divergence = 0.0;  ///< KL(reference ‖ other) in nats, over the whole vocabulary
  bool sameBest = false;
  double referenceNorm = 0.0, otherNorm = 0.0;  ///< logSumExp() of each
};
RowComparison compareRows(std::span<const float> reference, std::span<const float> other);

}  // namespace vitrine::engine

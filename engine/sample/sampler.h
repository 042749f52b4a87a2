#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/types.h"

namespace vitrine::engine {

/// Names and defaults as in llama.cpp. Neutral values switch a step off.
struct SamplingParams {
  float temperature = 0.8F;      ///< 0: always the best token
  int topK = 40;                 ///< 0 or >= vocabulary: no filter
  float topP = 0.95F;            ///< 1: no filter; 0: the best token
  float minP = 0.05F;            ///< 0: no filter; 1: the best token
  float repeatPenalty = 1.0F;    ///< 1: off; > 0
  float presencePenalty = 0.0F;  ///< -2 to 2
  float frequencyPenalty = 0.0F; ///< -2 to 2
  int penaltyWindow = 64;        ///< how many of the last tokens the penalties look at
  std::optional<std::uint64_t> seed;  ///< empty: random

  /// Refuses values without meaning, naming the field and its range.
  Result<void> validate() const;
};

struct TokenProbability {
  TokenId id = 0;
  float logprob = 0.0F;  ///< natural logarithm, of the model's own distribution before any filter
};

struct SampledToken {
  TokenId id = 0;
  float logprob = 0.0F;
  std::vector<TokenProbability> top;  ///< the best alternatives, if asked for
};

/// Draws tokens. One sampler per running sequence; the same seed and logits give the same ids.
class Sampler {
 public:
  Sampler(const SamplingParams& params, std::uint64_t seed);

  /// `logits` [vocabSize] are overwritten. `history` are all tokens of the sequence so far.
  /// `nTop` > 0 also returns that many alternatives; `wantLogprob` false skips the softmax.
  SampledToken sample(std::span<float> logits, std::span<const TokenId> history, int nTop = 0,
                      bool wantLogprob = false);
  std::uint64_t seed() const { return m_seed; }

 private:
  SamplingParams m_params;
  std::uint64_t m_seed;
  std::uint64_t m_state;
  std::vector<TokenProbability> m_candidates;  // reused from call to call
};

}  // namespace vitrine::engine

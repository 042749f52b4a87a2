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
  float temperature = 0.8F;       ///< 0: always the best token; at most 100
  int topK = 40;                  ///< -1, 0 or >= vocabulary: no filter
  float topP = 0.95F;             ///< 1: no filter; 0: the best token
  float minP = 0.05F;             ///< 0: no filter; 1: the best token
  float repeatPenalty = 1.0F;     ///< 1: off; above 0, at most 100
  float presencePenalty = 0.0F;   ///< -2 to 2
  float frequencyPenalty = 0.0F;  ///< -2 to 2
  int penaltyWindow = 64;         ///< how many of the last tokens the penalties look at; -1: all
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
/// Order: penalties, top-k, top-p, min-p, temperature, draw (as llama.cpp's default chain).
/// Whatever the logits hold (NaN, infinities), a token of the vocabulary comes out: NaN counts as
/// impossible, and equal logits go to the smaller id. Memory is reused from call to call.
class Sampler {
 public:
  Sampler(const SamplingParams& params, std::uint64_t seed);

  /// `logits` [vocabSize] are overwritten. `history` are all tokens of the sequence so far.
  /// `nTop` > 0 also returns that many alternatives; `wantLogprob` false skips the softmax.
  /// Requires: at least one logit.
  SampledToken sample(std::span<float> logits, std::span<const TokenId> history, int nTop = 0,
                      bool wantLogprob = false);
  /// How many of the best tokens sampleBest() needs in place of a whole row of `vocabSize` logits;
  /// 0: it takes the whole row (penalties, probabilities, no bound on the candidates).
  int candidatesNeeded(int vocabSize, bool wantsLogprobs) const;
  /// The same draw from the best tokens alone, best first, ties by id. Requires: at least one, and
  /// as many as candidatesNeeded() says.
  TokenId sampleBest(std::span<const TokenLogit> best);
  std::uint64_t seed() const { return m_seed; }

 private:
  void penalize(std::span<float> logits, std::span<const TokenId> history);
  bool takesBest() const;
  bool hasPenalty() const;
  float lowestLogit(float best) const;
  TokenId draw(std::span<const float> logits, float best);
  TokenId drawCandidate(float best);
  TokenId drawFromAll(std::span<const float> logits, float best);
  void keepTopK(std::span<const float> logits, std::size_t k);
  void cutToTopP();
  void keepAbove(std::span<const float> logits, float lowest);
  void keepTopP(std::span<const float> logits, float best, float lowest);
  double nextUniform();

  SamplingParams m_params;
  std::uint64_t m_seed;
  std::uint64_t m_state;
  std::vector<TokenProbability> m_candidates;  // logits of those that may be drawn
  std::vector<TokenId> m_recent;               // the penalty window, sorted
  std::vector<TokenProbability> m_original;    // logits of that window before the penalties
};

}  // namespace vitrine::engine

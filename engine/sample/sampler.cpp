#include "engine/sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace vitrine::engine {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// The order of all lists here: likelier first, then the smaller id, so that ties never depend on
// how a list was made.
bool isBetter(const TokenProbability& a, const TokenProbability& b) {
  return a.logprob > b.logprob || (a.logprob == b.logprob && a.id < b.id);
}

// NaN becomes impossible and +inf the largest number, so that sums and comparisons hold.
// Returns the largest logit.
float sanitize(std::span<float> logits) {
  float best = kImpossible;
  for (float& logit : logits) {
    logit = logit == logit ? std::min(logit, kLargest) : kImpossible;
    best = std::max(best, logit);
  }
  return best;
}

TokenId indexOf(std::span<const float> logits, float best) {
  return static_cast<TokenId>(std::find(logits.begin(), logits.end(), best) - logits.begin());
}

double sumOfExp(std::span<const float> logits, float best) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - best);
  return sum;
}

// The `k` largest logits into `out`, unordered. One pass; the heap's front is the worst kept.
void selectLargest(std::span<const float> logits, std::size_t k,
                   std::vector<TokenProbability>& out) {
  out.clear();
  out.reserve(k);
  float worst = kImpossible;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (logit <= worst) continue;  // ids rise, so an equal one is not better
    if (out.size() == k) {
      std::pop_heap(out.begin(), out.end(), isBetter);
      out.back() = {static_cast<TokenId>(i), logit};
    } else {
      out.push_back({static_cast<TokenId>(i), logit});
    }
    std::push_heap(out.begin(), out.end(), isBetter);
    if (out.size() == k) worst = out.front().logprob;
  }
}

Result<void> checkRange(std::string_view name, float value, float low, float high) {
  if (value >= low && value <= high) return {};  // false for NaN
  return fail(ErrorCode::kInvalidArgument, "{} must be between {} and {}; it is {}", name, low,
              high, value);
}

}  // namespace

Result<void> SamplingParams::validate() const {
  VITRINE_TRY(checkRange("temperature", temperature, 0, 100));
  if (topK < -1) {
    return fail(ErrorCode::kInvalidArgument,
                "top_k must be -1 or 0 (no filter) or a number of tokens; it is {}", topK);
  }
  VITRINE_TRY(checkRange("top_p", topP, 0, 1));
  VITRINE_TRY(checkRange("min_p", minP, 0, 1));
  if (!(repeatPenalty > 0 && repeatPenalty <= 100)) {
    return fail(ErrorCode::kInvalidArgument,
                "repeat_penalty must be above 0 and at most 100; it is {}", repeatPenalty);
  }
  VITRINE_TRY(checkRange("presence_penalty", presencePenalty, -2, 2));
  VITRINE_TRY(checkRange("frequency_penalty", frequencyPenalty, -2, 2));
  if (penaltyWindow < -1) {
    return fail(ErrorCode::kInvalidArgument,
                "the penalty window must be -1 (all tokens) or a number of tokens; it is {}",
                penaltyWindow);
  }
  return {};
}

Sampler::Sampler(const SamplingParams& params, std::uint64_t seed)
    : m_params(params), m_seed(seed), m_state(seed) {}

SampledToken Sampler::sample(std::span<float> logits, std::span<const TokenId> history, int nTop,
                             bool wantLogprob) {
  SampledToken result;
  float best = sanitize(logits);
  if (best == kImpossible) {
    // The model said nothing about any token; every id is as good.
    result.logprob = -std::log(static_cast<float>(logits.size()));
    return result;
  }

  // The model's own distribution, before the penalties change it: log p = logit - logSum.
  double logSum = 0;
  const bool needsSoftmax = wantLogprob || nTop > 0;
  if (needsSoftmax) {
    logSum = best + std::log(sumOfExp(logits, best));
    if (nTop > 0) {
      selectLargest(logits, std::min<std::size_t>(nTop, logits.size()), result.top);
      std::sort(result.top.begin(), result.top.end(), isBetter);
      for (auto& token : result.top) token.logprob = static_cast<float>(token.logprob - logSum);
    }
  }

  if (!hasPenalty()) {
    result.id = draw(logits, best);
    if (needsSoftmax) result.logprob = static_cast<float>(logits[result.id] - logSum);
    return result;
  }
  // The unpenalized logit of the token drawn is needed afterwards; only tokens of the window
  // change, so their values are kept beside them.
  penalize(logits, history);
  best = *std::max_element(logits.begin(), logits.end());
  result.id = draw(logits, best);
  if (needsSoftmax) {
    const auto changed = std::find_if(m_original.begin(), m_original.end(),
                                      [&](const auto& entry) { return entry.id == result.id; });
    const float logit = changed != m_original.end() ? changed->logprob : logits[result.id];
    result.logprob = static_cast<float>(logit - logSum);
  }
  return result;
}

// As llama.cpp: repetition divides (or multiplies, below zero) once; presence subtracts once;
// frequency subtracts for each occurrence.
void Sampler::penalize(std::span<float> logits, std::span<const TokenId> history) {
  const std::size_t window = m_params.penaltyWindow < 0
                                 ? history.size()
                                 : std::min<std::size_t>(history.size(), m_params.penaltyWindow);
  const auto recent = history.last(window);
  m_recent.assign(recent.begin(), recent.end());
  std::sort(m_recent.begin(), m_recent.end());
  m_original.clear();
  for (std::size_t i = 0; i < m_recent.size();) {
    const TokenId id = m_recent[i];
    std::size_t end = i;
    while (end < m_recent.size() && m_recent[end] == id) ++end;
    const auto count = static_cast<float>(end - i);
    i = end;
    if (id < 0 || static_cast<std::size_t>(id) >= logits.size()) continue;
    float& logit = logits[id];
    m_original.push_back({id, logit});
    if (logit == kImpossible) continue;
    logit = logit <= 0 ? logit * m_params.repeatPenalty : logit / m_params.repeatPenalty;
    logit -= count * m_params.frequencyPenalty + m_params.presencePenalty;
    logit = std::clamp(logit, -kLargest, kLargest);
  }
}

bool Sampler::hasPenalty() const {
  return m_params.repeatPenalty != 1.0F || m_params.presencePenalty != 0.0F ||
         m_params.frequencyPenalty != 0.0F;
}

bool Sampler::takesBest() const {
  return m_params.temperature <= 0 || m_params.topK == 1 || m_params.topP <= 0 ||
         m_params.minP >= 1;
}

// min-p compares probabilities with the best one's, so it is a bound on logits and may run before
// top-p as long as top-p counts the mass of what min-p removed.
float Sampler::lowestLogit(float best) const {
  return m_params.minP > 0 ? best + std::log(m_params.minP) : kImpossible;
}

int Sampler::candidatesNeeded(int vocabSize, bool wantsLogprobs) const {
  if (wantsLogprobs || hasPenalty()) return 0;
  if (takesBest()) return 1;
  return m_params.topK > 0 && m_params.topK < vocabSize ? m_params.topK : 0;
}

TokenId Sampler::sampleBest(std::span<const TokenLogit> best) {
  m_candidates.clear();
  for (const TokenLogit& token : best) {
    const float logit = std::min(token.logit, kLargest);
    if (logit > kImpossible) m_candidates.push_back({token.id, logit});
  }
  if (m_candidates.empty()) return 0;  // as sample(): nothing was said about any token
  if (takesBest()) return m_candidates.front().id;
  const float top = m_candidates.front().logprob;
  cutToTopP();
  const float lowest = lowestLogit(top);
  while (m_candidates.size() > 1 && m_candidates.back().logprob < lowest) m_candidates.pop_back();
  return drawCandidate(top);
}

TokenId Sampler::draw(std::span<const float> logits, float best) {
  if (takesBest()) return indexOf(logits, best);
  const float lowest = lowestLogit(best);
  const bool hasTopK = m_params.topK > 0 && static_cast<std::size_t>(m_params.topK) < logits.size();
  if (hasTopK) {
    keepTopK(logits, m_params.topK);
  } else if (m_params.topP < 1) {
    keepTopP(logits, best, lowest);
  } else if (m_params.minP > 0) {
    keepAbove(logits, lowest);
  } else {
    return drawFromAll(logits, best);
  }
  while (m_candidates.size() > 1 && m_candidates.back().logprob < lowest) m_candidates.pop_back();
  return drawCandidate(best);
}

TokenId Sampler::drawCandidate(float best) {
  double total = 0;
  for (auto& candidate : m_candidates) {
    candidate.logprob = std::exp((candidate.logprob - best) / m_params.temperature);
    total += candidate.logprob;
  }
  double rest = nextUniform() * total;
  for (const auto& candidate : m_candidates) {
    rest -= candidate.logprob;
    if (rest < 0) return candidate.id;
  }
  return m_candidates.front().id;  // rounding used the total up
}

TokenId Sampler::drawFromAll(std::span<const float> logits, float best) {
  double total = 0;
  for (const float logit : logits) total += std::exp((logit - best) / m_params.temperature);
  double rest = nextUniform() * total;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    rest -= std::exp((logits[i] - best) / m_params.temperature);
    if (rest < 0) return static_cast<TokenId>(i);
  }
  return indexOf(logits, best);
}

void Sampler::keepTopK(std::span<const float> logits, std::size_t k) {
  selectLargest(logits, k, m_candidates);
  std::sort(m_candidates.begin(), m_candidates.end(), isBetter);
  cutToTopP();
}

void Sampler::cutToTopP() {
  if (m_params.topP >= 1) return;
  const float best = m_candidates.front().logprob;
  double total = 0;
  for (const auto& candidate : m_candidates) total += std::exp(candidate.logprob - best);
  double mass = 0;
  for (std::size_t i = 0; i < m_candidates.size(); ++i) {
    mass += std::exp(m_candidates[i].logprob - best);
    if (mass >= m_params.topP * total) {
      m_candidates.resize(i + 1);
      return;
    }
  }
}

void Sampler::keepAbove(std::span<const float> logits, float lowest) {
  m_candidates.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= lowest) m_candidates.push_back({static_cast<TokenId>(i), logits[i]});
  }
  std::sort(m_candidates.begin(), m_candidates.end(), isBetter);
}

// The likeliest tokens whose probabilities reach top-p. Most of the vocabulary is never sorted: the
// best 64 usually suffice, else four times as many are selected again. What lies below `lowest` is
// dropped later, so its order does not matter.
void Sampler::keepTopP(std::span<const float> logits, float best, float lowest) {
  const double wanted = m_params.topP * sumOfExp(logits, best);
  for (std::size_t k = 64;; k *= 4) {
    k = std::min(k, logits.size());
    selectLargest(logits, k, m_candidates);
    std::sort(m_candidates.begin(), m_candidates.end(), isBetter);
    double mass = 0;
    for (std::size_t i = 0; i < m_candidates.size(); ++i) {
      mass += std::exp(m_candidates[i].logprob - best);
      if (mass >= wanted) {
        m_candidates.resize(i + 1);
        return;
      }
    }
    if (m_candidates.size() < k || k == logits.size()) return;
    if (m_candidates.back().logprob < lowest) return;
  }
}

// SplitMix64 (Steele, Lea, Flood 2014): one word of state, the same numbers on every machine.
double Sampler::nextUniform() {
  m_state += 0x9E3779B97F4A7C15U;
  std::uint64_t z = m_state;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  z ^= z >> 31U;
  return static_cast<double>(z >> 11U) * 0x1.0p-53;
}

}  // namespace vitrine::engine

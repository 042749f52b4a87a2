#include "engine/measure/distribution.h"

#include <algorithm>
#include <cmath>

namespace vitrine::engine {

double logSumExp(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

TokenId bestToken(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<TokenProbability> topTokens(std::span<const float> logits, int count) {
  const double norm = logSumExp(logits);
  std::vector<TokenId> ids(logits.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i);
  const auto kept = std::min(ids.size(), static_cast<std::size_t>(std::max(count, 0)));
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kept), ids.end(),
      [&](TokenId a, TokenId b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  std::vector<TokenProbability> top;
  for (std::size_t i = 0; i < kept; ++i) {
    top.push_back({ids[i], static_cast<float>(logits[ids[i]] - norm)});
  }
  return top;
}

RowComparison compareRows(std::span<const float> reference, std::span<const float> other) {
  const double referenceNorm = logSumExp(reference);
  const double otherNorm = logSumExp(other);
  double divergence = 0.0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double logp = reference[i] - referenceNorm;
    if (logp < -60.0) continue;  // a share below 1e-26: no double sum of nats can see it
    divergence += std::exp(logp) * (logp - (other[i] - otherNorm));
  }
  return {std::max(divergence, 0.0), bestToken(reference) == bestToken(other)};
}

}  // namespace vitrine::engine

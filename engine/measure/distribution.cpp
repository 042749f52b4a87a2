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
  const auto best = std::max_element(reference.begin(), reference.end());
  const double largest = *best;
  double sum = 0.0, weighted = 0.0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double share = std::exp(reference[i] - largest);
    sum += share;
    weighted += share * (static_cast<double>(reference[i]) - other[i]);
  }
  RowComparison row;
  row.referenceNorm = largest + std::log(sum);
  row.otherNorm = logSumExp(other);
  // Σ p (log p − log q), where log p − log q is the logits' difference less that of the norms.
  row.divergence = std::max(weighted / sum - (row.referenceNorm - row.otherNorm), 0.0);
  row.sameBest = best - reference.begin() == bestToken(other);
  return row;
}

}  // namespace vitrine::engine

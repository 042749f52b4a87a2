#include "engine/base/percentile.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vitrine::engine {

double nearestRank(std::vector<float> values, double share) {
  if (values.empty()) return 0.0;
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank),
                   values.end());
  return values[rank];
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

double median(std::vector<double> values) {
  return percentile(std::move(values), 0.5);
}

}  // namespace vitrine::engine

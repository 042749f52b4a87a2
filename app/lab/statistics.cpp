#include "app/lab/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace vitrine::app::lab {

double Spread::relativeRange() const {
  return median != 0.0 ? (max - min) / std::abs(median) : 0.0;
}

Spread spreadOf(const std::vector<double>& values) {
  Spread spread;
  if (values.empty()) return spread;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  spread.median = median(values);
  spread.min = *least;
  spread.max = *most;
  spread.repeats = static_cast<int>(values.size());
  return spread;
}

double medianUncertainty(const std::vector<double>& values) {
  if (values.size() < 3) return 1.0;
  const double middle = median(values);
  if (middle == 0.0) return 0.0;
  const double quartiles = percentile(values, 0.75) - percentile(values, 0.25);
  return quartiles / 2 / std::abs(middle) / std::sqrt(static_cast<double>(values.size()));
}

Fit fitPolynomial(std::span<const double> x, std::span<const double> y, int degree) {
  const auto n = static_cast<std::size_t>(degree) + 1;
  if (x.size() <= n) return {};
  // Scaled to t = (x − middle) / half, so that the normal equations stay well conditioned.
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  const double middle = (*least + *most) / 2;
  const double half = std::max((*most - *least) / 2, 1e-12);
  std::array<std::array<double, 4>, 3> system{};  // [A | b]
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double t = (x[i] - middle) / half;
    const std::array<double, 3> powers{1.0, t, t * t};
    for (std::size_t row = 0; row < n; ++row) {
      for (std::size_t column = 0; column < n; ++column) {
        system[row][column] += powers[row] * powers[column];
      }
      system[row][3] += powers[row] * y[i];
    }
  }
  for (std::size_t pivot = 0; pivot < n; ++pivot) {
    std::size_t best = pivot;
    for (std::size_t row = pivot + 1; row < n; ++row) {
      if (std::abs(system[row][pivot]) > std::abs(system[best][pivot])) best = row;
    }
    std::swap(system[pivot], system[best]);
    if (std::abs(system[pivot][pivot]) < 1e-12) return {};  // all x are the same
    for (std::size_t row = 0; row < n; ++row) {
      if (row == pivot) continue;
      const double factor = system[row][pivot] / system[pivot][pivot];
      for (std::size_t column = 0; column < 4; ++column) {
        system[row][column] -= factor * system[pivot][column];
      }
    }
  }
  std::array<double, 3> scaled{};
  for (std::size_t i = 0; i < n; ++i) scaled[i] = system[i][3] / system[i][i];

  const double mean = std::accumulate(y.begin(), y.end(), 0.0) / static_cast<double>(y.size());
  double residual = 0, total = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double t = (x[i] - middle) / half;
    const double error = y[i] - (scaled[0] + scaled[1] * t + scaled[2] * t * t);
    residual += error * error;
    total += (y[i] - mean) * (y[i] - mean);
  }
  Fit fit;
  fit.rSquared = total > 0 ? 1 - residual / total : 1;
  // Back to x: t = x/half − middle/half.
  const double a = 1 / half, b = -middle / half;
  fit.coefficients = {scaled[0] + scaled[1] * b + scaled[2] * b * b,
                      scaled[1] * a + 2 * scaled[2] * a * b};
  if (degree == 2) fit.coefficients.push_back(scaled[2] * a * a);
  return fit;
}

int kneeOf(std::span<const double> x, std::span<const double> y) {
  if (x.size() < 3 || x.size() != y.size()) return -1;
  const double width = x.back() - x.front(), height = y.back() - y.front();
  if (width <= 0 || height <= 0) {
    // It falls at the end: the highest point is where more stops helping.
    const auto top = std::max_element(y.begin(), y.end()) - y.begin();
    return top > 0 ? static_cast<int>(top) : -1;
  }
  int knee = -1;
  double largest = 1e-9;
  for (std::size_t i = 1; i + 1 < x.size(); ++i) {
    const double above = (y[i] - y.front()) / height - (x[i] - x.front()) / width;
    if (above > largest) {
      largest = above;
      knee = static_cast<int>(i);
    }
  }
  return knee;
}

}  // namespace vitrine::app::lab

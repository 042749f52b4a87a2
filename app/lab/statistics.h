#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/base/percentile.h"

// What the lab makes of repeated measurements. Plain functions without state.

namespace vitrine::app::lab {

using engine::median;
using engine::percentile;

/// A measured value and how far its repeats lie apart.
struct Spread {
  double median = 0, min = 0, max = 0;
  int repeats = 0;

  /// (max − min) / median; 0 where nothing was measured.
  double relativeRange() const;
};
Spread spreadOf(const std::vector<double>& values);

/// Half the width of the distance between the quartiles over the median, divided by √n: how far the
/// median itself is likely to move in another series. 1 for fewer than three values.
double medianUncertainty(const std::vector<double>& values);

/// y ≈ c0 + c1·x (+ c2·x²) by least squares, and the share of the variance that it explains.
struct Fit {
  std::vector<double> coefficients;  ///< c0, c1, …; empty: too few points
  double rSquared = 0;
};
/// Requires: as many x as y, degree 1 or 2. The x are scaled to [−1, 1] while solving.
Fit fitPolynomial(std::span<const double> x, std::span<const double> y, int degree);

/// Index of the point where a curve that rises and flattens bends: the largest distance above the
/// chord between its ends, both axes scaled to [0, 1] (Kneedle: Satopää et al. 2011, without its
/// smoothing; the curves here have five points). −1: no point lies above the chord.
int kneeOf(std::span<const double> x, std::span<const double> y);

}  // namespace vitrine::app::lab

#pragma once

#include <cstdint>
#include <span>

namespace vitrine::engine {

/// Looks at the rows of a running model. Called by the backend's threads while forward() runs;
/// calls with one `thread` index do not overlap. Must not change or keep the rows.
class ActivationObserver {
 public:
  virtual ~ActivationObserver() = default;
  /// A row that enters the matrix products of a site (sites.h), before any rounding. Each row of a
  /// batch once.
  virtual void row(int site, std::span<const float> values, int thread) = 0;
  /// The keys of one position [kvDim] as they are cached: after the rotation, before rounding.
  virtual void keys(int layer, std::span<const float> values, int thread) = 0;
};

/// What went through one site under static scales.
struct SiteUse {
  int site = 0;
  std::uint64_t values = 0;
  std::uint64_t clipped = 0;  ///< |x| beyond the limit
  float largest = 0.0F;       ///< |x|
  float limit = 0.0F;         ///< 127 times the scale
};

}  // namespace vitrine::engine

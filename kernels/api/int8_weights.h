#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/api/half.h"

// How weights become INT8. A group of a row has a scale that is stored in FP16, so that it costs 2
// bytes and not 4: first the scale is rounded up to what is stored (then ±127 is never exceeded),
// and the values are divided by that. What FP16 cannot hold of the scales of a whole matrix is one
// power of two, `outputScale`:
//     W[o, i] ≈ outputScale · scales[o, group of i] · q[o, i]
// Every backend packs with these functions, so that all run with the same weights.

namespace vitrine::kernels {

/// Where a matrix starts from. Scales of trained weights are about 2^-12 to 2^-7.
inline constexpr float kUsualOutputScale = 0x1p-12F;

struct Int8Scale {
  std::uint16_t stored = 0;  ///< FP16
  float value = 0.0F;        ///< stored · outputScale
};

/// The smallest FP16 number that is at least s (s ≥ 0, at most 65504).
inline std::uint16_t halfAtLeast(float s) {
  const std::uint16_t h = floatToHalf(s);
  return halfToFloat(h) < s ? static_cast<std::uint16_t>(h + 1) : h;
}

/// The scale of a group x [n]. `largest` grows to the largest scale seen, outputScale included.
inline Int8Scale int8WeightScale(const float* x, int n, float outputScale, float& largest) {
  float amax = 0.0F;
  for (int i = 0; i < n; ++i) amax = std::max(amax, std::fabs(x[i]));
  const float scale = amax / 127.0F;
  largest = std::max(largest, scale);
  const std::uint16_t stored = halfAtLeast(std::min(scale / outputScale, 65504.0F));
  return {stored, halfToFloat(stored) * outputScale};
}

/// One value with its group's Int8Scale::value, −127 … 127.
inline int int8Weight(float x, float scale) {
  const float v = scale > 0.0F ? std::nearbyint(x / scale) : 0.0F;
  return static_cast<int>(std::clamp(v, -127.0F, 127.0F));
}

/// Whether scales stored as scale / outputScale lie well inside FP16.
inline bool int8ScalesFit(float largestScale, float outputScale) {
  const float stored = largestScale / outputScale;
  return largestScale == 0.0F || (stored > 0x1p-6F && stored < 65504.0F);
}

/// The outputScale that makes scales up to `largestScale` fit FP16 well.
inline float outputScaleFor(float largestScale) {
  if (!(largestScale > 0.0F) || !std::isfinite(largestScale)) return kUsualOutputScale;
  return std::ldexp(1.0F, std::clamp(std::ilogb(largestScale) - 8, -126, 126));
}

}  // namespace vitrine::kernels

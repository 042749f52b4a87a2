#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/api/half.h"
#include "kernels/api/tensor_type.h"

// How weights become INT8. A group of a row, a row (per channel) or a matrix (per tensor) has a
// scale that is stored in FP16, so that it costs 2 bytes and not 4: first the scale is rounded up
// to what is stored (then ±127 is never exceeded), and the values are divided by that. What FP16
// cannot hold of the scales of a whole matrix is one power of two, `outputScale`:
//     W[o, i] ≈ outputScale · scales[o, group of i] · q[o, i]
// One scale a matrix is kept as the same scale in every row, so that kernels know rows and groups
// only.
// Every backend packs with these functions, so that all run with the same weights. A matrix starts
// from kUsualOutputScale; where int8ScalesFit() says no to the largest scale that was seen, it is
// packed once more with outputScaleFor(). The values are those after kernels/api/weight_change.h.

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

/// max |x_i| of n values: of a group, a row, or row by row of a matrix.
inline float largestMagnitude(const float* x, int n) {
  float amax = 0.0F;
  for (int i = 0; i < n; ++i) amax = std::max(amax, std::fabs(x[i]));
  return amax;
}

/// The scale of values up to `amax`. `largest` grows to the largest scale seen, outputScale
/// included.
inline Int8Scale int8ScaleOf(float amax, float outputScale, float& largest) {
  const float scale = amax / 127.0F;
  largest = std::max(largest, scale);
  const std::uint16_t stored = halfAtLeast(std::min(scale / outputScale, 65504.0F));
  return {stored, halfToFloat(stored) * outputScale};
}

/// The scale of a group or row x [n].
inline Int8Scale int8WeightScale(const float* x, int n, float outputScale, float& largest) {
  return int8ScaleOf(largestMagnitude(x, n), outputScale, largest);
}

/// One value with its group's Int8Scale::value, −127 … 127.
inline int int8Weight(float x, float scale) {
  const float v = scale > 0.0F ? std::nearbyint(x / scale) : 0.0F;
  return static_cast<int>(std::clamp(v, -127.0F, 127.0F));
}

/// Whether a matrix keeps the integers and scales that its file has (outputScale is 1 then).
/// `changed`: WeightChange::any().
constexpr bool keepsFileInt8(TensorType file, bool groupsOf32, bool changed) {
  return file == TensorType::kQ8_0 && groupsOf32 && !changed;
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

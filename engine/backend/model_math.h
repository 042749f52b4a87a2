#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "engine/model/model_config.h"

// Constants of a model that more than one backend derives from its config.

namespace vitrine::engine {

/// Radians that a position turns each pair of a head (kernels/api/rope.h): [rope.dims / 2], linear
/// scaling and frequency factors included.
inline std::vector<double> ropeFrequencies(const RopeConfig& rope) {
  std::vector<double> frequencies(static_cast<std::size_t>(rope.dims / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    double f = std::pow(static_cast<double>(rope.base), -2.0 * static_cast<double>(i) / rope.dims);
    if (i < rope.freqFactors.size()) f /= rope.freqFactors[i];
    frequencies[i] = f / rope.linearScale;
  }
  return frequencies;
}

/// What scores are multiplied by: the architecture's own factor, or 1/sqrt(headDim).
inline float attentionScale(const ModelConfig& config) {
  return config.attentionScale != 0.0F ? config.attentionScale
                                       : 1.0F / std::sqrt(static_cast<float>(config.headDim));
}

}  // namespace vitrine::engine

#pragma once

#include <vector>

namespace vitrine::ui {

/// What quantizing did to the small values of the example.
struct DemoWay {
  std::vector<float> restored;  ///< every value after quantizing and back
  double step = 0.0;            ///< distance of two INT8 levels; of groups: the usual one
  double largestStep = 0.0;     ///< of groups: the worst one
  double error = 0.0;           ///< root of the mean squared error of the small values
  double relativeError = 0.0;   ///< the same as a share of their own root mean square
  int levels = 0;               ///< different INT8 values that the small values take, at most 255
};

/// The example: many values in [−1, 1] and a handful that are much larger.
struct OutlierDemo {
  std::vector<float> values;
  std::vector<int> outliers;  ///< indices, ascending
  DemoWay oneScale;           ///< one scale for all, from the largest
  DemoWay percentile;         ///< one scale, the outliers clipped
  DemoWay groups;             ///< a scale of its own for each 32 neighbours
  DemoWay apart;              ///< one scale for the small ones, the outliers kept aside
};

inline constexpr int kDemoValues = 512;
inline constexpr int kDemoGroup = 32;

/// The same values at every call; the outliers are ±`size`. Quantized by kernels/api/quantize.h, as
/// activations and caches are.
OutlierDemo makeOutlierDemo(float size);

}  // namespace vitrine::ui

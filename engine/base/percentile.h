#pragma once

#include <vector>

namespace vitrine::engine {

/// The value that stands at `share` (0 to 1) of the sorted ones: one that really occurred. 0 for no
/// values. For the latencies of tokens.
double nearestRank(std::vector<float> values, double share);

/// Linear interpolation between the two nearest of the sorted values (type 7 of Hyndman & Fan
/// 1996). 0 for no values. For repeats of a measurement, of which there are few.
double percentile(std::vector<double> values, double share);
double median(std::vector<double> values);

}  // namespace vitrine::engine

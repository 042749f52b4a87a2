#include "engine/quant/precision_text.h"

#include <spdlog/fmt/fmt.h>

namespace vitrine::engine {

std::string precisionDetails(const WeightPrecision& p) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    if (!text.empty()) text += ", ";
    text += part;
  };
  if (p.weights == WeightMode::kInt8) {
    add(p.weightScales == WeightScales::kGroup ? fmt::format("groups of {}", p.groupSize)
                                               : fmt::format("per {}", nameOf(p.weightScales)));
    if (p.activations == ActivationMode::kInt8) {
      if (p.activationScales == ActivationScales::kStatic) add("static scales");
      if (p.outliers == OutlierMode::kMixed) {
        add(fmt::format("outlier columns in FP16 from {} times the median", p.outlierThreshold));
      }
      if (p.outliers == OutlierMode::kSmooth) add(fmt::format("smoothing {}", p.smoothing));
    }
    if (!p.keep.empty()) add(fmt::format("{} in FP16", p.keep.text()));
  }
  if (p.keyScales == KeyScales::kChannel) add("keys per channel");
  return text;
}

}  // namespace vitrine::engine

#include "engine/backend/precision.h"

#include <spdlog/fmt/fmt.h>

#include "engine/quant/calibration_profile.h"

namespace vitrine::engine {

const char* nameOf(WeightScales scales) {
  switch (scales) {
    case WeightScales::kGroup:
      return "group";
    case WeightScales::kChannel:
      return "channel";
    case WeightScales::kTensor:
      return "tensor";
  }
  return "?";
}

const char* nameOf(ActivationScales scales) {
  return scales == ActivationScales::kStatic ? "static" : "dynamic";
}

const char* nameOf(OutlierMode mode) {
  switch (mode) {
    case OutlierMode::kNone:
      return "none";
    case OutlierMode::kMixed:
      return "mixed";
    case OutlierMode::kSmooth:
      return "smooth";
  }
  return "?";
}

const char* nameOf(KeyScales scales) {
  return scales == KeyScales::kChannel ? "channel" : "token";
}

std::string precisionKey(const WeightPrecision& p) {
  std::string key = fmt::format("weights {}", nameOf(p.weights));
  if (p.weights == WeightMode::kInt8) {
    key += fmt::format(" per {}", nameOf(p.weightScales));
    if (p.weightScales == WeightScales::kGroup) key += fmt::format(" {}", p.groupSize);
    if (!p.keep.empty()) key += fmt::format(" keep {}", p.keep.text());
  }
  key += fmt::format(" activations {}", nameOf(p.activations));
  if (p.activations == ActivationMode::kInt8) {
    key += fmt::format(" {}", nameOf(p.activationScales));
    if (p.outliers == OutlierMode::kMixed) key += fmt::format(" mixed {}", p.outlierThreshold);
    if (p.outliers == OutlierMode::kSmooth) key += fmt::format(" smooth {}", p.smoothing);
  }
  if (p.keyScales == KeyScales::kChannel) key += " keys per channel root";
  if (p.needsCalibration() && p.calibration) key += fmt::format(" profile {}", p.calibration->id);
  return key;
}

bool WeightPrecision::operator==(const WeightPrecision& other) const {
  return precisionKey(*this) == precisionKey(other);
}

}  // namespace vitrine::engine

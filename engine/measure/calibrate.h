#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/quant/calibration_profile.h"

namespace vitrine::engine {

struct CalibrationText {
  std::string name;  ///< for CalibrationProfile::sources
  std::vector<TokenId> tokens;
};

struct CalibrationOptions {
  std::string name;  ///< of the profile
  ScaleMethod method = ScaleMethod::kMax;
  double percentile = 99.99;
  int context = 512;  ///< tokens of a window, each computed from an empty cache
  int chunk = 128;
};

/// Runs texts through a model and notes the ranges of its activations. `backend` holds the weights
/// without INT8 activations, smoothing and keys per channel (their ranges would be other ones); its
/// cache is configured (and so emptied). Where the model wants a bos, each window begins with it.
/// Ends in kInvalidArgument where there is nothing to read, in what the backend reports, or in
/// kCancelled.
Result<CalibrationPtr> calibrate(Backend& backend, const Model& model,
                                 std::span<const CalibrationText> texts,
                                 const CalibrationOptions& options, const Progress& progress = {},
                                 std::stop_token stop = {});

}  // namespace vitrine::engine

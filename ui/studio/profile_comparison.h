#pragma once

#include <vector>

#include "engine/quant/calibration_profile.h"

namespace vitrine::ui {

/// One site's scale against what another text brought there.
struct SiteMismatch {
  int site = 0;
  float limit = 0.0F;         ///< what the profile's scale holds
  float largest = 0.0F;       ///< |x| of the other text
  float otherLimit = 0.0F;    ///< what the other profile's own scale would hold
  double clippedShare = 0.0;  ///< of the other text's values, beyond `limit`
  double unusedRange = 0.0;   ///< of the scale: 1 − largest / limit; 0 where it is all used

  /// How many times further apart the two limits are, at least 1.
  double ratio() const;
};

/// What the scales of a profile would do to the text of another, all sites: those that clip most
/// first, then those whose scales differ most.
/// Requires: both of models with the same number of layers (else nothing is compared).
std::vector<SiteMismatch> compareProfiles(const engine::CalibrationProfile& scales,
                                          const engine::CalibrationProfile& text);

/// A site's scale under each of the methods, against the values it was taken from.
struct ScaleFigures {
  engine::ScaleMethod method = engine::ScaleMethod::kMax;
  float limit = 0.0F, step = 0.0F;
  double clippedShare = 0.0;
  double zeroShare = 0.0;  ///< values under half a step, which become 0
  double unusedRange = 0.0;
};
std::vector<ScaleFigures> scaleFigures(const engine::SiteStatistics& site, double percentile);

}  // namespace vitrine::ui

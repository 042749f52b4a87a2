#pragma once

#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/quant/activation_observer.h"
#include "engine/quant/calibration_profile.h"

namespace vitrine::app::studio {

/// A layer's input whose live values left the range that a profile was calibrated for.
struct RangeFinding {
  int site = 0;
  int layer = 0;                 ///< −1: the output
  double clippedShare = 0;       ///< of the values of the last tokens
  double calibratedShare = 0;    ///< of the profile's own text
  float largest = 0, limit = 0;  ///< |x|
  int tokens = 0;                ///< that this was seen over
};

/// What a profile clips of its own text: what its method gives up on purpose.
double calibratedShare(const engine::SiteStatistics& site, engine::ScaleMethod method,
                       double percentile);

/// Whether values that went through a site are no longer those that were calibrated: `tokens` rows
/// had `use.clipped` of `use.values` beyond the limit, and the profile `calibrated` of its values.
///
/// New text of the calibrated kind also goes beyond, a little: the largest of more draws is larger.
/// On SmolLM2-135M it was at most 6e-5 of a site's values with scales by maximum (mean 1e-6), and
/// at most 2.7 times the calibrated share with percentile 99.99. English under a profile of code
/// reached 1e-4 at 11 of 121 sites, under one of Chinese at 38. So it takes a share of more than
/// kTimes what was calibrated and more than kFloor, over kLeastTokens tokens, and kLeastClipped
/// values, so that a few odd ones do not count.
bool leavesRange(const engine::SiteUse& use, int tokens, double calibrated);

inline constexpr int kLeastTokens = 32;
inline constexpr std::uint64_t kLeastClipped = 8;
inline constexpr double kTimes = 4.0;
inline constexpr double kFloor = 1e-4;

/// Watches the counts of a running model for layers that leave their calibrated range; each is told
/// once a profile and layer. Looks at the latest tokens only, so that a change of subject shows
/// after thousands that fitted.
class RangeWatch final {
 public:
  /// Counts since static scales are in force; growing, from 0 again after a switch. The findings
  /// that are new; the first look at a profile is where counting begins. `profile`: the one in
  /// force.
  std::vector<RangeFinding> look(std::span<const engine::SiteUse> use,
                                 const engine::CalibrationProfile& profile);

 private:
  struct Site {
    std::uint64_t values = 0, clipped = 0;  // where its window began
    double calibrated = 0;
  };
  bool isOfBefore(std::span<const engine::SiteUse> use) const;

  std::string m_profile;
  std::vector<engine::SiteUse> m_last;
  std::vector<Site> m_sites;
  std::set<std::pair<std::string, int>> m_told;
};

}  // namespace vitrine::app::studio

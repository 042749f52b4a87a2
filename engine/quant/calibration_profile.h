#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/model/model_config.h"
#include "engine/quant/magnitude_histogram.h"
#include "engine/quant/sites.h"

namespace vitrine::engine {

/// How a static scale is taken from what was seen.
enum class ScaleMethod : std::uint8_t {
  kMax,         ///< the largest magnitude: nothing seen is clipped
  kPercentile,  ///< a percentile of the magnitudes: rare large ones are clipped
  kMse,         ///< the scale with the least squared error of rounding and clipping together
};
const char* nameOf(ScaleMethod method);  // "max", "percentile", "mse"

/// What was seen at one site.
struct SiteStatistics {
  std::vector<float> channelMax;  ///< [width] largest |x| of each column
  MagnitudeHistogram histogram;   ///< of all columns together
  double sumOfSquares = 0;

  float absMax() const;
};

/// Ranges of a model's activations over some text; immutable once made. Everything that depends on
/// calibration (static scales, smoothing, outlier columns, per-channel keys) is derived from it.
struct CalibrationProfile {
  std::string id;    ///< of its contents; equal ids, equal profiles
  std::string name;  ///< for people
  std::string modelFingerprint, modelName;
  int kvHeads = 0;                   ///< that the model ran with
  std::vector<std::string> sources;  ///< "bundled: english", a file's name, a conversation's title
  std::int64_t tokens = 0;
  ScaleMethod method = ScaleMethod::kMax;
  double percentile = 99.99;               ///< for kPercentile, percent
  std::string created;                     ///< ISO 8601, UTC
  std::vector<SiteStatistics> sites;       // [siteCount(nLayers)]
  std::vector<std::vector<float>> keyMax;  // [nLayers][kvDim] largest |k| after the rotation

  int nLayers() const { return static_cast<int>(keyMax.size()); }
};
using CalibrationPtr = std::shared_ptr<const CalibrationProfile>;

/// The largest magnitude that INT8 holds without clipping at a site (127 scales), by a method.
float staticLimit(const SiteStatistics& site, ScaleMethod method, double percentile);
/// Columns of a site whose largest magnitude is at least `threshold` times the median column's,
/// ascending; never more than an eighth of all (the largest), since the rest would hardly be INT8.
std::vector<int> outlierColumns(const SiteStatistics& site, float threshold);
inline constexpr int kMostOutlierShare = 8;
/// The largest magnitude of the median column among those that were ever other than zero.
float medianColumn(std::span<const float> channelMax);
/// Sites where a static scale leaves the median column fewer than `levels` of its 127 levels, since
/// other columns are so much larger. Requires: a site has columns.
int coarseSites(const CalibrationProfile& profile, float levels);

/// What CalibrationProfile::id must be: a hash of everything that decides results (not of the name
/// and the date). A copy with another method needs its new one.
std::string profileId(const CalibrationProfile& profile);

/// A profile as JSON. load() checks everything and names what is wrong and where.
Result<void> saveProfile(const CalibrationProfile& profile, const std::filesystem::path& file);
Result<CalibrationPtr> loadProfile(const std::filesystem::path& file);
/// Whether it was made for this model as it runs; kInvalidArgument says why not.
Result<void> checkProfile(const CalibrationProfile& profile, const std::string& modelFingerprint,
                          const ModelConfig& config);

}  // namespace vitrine::engine

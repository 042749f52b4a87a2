#include "engine/quant/calibration_profile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/base/display_text.h"

namespace vitrine::engine {
namespace {

/// A limit must be a number that 127 can divide and 1 can be divided by.
constexpr float kSmallestLimit = 0x1p-100F;

/// The limit with the least squared error over the histogram: values within it are rounded to
/// multiples of limit / 127 (an error of step²/12 on average, or all of a value below half a step),
/// values beyond it are cut. After Sung, Shin & Hwang 2015 ("Resiliency of deep neural networks
/// under quantization") as done by ACIQ (Banner et al. 2019), with the histogram for the density.
float leastSquaresLimit(const MagnitudeHistogram& histogram, float largest) {
  const auto bins = histogram.bins();
  int last = MagnitudeHistogram::kBins - 1;
  while (last > 0 && bins[static_cast<std::size_t>(last)] == 0) --last;
  std::vector<double> middles(static_cast<std::size_t>(last) + 1);
  for (int i = 0; i <= last; ++i) {
    const double low = MagnitudeHistogram::lowerEdge(i);
    const double high = std::min<double>(MagnitudeHistogram::lowerEdge(i + 1), largest);
    middles[static_cast<std::size_t>(i)] = 0.5 * (low + std::max(low, high));
  }
  middles.back() = largest;  // few values lie there, and one of them is this
  const auto errorOf = [&](double limit) {
    const double step = limit / 127.0;
    double error = 0.0;
    for (int i = 0; i <= last; ++i) {
      const double x = middles[static_cast<std::size_t>(i)];
      double each = step * step / 12.0;
      if (x < step / 2) each = x * x;
      if (x > limit) each = std::max(each, (x - limit) * (x - limit));
      error += each * static_cast<double>(bins[static_cast<std::size_t>(i)]);
    }
    return error;
  };
  double best = largest, least = errorOf(largest);
  // Eight octaves below the largest, a step is wider than most of what is left: nothing to gain.
  for (int i = last; i > 0 && i > last - 8 * MagnitudeHistogram::kPerOctave; --i) {
    const double limit = MagnitudeHistogram::lowerEdge(i);
    if (limit >= largest) continue;
    const double error = errorOf(limit);
    if (error < least) {
      least = error;
      best = limit;
    }
  }
  return static_cast<float>(best);
}

class Hash {
 public:
  Hash() { XXH3_128bits_reset(&m_state); }
  void bytes(const void* data, std::size_t n) { XXH3_128bits_update(&m_state, data, n); }
  template <typename T>
  void number(T value) {
    bytes(&value, sizeof(value));
  }
  template <typename T>
  void numbers(std::span<const T> values) {
    number(static_cast<std::uint64_t>(values.size()));
    bytes(values.data(), values.size_bytes());
  }
  void text(const std::string& value) {
    const std::string written = validUtf8(value);  // as a file holds it
    numbers(std::span(written.data(), written.size()));
  }
  std::string hex() const {
    const XXH128_hash_t digest = XXH3_128bits_digest(&m_state);
    return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
  }

 private:
  XXH3_state_t m_state;
};

}  // namespace

const char* nameOf(ScaleMethod method) {
  switch (method) {
    case ScaleMethod::kMax:
      return "max";
    case ScaleMethod::kPercentile:
      return "percentile";
    case ScaleMethod::kMse:
      return "mse";
  }
  return "?";
}

float SiteStatistics::absMax() const {
  return channelMax.empty() ? 0.0F : *std::max_element(channelMax.begin(), channelMax.end());
}

float staticLimit(const SiteStatistics& site, ScaleMethod method, double percentile) {
  const float largest = site.absMax();
  if (!(largest > 0.0F)) return 0.0F;
  float limit = largest;
  if (method == ScaleMethod::kPercentile) limit = site.histogram.quantile(percentile / 100.0);
  if (method == ScaleMethod::kMse) limit = leastSquaresLimit(site.histogram, largest);
  return std::clamp(limit, std::min(kSmallestLimit, largest), largest);
}

float medianColumn(std::span<const float> channelMax) {
  std::vector<float> live;
  std::copy_if(channelMax.begin(), channelMax.end(), std::back_inserter(live),
               [](float value) { return value > 0.0F; });
  if (live.empty()) return 0.0F;
  const auto middle = live.begin() + static_cast<std::ptrdiff_t>(live.size() / 2);
  std::nth_element(live.begin(), middle, live.end());
  return *middle;
}

int coarseSites(const CalibrationProfile& profile, float levels) {
  return static_cast<int>(
      std::count_if(profile.sites.begin(), profile.sites.end(), [&](const SiteStatistics& site) {
        const float limit = staticLimit(site, profile.method, profile.percentile);
        return 127.0F * medianColumn(site.channelMax) < levels * limit;
      }));
}

std::vector<int> outlierColumns(const SiteStatistics& site, float threshold) {
  const float median = medianColumn(site.channelMax);
  std::vector<int> columns;
  for (std::size_t i = 0; i < site.channelMax.size(); ++i) {
    if (median > 0.0F && site.channelMax[i] >= threshold * median) {
      columns.push_back(static_cast<int>(i));
    }
  }
  const std::size_t most = site.channelMax.size() / kMostOutlierShare;
  if (columns.size() > most) {
    std::stable_sort(columns.begin(), columns.end(), [&](int a, int b) {
      return site.channelMax[static_cast<std::size_t>(a)] >
             site.channelMax[static_cast<std::size_t>(b)];
    });
    columns.resize(most);
    std::sort(columns.begin(), columns.end());
  }
  return columns;
}

std::string profileId(const CalibrationProfile& profile) {
  Hash hash;
  hash.text(profile.modelFingerprint);
  hash.number(profile.kvHeads);
  for (const std::string& source : profile.sources) hash.text(source);
  hash.number(profile.tokens);
  hash.number(profile.method);
  hash.number(profile.percentile);
  for (const SiteStatistics& site : profile.sites) {
    hash.numbers(std::span<const float>(site.channelMax));
    hash.numbers(site.histogram.bins());
    hash.number(site.sumOfSquares);
  }
  for (const std::vector<float>& keys : profile.keyMax) hash.numbers(std::span<const float>(keys));
  return hash.hex();
}

Result<void> checkProfile(const CalibrationProfile& profile, const std::string& modelFingerprint,
                          const ModelConfig& config) {
  const std::string name = displayText(profile.name);
  if (profile.modelFingerprint != modelFingerprint) {
    return fail(ErrorCode::kInvalidArgument,
                "the calibration profile \"{}\" was made for another model ({}); calibrate this "
                "model ({}), or choose one of its own profiles",
                name, displayText(profile.modelName), displayText(config.name));
  }
  if (profile.kvHeads != config.nKvHeads) {
    return fail(ErrorCode::kInvalidArgument,
                "the calibration profile \"{}\" was made with {} KV heads, but the model runs with "
                "{}; calibrate again with these",
                name, profile.kvHeads, config.nKvHeads);
  }
  const auto wrong = [&](const std::string& what, std::size_t has, std::size_t needs) {
    return fail(ErrorCode::kInvalidArgument,
                "the calibration profile \"{}\" has {} {}, but the model needs {}; calibrate again",
                name, has, what, needs);
  };
  const auto nLayers = static_cast<std::size_t>(config.nLayers);
  const auto nSites = static_cast<std::size_t>(siteCount(config.nLayers));
  if (profile.sites.size() != nSites) return wrong("sites", profile.sites.size(), nSites);
  if (profile.keyMax.size() != nLayers) return wrong("layers", profile.keyMax.size(), nLayers);
  const auto finite = [](const std::vector<float>& values) {
    return std::all_of(values.begin(), values.end(),
                       [](float v) { return std::isfinite(v) && v >= 0.0F; });
  };
  for (int site = 0; site < siteCount(config.nLayers); ++site) {
    const auto& channels = profile.sites[static_cast<std::size_t>(site)].channelMax;
    const auto width = static_cast<std::size_t>(widthOf(config, inputOfSite(site, config.nLayers)));
    const std::string where = siteName(site, config.nLayers);
    if (channels.size() != width) return wrong("columns of " + where, channels.size(), width);
    if (!finite(channels)) {
      return fail(
          ErrorCode::kInvalidArgument,
          "the calibration profile \"{}\" holds ranges of {} that are no numbers: the model "
          "overflowed while it was calibrated; calibrate with FP32 or BF16 weights",
          name, where);
    }
  }
  for (std::size_t layer = 0; layer < nLayers; ++layer) {
    const auto& keys = profile.keyMax[layer];
    const auto width = static_cast<std::size_t>(config.kvDim());
    if (keys.size() != width) {
      return wrong(fmt::format("key elements in layer {}", layer), keys.size(), width);
    }
    if (!finite(keys)) {
      return fail(ErrorCode::kInvalidArgument,
                  "the calibration profile \"{}\" holds keys of layer {} that are no numbers; "
                  "calibrate again",
                  name, layer);
    }
  }
  return {};
}

}  // namespace vitrine::engine

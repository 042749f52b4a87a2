#include "ui/studio/profile_comparison.h"

#include <algorithm>

namespace vitrine::ui {

namespace {

double unused(float largest, float limit) {
  return limit > 0 && largest < limit ? 1.0 - double(largest) / double(limit) : 0.0;
}

}  // namespace

double SiteMismatch::ratio() const {
  if (!(limit > 0) || !(otherLimit > 0)) return 1.0;
  return double(std::max(limit, otherLimit)) / double(std::min(limit, otherLimit));
}

std::vector<SiteMismatch> compareProfiles(const engine::CalibrationProfile& scales,
                                          const engine::CalibrationProfile& text) {
  std::vector<SiteMismatch> sites;
  if (scales.sites.size() != text.sites.size()) return sites;
  for (std::size_t i = 0; i < scales.sites.size(); ++i) {
    const engine::SiteStatistics& there = text.sites[i];
    SiteMismatch site;
    site.site = int(i);
    site.limit = engine::staticLimit(scales.sites[i], scales.method, scales.percentile);
    site.otherLimit = engine::staticLimit(there, text.method, text.percentile);
    site.largest = there.absMax();
    // The histogram knows a value only to the width of a bin: nothing is clipped below the largest.
    site.clippedShare = site.largest > site.limit ? there.histogram.shareAbove(site.limit) : 0.0;
    site.unusedRange = unused(site.largest, site.limit);
    sites.push_back(site);
  }
  std::stable_sort(sites.begin(), sites.end(), [](const SiteMismatch& a, const SiteMismatch& b) {
    if (a.clippedShare != b.clippedShare) return a.clippedShare > b.clippedShare;
    return a.ratio() > b.ratio();
  });
  return sites;
}

std::vector<ScaleFigures> scaleFigures(const engine::SiteStatistics& site, double percentile) {
  std::vector<ScaleFigures> all;
  for (const auto method :
       {engine::ScaleMethod::kMax, engine::ScaleMethod::kPercentile, engine::ScaleMethod::kMse}) {
    ScaleFigures one;
    one.method = method;
    one.limit = engine::staticLimit(site, method, percentile);
    one.step = one.limit / 127.0F;
    const float largest = site.absMax();
    one.clippedShare = largest > one.limit ? site.histogram.shareAbove(one.limit) : 0.0;
    one.zeroShare = 1.0 - site.histogram.shareAbove(one.step / 2);
    one.unusedRange = unused(largest, one.limit);
    all.push_back(one);
  }
  return all;
}

}  // namespace vitrine::ui

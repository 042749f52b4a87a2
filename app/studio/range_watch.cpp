#include "app/studio/range_watch.h"

#include <algorithm>

namespace vitrine::app::studio {
namespace {

constexpr int kWindowTokens = 512;  // then a window begins anew

}  // namespace

double calibratedShare(const engine::SiteStatistics& site, engine::ScaleMethod method,
                       double percentile) {
  if (method == engine::ScaleMethod::kMax) return 0;
  return site.histogram.shareAbove(engine::staticLimit(site, method, percentile));
}

bool leavesRange(const engine::SiteUse& use, int tokens, double calibrated) {
  if (tokens < kLeastTokens || use.values == 0 || use.clipped < kLeastClipped) return false;
  const double share = static_cast<double>(use.clipped) / static_cast<double>(use.values);
  return share > kTimes * calibrated && share > kFloor;
}

// After a switch, a snapshot may still show what ran before: the same limits, and no fewer values.
bool RangeWatch::isOfBefore(std::span<const engine::SiteUse> use) const {
  return !use.empty() && std::equal(use.begin(), use.end(), m_last.begin(), m_last.end(),
                                    [](const engine::SiteUse& now, const engine::SiteUse& before) {
                                      return now.limit == before.limit &&
                                             now.values >= before.values;
                                    });
}

std::vector<RangeFinding> RangeWatch::look(std::span<const engine::SiteUse> use,
                                           const engine::CalibrationProfile& profile) {
  std::vector<RangeFinding> findings;
  if (use.empty() || (m_profile != profile.id && isOfBefore(use))) return findings;
  m_last.assign(use.begin(), use.end());
  if (m_profile != profile.id || m_sites.size() != profile.sites.size()) {
    m_profile = profile.id;
    m_sites.clear();
    for (const engine::SiteStatistics& seen : profile.sites) {
      m_sites.push_back({0, 0, calibratedShare(seen, profile.method, profile.percentile)});
    }
    // What went through until now was the engine's own warming up.
    for (const engine::SiteUse& now : use) {
      if (now.site < 0 || static_cast<std::size_t>(now.site) >= m_sites.size()) continue;
      m_sites[static_cast<std::size_t>(now.site)].values = now.values;
      m_sites[static_cast<std::size_t>(now.site)].clipped = now.clipped;
    }
    return findings;
  }
  for (const engine::SiteUse& now : use) {
    if (now.site < 0 || static_cast<std::size_t>(now.site) >= m_sites.size()) continue;
    Site& site = m_sites[static_cast<std::size_t>(now.site)];
    if (now.values < site.values || now.clipped < site.clipped) {  // counted from 0 again
      site.values = site.clipped = 0;
    }
    const engine::SiteStatistics& seen = profile.sites[static_cast<std::size_t>(now.site)];
    engine::SiteUse window = now;
    window.values -= site.values;
    window.clipped -= site.clipped;
    const auto width = std::max<std::size_t>(1, seen.channelMax.size());
    const int tokens = static_cast<int>(window.values / width);
    const int layer = engine::layerOfSite(now.site, profile.nLayers());
    if (leavesRange(window, tokens, site.calibrated) && m_told.insert({profile.id, layer}).second) {
      const double share = static_cast<double>(window.clipped) / static_cast<double>(window.values);
      findings.push_back({now.site, layer, share, site.calibrated, now.largest, now.limit, tokens});
    }
    if (tokens >= kWindowTokens) {
      site.values = now.values;
      site.clipped = now.clipped;
    }
  }
  std::sort(findings.begin(), findings.end(), [](const RangeFinding& a, const RangeFinding& b) {
    return a.clippedShare > b.clippedShare;
  });
  return findings;
}

}  // namespace vitrine::app::studio

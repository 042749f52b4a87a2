#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/quant/calibration_profile.h"

namespace vitrine::test {

/// A profile of a model that is not there: one layer of four channels.
inline std::shared_ptr<engine::CalibrationProfile> someProfile(const std::string& name,
                                                               float keys = 1.0F) {
  auto profile = std::make_shared<engine::CalibrationProfile>();
  profile->name = name;
  profile->modelFingerprint = "0123456789abcdef0123456789abcdef";
  profile->modelName = "tiny";
  profile->kvHeads = 1;
  profile->sources = {"a text"};
  profile->tokens = 12;
  profile->created = "2026-01-02T03:04:05Z";
  const std::vector<float> values = {0.5F, -1.0F, 2.0F, 0.25F};
  for (int site = 0; site < engine::siteCount(1); ++site) {
    engine::SiteStatistics statistics;
    statistics.channelMax = {0.5F, 1.0F, 2.0F, 0.25F};
    statistics.histogram.add(values);
    statistics.sumOfSquares = 5.3125;
    profile->sites.push_back(std::move(statistics));
  }
  profile->keyMax = {{keys, 2.0F}};
  profile->id = engine::profileId(*profile);
  return profile;
}

}  // namespace vitrine::test

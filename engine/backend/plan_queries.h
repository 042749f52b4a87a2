#pragma once

#include <string>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "engine/quant/activation_observer.h"
#include "engine/quant/quant_plan.h"

// What more than one backend asks of a plan.

namespace vitrine::engine {

/// For errors: "the value matrix of layer 3", "the output matrix".
inline std::string matrixName(int layer, MatrixPart part) {
  constexpr const char* kNames[] = {"query", "key", "value", "attention output",
                                    "gate",  "up",  "down",  "output"};
  const char* name = kNames[static_cast<std::size_t>(part)];
  return layer < 0 ? fmt::format("the {} matrix", name)
                   : fmt::format("the {} matrix of layer {}", name, layer);
}

/// Whether INT8 matrices read a site; others take its rows as they are.
inline bool isReadByInt8(const QuantPlan& plan, int site, int nLayers) {
  const int layer = layerOfSite(site, nLayers);
  const LinearInput input = inputOfSite(site, nLayers);
  for (int part = 0; part <= static_cast<int>(MatrixPart::kOutput); ++part) {
    const auto matrix = static_cast<MatrixPart>(part);
    if (inputOf(matrix) != input) continue;
    if (plan.matrix(layer, matrix).mode == WeightMode::kInt8) return true;
  }
  return false;
}

/// What Backend::activationUse() tells of: sites whose rows become INT8 by a static scale,
/// ascending, with their limits.
inline std::vector<SiteUse> staticSites(const QuantPlan& plan, int nLayers) {
  std::vector<SiteUse> sites;
  for (int site = 0; site < siteCount(nLayers); ++site) {
    const float scale = plan.staticScale(site);
    if (scale > 0.0F && isReadByInt8(plan, site, nLayers)) {
      sites.push_back({site, 0, 0, 0.0F, 127.0F * scale});
    }
  }
  return sites;
}

}  // namespace vitrine::engine

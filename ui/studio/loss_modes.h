#pragma once

#include <QString>
#include <vector>

#include "engine/engine_types.h"
#include "engine/quant/calibration_profile.h"

namespace vitrine::ui {

/// One way of running a model whose loss can be measured.
struct LossMode {
  QString id;     ///< "w8a8-static"
  QString label;  ///< "W8A8, static scales"
  engine::EngineConfig config;
  bool needsProfile = false;  ///< and there is none: `config` cannot run
  bool usual = false;         ///< ticked at first
};

/// The modes of a model: from `base` (backend, device, threads, KV heads; the strength of smoothing
/// and the outliers' threshold too) with each precision. `profile` may be null. The configuration
/// that `base` is comes first, if it loses anything.
std::vector<LossMode> lossModes(const engine::EngineConfig& base,
                                const engine::CalibrationPtr& profile);

}  // namespace vitrine::ui

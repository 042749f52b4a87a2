#pragma once

#include <QString>
#include <memory>
#include <vector>

#include "engine/engine_types.h"
#include "engine/quant/calibration_profile.h"

// What a precision may be made of, and what it is called; the same words everywhere in the window.

namespace vitrine::ui {

/// Why these modes do not go together, as a sentence; empty where they do.
QString whyNot(const engine::WeightPrecision& precision);

/// A configuration without wishes that have no meaning in it: INT8 activations without INT8
/// weights, scales and outliers of activations that are not INT8, scales of keys that are not INT8,
/// what needs a calibration profile while there is none.
engine::EngineConfig withoutStrayModes(engine::EngineConfig config);

/// Why a profile cannot be used on a model as it runs; empty where it can.
QString problemOf(const engine::CalibrationProfile& profile, const engine::ModelInfo& model);
/// The profile that is taken where a mode needs one and none was chosen: the first that fits.
engine::CalibrationPtr usualProfile(const std::vector<engine::CalibrationPtr>& profiles,
                                    const engine::ModelInfo& model);
/// "English and code · 12,288 tokens"
QString profileText(const engine::CalibrationProfile& profile);
/// What it was made of, for a tool tip.
QString profileDetails(const engine::CalibrationProfile& profile);

/// "INT8 weights, a scale for 32 · INT8 activations, static scales, smoothed (α 0.5) · KV INT8".
QString precisionText(const engine::EngineConfig& config);
/// The same for the top bar: "W8A8 static, smoothed"; "W8A16"; "FP16".
QString shortPrecisionText(const engine::WeightPrecision& precision);
/// "layer 3, input of down", "output": a place where activations are made INT8.
QString siteText(int site, int nLayers);

/// What becomes of the KV cache on a way from one configuration to another.
enum class CacheFate {
  kKept,      ///< goes on at once
  kComputed,  ///< emptied: prompts are computed again, or come back from disk
};
/// As EngineLoop::installBackend() and prepareChange() do it.
CacheFate cacheFate(const engine::EngineConfig& from, const engine::EngineConfig& to);

}  // namespace vitrine::ui

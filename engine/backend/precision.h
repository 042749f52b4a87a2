#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/quant/matrix_set.h"

namespace vitrine::engine {

struct CalibrationProfile;

/// How weights are held in memory. Native: as in the file (block types stay blocks).
enum class WeightMode { kNative, kFp16, kBf16, kInt8 };
/// Activations that enter a matrix product. kInt8 needs WeightMode::kInt8 (W8A8).
enum class ActivationMode { kFp16, kInt8 };
/// Element type of the KV cache. kInt8: one FP32 scale per token and KV head, K and V apart.
enum class KvType { kFp16, kInt8 };

/// Which INT8 weights share a scale: some neighbours in a row, a row, a matrix.
enum class WeightScales : std::uint8_t { kGroup, kChannel, kTensor };
/// Where INT8 activations get their scale. kDynamic: from the row itself, at each step: one a group
/// where weights have groups, else one a row. kStatic: from a calibration profile, one a site.
enum class ActivationScales : std::uint8_t { kDynamic, kStatic };
/// What W8A8 does about columns of activations that are much larger than the others. kMixed: they
/// and their weights stay FP16 (Dettmers et al. 2022, "LLM.int8()"). kSmooth: their range moves
/// into the weights (Xiao et al. 2022, "SmoothQuant").
enum class OutlierMode : std::uint8_t { kNone, kMixed, kSmooth };
/// Scales of INT8 keys: per token and head, or also per channel.
enum class KeyScales : std::uint8_t { kToken, kChannel };

struct WeightPrecision {
  /// Matrices. Norms and biases stay FP32; the embedding lookup reads the file's own values.
  WeightMode weights = WeightMode::kNative;
  ActivationMode activations = ActivationMode::kFp16;
  int groupSize = 32;  ///< WeightScales::kGroup: 32, 64 or 128
  WeightScales weightScales = WeightScales::kGroup;
  ActivationScales activationScales = ActivationScales::kDynamic;
  OutlierMode outliers = OutlierMode::kNone;
  float smoothing = 0.5F;         ///< α of kSmooth, 0 to 1: how much range leaves the activations
  float outlierThreshold = 3.0F;  ///< of kMixed: times the median column's largest magnitude
  KeyScales keyScales = KeyScales::kToken;
  MatrixSet keep{};  ///< matrices that stay FP16 under kInt8
  /// Needed by kStatic, kMixed, kSmooth and KeyScales::kChannel; else of no effect.
  std::shared_ptr<const CalibrationProfile> calibration{};

  bool needsCalibration() const {
    return activationScales == ActivationScales::kStatic || outliers != OutlierMode::kNone ||
           keyScales == KeyScales::kChannel;
  }
  /// Equal profiles (by id) count as equal; what has no effect does not count.
  bool operator==(const WeightPrecision& other) const;
};

const char* nameOf(WeightMode mode);          // "native", "fp16", "bf16", "int8"
const char* nameOf(ActivationMode mode);      // "fp16", "int8"
const char* nameOf(KvType type);              // "fp16", "int8"
const char* nameOf(WeightScales scales);      // "group", "channel", "tensor"
const char* nameOf(ActivationScales scales);  // "dynamic", "static"
const char* nameOf(OutlierMode mode);         // "none", "mixed", "smooth"
const char* nameOf(KeyScales scales);         // "token", "channel"

/// Everything that decides what a precision computes, on one line: equal lines, equal results. For
/// keys of caches and archives.
std::string precisionKey(const WeightPrecision& precision);

}  // namespace vitrine::engine

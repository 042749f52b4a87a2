#include "ui/studio/loss_modes.h"

#include <QCoreApplication>

namespace vitrine::ui {

using engine::ActivationMode;
using engine::ActivationScales;
using engine::EngineConfig;
using engine::KvType;
using engine::OutlierMode;
using engine::WeightMode;
using engine::WeightScales;

namespace {

QString tr(const char* text) {
  return QCoreApplication::translate("LossModes", text);
}

class Modes {
 public:
  Modes(const EngineConfig& base, const engine::CalibrationPtr& profile)
      : m_base(base), m_profile(profile) {
    m_base.precision = {};
    m_base.precision.smoothing = base.precision.smoothing;
    m_base.precision.outlierThreshold = base.precision.outlierThreshold;
    m_base.cache.type = KvType::kFp16;
  }

  void addW8A16(const char* id, const QString& label, WeightScales scales, int group, bool usual) {
    EngineConfig config = int8(scales, group);
    add(id, label, config, usual);
  }
  void addW8A8(const char* id, const QString& label, WeightScales scales, ActivationScales kind,
               OutlierMode outliers, bool usual) {
    EngineConfig config = int8(scales, 32);
    config.precision.activations = ActivationMode::kInt8;
    config.precision.activationScales = kind;
    config.precision.outliers = outliers;
    add(id, label, config, usual);
  }
  void addKv(const char* id, const QString& label, engine::KeyScales keys, bool usual) {
    EngineConfig config = m_base;
    config.precision.weights = WeightMode::kFp16;
    config.precision.keyScales = keys;
    config.cache.type = KvType::kInt8;
    add(id, label, config, usual);
  }
  void add(const char* id, const QString& label, EngineConfig config, bool usual) {
    if (config.precision.needsCalibration() && !config.precision.calibration) {
      config.precision.calibration = m_profile;
    }
    const bool missing = config.precision.needsCalibration() && !config.precision.calibration;
    modes.push_back({QString::fromLatin1(id), label, config, missing, usual});
  }

  std::vector<LossMode> modes;

 private:
  EngineConfig int8(WeightScales scales, int group) const {
    EngineConfig config = m_base;
    config.precision.weights = WeightMode::kInt8;
    config.precision.weightScales = scales;
    config.precision.groupSize = group;
    return config;
  }

  EngineConfig m_base;
  engine::CalibrationPtr m_profile;
};

}  // namespace

std::vector<LossMode> lossModes(const EngineConfig& base, const engine::CalibrationPtr& profile) {
  Modes all(base, profile);
  const bool loses =
      base.precision.weights == WeightMode::kInt8 || base.cache.type == KvType::kInt8;
  if (loses) {
    QString label = tr("As it runs now");
    if (!base.precision.keep.empty()) {
      label += tr(", %1 kept in FP16").arg(QString::fromStdString(base.precision.keep.text()));
    }
    all.add("now", label, base, true);
  }
  using S = WeightScales;
  using A = ActivationScales;
  all.addW8A16("w8a16-32", tr("W8A16, groups of 32"), S::kGroup, 32, true);
  all.addW8A16("w8a16-64", tr("W8A16, groups of 64"), S::kGroup, 64, false);
  all.addW8A16("w8a16-128", tr("W8A16, groups of 128"), S::kGroup, 128, false);
  all.addW8A16("w8a16-channel", tr("W8A16, per channel"), S::kChannel, 32, true);
  all.addW8A16("w8a16-tensor", tr("W8A16, per tensor"), S::kTensor, 32, false);
  all.addW8A8("w8a8", tr("W8A8, groups of 32"), S::kGroup, A::kDynamic, OutlierMode::kNone, true);
  all.addW8A8("w8a8-token", tr("W8A8, per channel and token"), S::kChannel, A::kDynamic,
              OutlierMode::kNone, true);
  all.addW8A8("w8a8-static", tr("W8A8, per channel, static scales"), S::kChannel, A::kStatic,
              OutlierMode::kNone, true);
  all.addW8A8("w8a8-mixed",
              tr("W8A8, per channel and token, mixed (threshold %1)")
                  .arg(double(base.precision.outlierThreshold), 0, 'g', 3),
              S::kChannel, A::kDynamic, OutlierMode::kMixed, true);
  all.addW8A8("w8a8-mixed-static", tr("W8A8, per channel, mixed, static scales"), S::kChannel,
              A::kStatic, OutlierMode::kMixed, false);
  all.addW8A8("w8a8-smooth",
              tr("W8A8, per channel and token, smoothed (α %1)")
                  .arg(double(base.precision.smoothing), 0, 'g', 2),
              S::kChannel, A::kDynamic, OutlierMode::kSmooth, true);
  all.addW8A8("w8a8-smooth-static", tr("W8A8, per channel, smoothed, static scales"), S::kChannel,
              A::kStatic, OutlierMode::kSmooth, false);
  all.addKv("kv8", tr("KV INT8, per token and head"), engine::KeyScales::kToken, true);
  all.addKv("kv8-channel", tr("KV INT8, keys per channel too"), engine::KeyScales::kChannel, false);
  return all.modes;
}

}  // namespace vitrine::ui

#include "ui/precision/precision_choices.h"

#include <QCoreApplication>
#include <QStringList>

#include "app/text.h"
#include "engine/quant/quant_plan.h"
#include "ui/common/engine_switching.h"
#include "ui/common/format.h"

namespace vitrine::ui {
namespace {

using engine::WeightPrecision;

QString tr(const char* text) {
  return QCoreApplication::translate("vitrine::ui::Precision", text);
}

bool isW8A8(const WeightPrecision& precision) {
  return precision.weights == engine::WeightMode::kInt8 &&
         precision.activations == engine::ActivationMode::kInt8;
}

/// The engine's sentence without its advice, which names options of the command line.
QString sentence(const engine::Error& error) {
  QString text = app::toQString(error.message).section(QLatin1Char(';'), 0, 0);
  if (!text.isEmpty()) text[0] = text[0].toUpper();
  return text + QLatin1Char('.');
}

QString number(float value) {
  return QString::number(double(value), 'g', 3);
}

}  // namespace

QString whyNot(const WeightPrecision& precision) {
  const auto checked = engine::checkPrecision(precision);
  return checked ? QString() : sentence(checked.error());
}

engine::EngineConfig withoutStrayModes(engine::EngineConfig config) {
  WeightPrecision& p = config.precision;
  if (p.weights != engine::WeightMode::kInt8) p.activations = engine::ActivationMode::kFp16;
  const bool calibrated = p.calibration != nullptr;
  if (!isW8A8(p) || !calibrated) {
    p.activationScales = engine::ActivationScales::kDynamic;
    p.outliers = engine::OutlierMode::kNone;
  }
  if (config.cache.type != engine::KvType::kInt8 || !calibrated) {
    p.keyScales = engine::KeyScales::kToken;
  }
  return config;
}

QString problemOf(const engine::CalibrationProfile& profile, const engine::ModelInfo& model) {
  const auto checked = engine::checkProfile(profile, model.fingerprint, model.config);
  return checked ? QString() : sentence(checked.error());
}

engine::CalibrationPtr usualProfile(const std::vector<engine::CalibrationPtr>& profiles,
                                    const engine::ModelInfo& model) {
  for (const engine::CalibrationPtr& profile : profiles) {
    if (problemOf(*profile, model).isEmpty()) return profile;
  }
  return nullptr;
}

QString profileText(const engine::CalibrationProfile& profile) {
  return tr("%1 · %2 tokens")
      .arg(oneLine(app::toQString(profile.name), 28), countText(profile.tokens));
}

QString profileDetails(const engine::CalibrationProfile& profile) {
  QStringList lines;
  switch (profile.method) {
    case engine::ScaleMethod::kMax:
      lines << tr("Scales by the largest value seen");
      break;
    case engine::ScaleMethod::kPercentile:
      lines << tr("Scales by the percentile %1").arg(profile.percentile, 0, 'g', 6);
      break;
    case engine::ScaleMethod::kMse:
      lines << tr("Scales by the least squared error");
      break;
  }
  for (const std::string& source : profile.sources) lines << oneLine(app::toQString(source), 60);
  lines << tr("Made %1").arg(app::toQString(profile.created).left(10));
  return lines.join(QLatin1Char('\n'));
}

QString precisionText(const engine::EngineConfig& config) {
  const WeightPrecision& p = config.precision;
  QStringList parts;
  if (p.weights != engine::WeightMode::kInt8) {
    parts << tr("%1 weights").arg(weightModeText(p.weights));
  } else {
    switch (p.weightScales) {
      case engine::WeightScales::kGroup:
        parts << tr("INT8 weights, a scale for %1").arg(p.groupSize);
        break;
      case engine::WeightScales::kChannel:
        parts << tr("INT8 weights, a scale a row");
        break;
      case engine::WeightScales::kTensor:
        parts << tr("INT8 weights, a scale a matrix");
        break;
    }
    if (!p.keep.empty()) {
      parts << pluralText(p.keep.size(), tr("%1 matrix in FP16"), tr("%1 matrices in FP16"));
    }
  }
  if (isW8A8(p)) {
    QString text = p.activationScales == engine::ActivationScales::kStatic
                       ? tr("INT8 activations, static scales")
                       : tr("INT8 activations, dynamic scales");
    if (p.outliers == engine::OutlierMode::kMixed) {
      text += tr(", outlier columns in FP16 (from %1 medians)").arg(number(p.outlierThreshold));
    } else if (p.outliers == engine::OutlierMode::kSmooth) {
      text += tr(", smoothed (α %1)").arg(number(p.smoothing));
    }
    parts << text;
  } else {
    parts << tr("FP16 activations");
  }
  parts << (p.keyScales == engine::KeyScales::kChannel
                ? tr("KV %1, keys per channel").arg(kvTypeText(config.cache.type))
                : tr("KV %1").arg(kvTypeText(config.cache.type)));
  return parts.join(QStringLiteral(" · "));
}

QString shortPrecisionText(const WeightPrecision& p) {
  if (p.weights != engine::WeightMode::kInt8) return weightModeText(p.weights);
  QString text = isW8A8(p) ? QStringLiteral("W8A8") : QStringLiteral("W8A16");
  if (p.activationScales == engine::ActivationScales::kStatic) text += tr(" static");
  if (p.outliers == engine::OutlierMode::kMixed) text += tr(", mixed");
  if (p.outliers == engine::OutlierMode::kSmooth) text += tr(", smoothed");
  if (!p.keep.empty()) text += tr(", %1 kept").arg(p.keep.size());
  return text;
}

QString siteText(int site, int nLayers) {
  const int layer = engine::layerOfSite(site, nLayers);
  switch (engine::inputOfSite(site, nLayers)) {
    case engine::LinearInput::kAttention:
      return tr("layer %1, input of attention").arg(layer);
    case engine::LinearInput::kAttentionOut:
      return tr("layer %1, input of o").arg(layer);
    case engine::LinearInput::kFfn:
      return tr("layer %1, input of gate and up").arg(layer);
    case engine::LinearInput::kDown:
      return tr("layer %1, input of down").arg(layer);
    case engine::LinearInput::kOutput:
      break;
  }
  return tr("input of the output matrix");
}

CacheFate cacheFate(const engine::EngineConfig& from, const engine::EngineConfig& to) {
  const bool same =
      from.precision == to.precision && from.cache.type == to.cache.type &&
      from.kvHeads == to.kvHeads && from.backend == to.backend && from.device == to.device &&
      from.threads == to.threads && from.cache.blockSize == to.cache.blockSize &&
      from.cache.budgetBytes == to.cache.budgetBytes && from.contextTokens == to.contextTokens;
  return same ? CacheFate::kKept : CacheFate::kComputed;
}

}  // namespace vitrine::ui

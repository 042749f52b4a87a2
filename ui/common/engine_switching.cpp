#include "ui/common/engine_switching.h"

#include <QRegularExpression>
#include <filesystem>

#include "app/chat/engine_client.h"
#include "app/settings.h"
#include "app/text.h"
#include "ui/precision/precision_choices.h"

namespace vitrine::ui {

engine::EngineConfig wantedConfig(const app::EngineClient& engine, const app::Settings& settings) {
  return engine.info() || engine.isLoading() ? engine.config() : settings.engineConfig();
}

void switchEngine(app::EngineClient& engine, app::Settings& settings, engine::EngineConfig config) {
  config = withoutStrayModes(std::move(config));
  settings.setEngineConfig(config);
  if ((engine.info() || engine.isLoading()) && !(config == engine.config())) {
    engine.reconfigure(config);
  }
}

QString weightModeText(engine::WeightMode mode) {
  switch (mode) {
    case engine::WeightMode::kNative:
      return QStringLiteral("Native");
    case engine::WeightMode::kFp16:
      return QStringLiteral("FP16");
    case engine::WeightMode::kBf16:
      return QStringLiteral("BF16");
    case engine::WeightMode::kInt8:
      return QStringLiteral("INT8");
  }
  return {};
}

QString activationModeText(engine::ActivationMode mode) {
  return mode == engine::ActivationMode::kInt8 ? QStringLiteral("INT8") : QStringLiteral("FP16");
}

QString kvTypeText(engine::KvType type) {
  return type == engine::KvType::kInt8 ? QStringLiteral("INT8") : QStringLiteral("FP16");
}

QString nativeFormatText(const QString& quantization) {
  const QString name = quantization.toUpper();
  if (name == QLatin1String("F16")) return QStringLiteral("FP16");
  if (name == QLatin1String("BF16")) return QStringLiteral("BF16");
  if (name == QLatin1String("F32")) return QStringLiteral("FP32");
  // "Q4_1", "Q8_0", "IQ4_NL": the first digit is the bits of a value.
  for (const QChar character : name) {
    if (character.isDigit()) return QStringLiteral("%1-bit").arg(character);
  }
  return QStringLiteral("Native");
}

QString nativeWeightsText(const engine::ModelInfo& info) {
  const QString file = nativeFormatText(app::toQString(info.quantization));
  if (info.backend.kind != engine::BackendKind::kCuda) return file;
  return file == QLatin1String("BF16") ? file : QStringLiteral("FP16");
}

QString modelFileName(const std::string& path, const QString& quantization) {
  QString name = app::displayPath(std::filesystem::path(path).stem());
  static const QRegularExpression part(QStringLiteral("-\\d{5}-of-\\d{5}$"));
  name.remove(part);
  if (!quantization.isEmpty() && name.size() > quantization.size() + 1 &&
      name.endsWith(quantization, Qt::CaseInsensitive)) {
    const QChar before = name[name.size() - quantization.size() - 1];
    if (before == u'.' || before == u'-' || before == u'_') {
      name.chop(quantization.size() + 1);
    }
  }
  return name;
}

QString attentionText(int nHeads, int nKvHeads) {
  if (nHeads <= 0 || nKvHeads <= 0) return QStringLiteral("–");
  return QStringLiteral("%1 %2:%3")
      .arg(nKvHeads == nHeads ? QStringLiteral("MHA")
           : nKvHeads == 1    ? QStringLiteral("MQA")
                              : QStringLiteral("GQA"))
      .arg(nHeads)
      .arg(nKvHeads);
}

}  // namespace vitrine::ui

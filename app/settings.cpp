#include "app/settings.h"

#include <QFile>
#include <QJsonDocument>
#include <QStringList>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "app/server/api_server.h"
#include "app/store/conversation_types.h"
#include "app/studio/calibration_store.h"
#include "app/text.h"
#include "engine/quant/quant_plan.h"

namespace vitrine::app {
namespace {

constexpr int kMaxRecentModels = 10;

// Paths are kept percent-encoded: an INI file holds text, and a file name is any bytes.
QString encodePath(const std::filesystem::path& path) {
  const std::string bytes = path.string();
  return QString::fromLatin1(
      QByteArray(bytes.data(), static_cast<qsizetype>(bytes.size())).toPercentEncoding("/"));
}
std::filesystem::path decodePath(const QString& text) {
  return QByteArray::fromPercentEncoding(text.toLatin1()).toStdString();
}

template <typename Enum, std::size_t N>
Enum enumFrom(const QString& word, const std::array<Enum, N>& values, Enum otherwise) {
  for (const Enum value : values) {
    if (word == QLatin1String(engine::nameOf(value))) return value;
  }
  return otherwise;
}

void overlay(const QJsonObject& json, const char* name, float& value) {
  const QJsonValue field = json.value(QLatin1String(name));
  if (field.isDouble()) value = static_cast<float>(field.toDouble());
}
void overlay(const QJsonObject& json, const char* name, int& value) {
  const QJsonValue field = json.value(QLatin1String(name));
  if (field.isDouble()) {
    value = static_cast<int>(std::clamp(field.toDouble(), -1e9, 1e9));
  }
}

}  // namespace

QJsonObject toJson(const engine::SamplingParams& params) {
  // Through the shortest decimal that gives the same float, so that 0.8 stays 0.8.
  const auto number = [](float value) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, value).ptr;
    return QByteArray(text, static_cast<qsizetype>(end - text)).toDouble();
  };
  QJsonObject json{{QStringLiteral("temperature"), number(params.temperature)},
                   {QStringLiteral("top_k"), params.topK},
                   {QStringLiteral("top_p"), number(params.topP)},
                   {QStringLiteral("min_p"), number(params.minP)},
                   {QStringLiteral("repeat_penalty"), number(params.repeatPenalty)},
                   {QStringLiteral("presence_penalty"), number(params.presencePenalty)},
                   {QStringLiteral("frequency_penalty"), number(params.frequencyPenalty)},
                   {QStringLiteral("penalty_window"), params.penaltyWindow}};
  // A seed has 64 bits, a JSON number 53: as text.
  if (params.seed) json.insert(QStringLiteral("seed"), QString::number(*params.seed));
  return json;
}

engine::SamplingParams overlaySampling(engine::SamplingParams base, const QJsonObject& json) {
  engine::SamplingParams params = base;
  overlay(json, "temperature", params.temperature);
  overlay(json, "top_k", params.topK);
  overlay(json, "top_p", params.topP);
  overlay(json, "min_p", params.minP);
  overlay(json, "repeat_penalty", params.repeatPenalty);
  overlay(json, "presence_penalty", params.presencePenalty);
  overlay(json, "frequency_penalty", params.frequencyPenalty);
  overlay(json, "penalty_window", params.penaltyWindow);
  const QJsonValue seed = json.value(QLatin1String("seed"));
  if (seed.isString()) {
    bool ok = false;
    const quint64 value = seed.toString().toULongLong(&ok);
    if (ok) params.seed = value;
  } else if (seed.isDouble() && seed.toDouble() >= 0) {
    params.seed = static_cast<std::uint64_t>(seed.toDouble());
  }
  if (params.validate()) return params;

  // Something has no meaning: take the fields one at a time and leave that one out.
  for (auto it = json.begin(); json.size() > 1 && it != json.end(); ++it) {
    base = overlaySampling(base, QJsonObject{{it.key(), it.value()}});
  }
  return base;
}

engine::SamplingParams overlaySampling(engine::SamplingParams base,
                                       const engine::GenerationDefaults& defaults) {
  if (defaults.temperature) base.temperature = *defaults.temperature;
  if (defaults.topK) base.topK = *defaults.topK;
  if (defaults.topP) base.topP = *defaults.topP;
  if (defaults.minP) base.minP = *defaults.minP;
  if (defaults.repeatPenalty) base.repeatPenalty = *defaults.repeatPenalty;
  return base;
}

Settings::Settings(const QString& iniFile, QObject* parent)
    : QObject(parent), m_settings(iniFile, QSettings::IniFormat) {}

std::filesystem::path Settings::lastModel() const {
  return decodePath(m_settings.value(QStringLiteral("model/last")).toString());
}

void Settings::setLastModel(const std::filesystem::path& path) {
  m_settings.setValue(QStringLiteral("model/last"), encodePath(path));
  QStringList recent = m_settings.value(QStringLiteral("model/recent")).toStringList();
  recent.removeAll(encodePath(path));
  recent.prepend(encodePath(path));
  m_settings.setValue(QStringLiteral("model/recent"), QStringList(recent.mid(0, kMaxRecentModels)));
  emit changed();
}

std::vector<std::filesystem::path> Settings::recentModels() const {
  std::vector<std::filesystem::path> paths;
  const QStringList recent = m_settings.value(QStringLiteral("model/recent")).toStringList();
  for (const QString& path : recent) {
    if (!path.isEmpty()) paths.push_back(decodePath(path));
  }
  return paths;
}

void Settings::forgetModel(const std::filesystem::path& path) {
  QStringList recent = m_settings.value(QStringLiteral("model/recent")).toStringList();
  recent.removeAll(encodePath(path));
  m_settings.setValue(QStringLiteral("model/recent"), recent);
  if (lastModel() == path) m_settings.remove(QStringLiteral("model/last"));
  emit changed();
}

engine::EngineConfig Settings::engineConfig() const {
  using namespace engine;
  EngineConfig config;
  const auto word = [this](const char* name) {
    return m_settings.value(QLatin1String("engine/") + QLatin1String(name)).toString();
  };
  const auto number = [this](const char* name, int otherwise, int least, int most) {
    bool ok = false;
    const int value = m_settings.value(QLatin1String("engine/") + QLatin1String(name)).toInt(&ok);
    return ok ? std::clamp(value, least, most) : otherwise;
  };
  const auto flag = [this](const char* name, bool otherwise) {
    return m_settings.value(QLatin1String("engine/") + QLatin1String(name), otherwise).toBool();
  };
  config.backend = enumFrom(word("backend"),
                            std::array{BackendKind::kAuto, BackendKind::kReference,
                                       BackendKind::kCpu, BackendKind::kCuda},
                            BackendKind::kAuto);
  config.precision = storedPrecision();
  config.cache.type =
      enumFrom(word("kv_type"), std::array{KvType::kFp16, KvType::kInt8}, config.cache.type);
  config.cache.layout = enumFrom(
      word("kv_layout"), std::array{KvLayout::kPaged, KvLayout::kContiguous}, config.cache.layout);
  config.cache.enabled = flag("kv_cache", config.cache.enabled);
  config.cache.reuse = flag("reuse", config.cache.reuse);
  const int blockSize = number("block_size", config.cache.blockSize, 16, 1024);
  if (blockSize % 16 == 0) config.cache.blockSize = blockSize;
  config.cache.budgetBytes =
      m_settings.value(QStringLiteral("engine/kv_budget_bytes"), 0).toULongLong();
  config.batching = enumFrom(word("batching"), std::array{Batching::kContinuous, Batching::kStatic},
                             config.batching);
  config.threads = number("threads", 0, 0, 1024);
  config.device = number("device", 0, 0, 63);
  config.contextTokens = number("context", 0, 0, 1 << 24);
  config.kvHeads = number("kv_heads", 0, 0, 65536);
  config.prefillChunk = number("prefill_chunk", config.prefillChunk, 16, 8192);
  if (flag("archive", true)) config.archive.folder = toPath(m_archiveFolder);
  const auto limit = m_settings.value(QStringLiteral("engine/archive_limit_bytes")).toULongLong();
  if (limit > 0) config.archive.limitBytes = limit;
  return config;
}

engine::WeightPrecision Settings::storedPrecision() const {
  using namespace engine;
  WeightPrecision precision;
  const auto stored = [this](const char* name) {
    return m_settings.value(QLatin1String("engine/") + QLatin1String(name));
  };
  const auto choose = [&]<typename Enum, std::size_t N>(const char* name, Enum& value,
                                                        const std::array<Enum, N>& values) {
    value = enumFrom(stored(name).toString(), values, value);
  };
  choose("weights", precision.weights,
         std::array{WeightMode::kNative, WeightMode::kFp16, WeightMode::kBf16, WeightMode::kInt8});
  choose("activations", precision.activations,
         std::array{ActivationMode::kFp16, ActivationMode::kInt8});
  choose("int8_scales", precision.weightScales,
         std::array{WeightScales::kGroup, WeightScales::kChannel, WeightScales::kTensor});
  choose("activation_scales", precision.activationScales,
         std::array{ActivationScales::kDynamic, ActivationScales::kStatic});
  choose("outliers", precision.outliers,
         std::array{OutlierMode::kNone, OutlierMode::kMixed, OutlierMode::kSmooth});
  choose("kv_keys", precision.keyScales, std::array{KeyScales::kToken, KeyScales::kChannel});
  const int groupSize = stored("int8_group").toInt();
  if (groupSize == 32 || groupSize == 64 || groupSize == 128) precision.groupSize = groupSize;
  bool ok = false;
  if (const float value = stored("smoothing").toFloat(&ok); ok && value >= 0 && value <= 1) {
    precision.smoothing = value;
  }
  if (const float value = stored("outlier_threshold").toFloat(&ok);
      ok && value > 1 && std::isfinite(value)) {
    precision.outlierThreshold = value;
  }
  // Whose layers they are is checked where the model is known.
  constexpr int kMostLayers = 4096;
  if (auto keep = MatrixSet::parse(toUtf8(stored("keep_fp").toString()), kMostLayers)) {
    precision.keep = std::move(*keep);
  }
  m_calibrationProblem.clear();
  if (precision.needsCalibration()) {
    precision.calibration = storedCalibration();
    if (!precision.calibration) precision = withoutCalibration(std::move(precision));
  }
  if (!checkPrecision(precision)) precision = withoutCalibration(std::move(precision));
  return precision;
}

/// The profile by its file, read once. Null: m_calibrationProblem says why.
engine::CalibrationPtr Settings::storedCalibration() const {
  const QString stored = m_settings.value(QStringLiteral("engine/calibration")).toString();
  const QString file = displayPath(decodePath(stored));
  if (m_calibration && m_calibrationFile == file) return m_calibration;
  m_calibration.reset();
  m_calibrationFile = file;
  if (stored.isEmpty()) {
    m_calibrationProblem =
        tr("No calibration profile is chosen; INT8 runs with dynamic scales until one is.");
    return nullptr;
  }
  auto profile = engine::loadProfile(decodePath(stored));
  if (!profile) {
    m_calibrationProblem =
        tr("INT8 runs without calibration: %1.").arg(toQString(profile.error().message));
    return nullptr;
  }
  m_calibration = std::move(*profile);
  return m_calibration;
}

void Settings::storePrecision(const engine::WeightPrecision& precision) {
  const auto set = [this](const char* name, const QVariant& value) {
    m_settings.setValue(QLatin1String("engine/") + QLatin1String(name), value);
  };
  set("weights", QLatin1String(nameOf(precision.weights)));
  set("activations", QLatin1String(nameOf(precision.activations)));
  set("int8_scales", QLatin1String(nameOf(precision.weightScales)));
  set("int8_group", precision.groupSize);
  set("activation_scales", QLatin1String(nameOf(precision.activationScales)));
  set("outliers", QLatin1String(nameOf(precision.outliers)));
  set("smoothing", precision.smoothing);
  set("outlier_threshold", precision.outlierThreshold);
  set("kv_keys", QLatin1String(nameOf(precision.keyScales)));
  set("keep_fp", toQString(precision.keep.text()));
  if (!precision.calibration || m_calibrationFolder.isEmpty()) return;
  const bool remembered = m_calibration && m_calibration->id == precision.calibration->id &&
                          QFile::exists(m_calibrationFile);
  if (remembered) return;
  const auto file = studio::CalibrationStore(m_calibrationFolder).save(*precision.calibration);
  if (!file) {
    m_calibrationProblem = toQString(file.error().message);
    return;
  }
  set("calibration", encodePath(toPath(*file)));
  m_calibrationFile = *file;
  m_calibration = precision.calibration;
}

engine::WeightPrecision withoutCalibration(engine::WeightPrecision precision) {
  precision.activationScales = engine::ActivationScales::kDynamic;
  precision.outliers = engine::OutlierMode::kNone;
  precision.keyScales = engine::KeyScales::kToken;
  precision.calibration.reset();
  return precision;
}

void Settings::setEngineConfig(const engine::EngineConfig& config) {
  const auto set = [this](const char* name, const QVariant& value) {
    m_settings.setValue(QLatin1String("engine/") + QLatin1String(name), value);
  };
  set("backend", QLatin1String(nameOf(config.backend)));
  storePrecision(config.precision);
  set("kv_type", QLatin1String(nameOf(config.cache.type)));
  set("kv_layout", QLatin1String(nameOf(config.cache.layout)));
  set("kv_cache", config.cache.enabled);
  set("reuse", config.cache.reuse);
  set("block_size", config.cache.blockSize);
  set("kv_budget_bytes", static_cast<qulonglong>(config.cache.budgetBytes));
  set("batching", QLatin1String(nameOf(config.batching)));
  set("threads", config.threads);
  set("device", config.device);
  set("context", config.contextTokens);
  set("kv_heads", config.kvHeads);
  set("prefill_chunk", config.prefillChunk);
  if (!m_archiveFolder.isEmpty()) {
    set("archive", !config.archive.folder.empty());
    set("archive_limit_bytes", static_cast<qulonglong>(config.archive.limitBytes));
  }
  emit changed();
}

engine::ContextPolicy Settings::contextPolicy() const {
  return contextPolicyFromString(m_settings.value(QStringLiteral("chat/context_policy")).toString())
      .value_or(engine::ContextPolicy::kStop);
}

void Settings::setContextPolicy(engine::ContextPolicy policy) {
  m_settings.setValue(QStringLiteral("chat/context_policy"),
                      QString::fromLatin1(engine::nameOf(policy)));
  emit changed();
}

QJsonObject Settings::samplingDefaults() const {
  return QJsonDocument::fromJson(
             m_settings.value(QStringLiteral("chat/sampling")).toString().toUtf8())
      .object();
}

void Settings::setSamplingDefaults(const QJsonObject& sampling) {
  m_settings.setValue(QStringLiteral("chat/sampling"),
                      QString::fromUtf8(QJsonDocument(sampling).toJson(QJsonDocument::Compact)));
  emit changed();
}

QString Settings::systemPromptDefault() const {
  return m_settings.value(QStringLiteral("chat/system_prompt")).toString();
}

void Settings::setSystemPromptDefault(const QString& text) {
  m_settings.setValue(QStringLiteral("chat/system_prompt"), text);
  emit changed();
}

Theme Settings::theme() const {
  const QString word = m_settings.value(QStringLiteral("window/theme")).toString();
  if (word == QLatin1String("light")) return Theme::kLight;
  if (word == QLatin1String("dark")) return Theme::kDark;
  return Theme::kSystem;
}

void Settings::setTheme(Theme theme) {
  const char* words[] = {"system", "light", "dark"};
  m_settings.setValue(QStringLiteral("window/theme"),
                      QLatin1String(words[static_cast<int>(theme)]));
  emit changed();
}

int Settings::zoomPercent() const {
  bool ok = false;
  const int percent = m_settings.value(QStringLiteral("window/zoom"), 100).toInt(&ok);
  return ok ? std::clamp(percent, 50, 300) : 100;
}

void Settings::setZoomPercent(int percent) {
  m_settings.setValue(QStringLiteral("window/zoom"), std::clamp(percent, 50, 300));
  emit changed();
}

bool Settings::loadLastModelAtStart() const {
  return m_settings.value(QStringLiteral("model/load_at_start"), true).toBool();
}

void Settings::setLoadLastModelAtStart(bool on) {
  m_settings.setValue(QStringLiteral("model/load_at_start"), on);
  emit changed();
}

QString Settings::modelFolder() const {
  return m_settings.value(QStringLiteral("model/folder")).toString();
}

void Settings::setModelFolder(const QString& folder) {
  m_settings.setValue(QStringLiteral("model/folder"), folder);
  emit changed();
}

bool Settings::serverEnabled() const {
  return m_settings.value(QStringLiteral("server/enabled"), false).toBool();
}

void Settings::setServerEnabled(bool on) {
  m_settings.setValue(QStringLiteral("server/enabled"), on);
  emit changed();
}

int Settings::serverPort() const {
  bool ok = false;
  const int port = m_settings.value(QStringLiteral("server/port")).toInt(&ok);
  return ok && port >= 1024 && port <= 65535 ? port : ApiServer::kDefaultPort;
}

void Settings::setServerPort(int port) {
  m_settings.setValue(QStringLiteral("server/port"), std::clamp(port, 1024, 65535));
  emit changed();
}

QString Settings::serverKey() const {
  return m_settings.value(QStringLiteral("server/key")).toString();
}

void Settings::setServerKey(const QString& key) {
  m_settings.setValue(QStringLiteral("server/key"), key);
  emit changed();
}

QByteArray Settings::viewState(const QString& name) const {
  return m_settings.value(QStringLiteral("view/") + name).toByteArray();
}

void Settings::setViewState(const QString& name, const QByteArray& state) {
  m_settings.setValue(QStringLiteral("view/") + name, state);
}

void Settings::sync() {
  m_settings.sync();
}

}  // namespace vitrine::app

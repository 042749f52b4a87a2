#pragma once

#include <QByteArray>
#include <QJsonObject>
#include <QObject>
#include <QSettings>
#include <filesystem>
#include <vector>

#include "engine/engine_types.h"
#include "engine/quant/calibration_profile.h"

namespace vitrine::app {

enum class Theme { kSystem, kLight, kDark };

/// Sampling settings as JSON with the names of llama.cpp ("temperature", "top_k", …). Fields that
/// are missing are not set; a reader of ours ignores fields it does not know.
QJsonObject toJson(const engine::SamplingParams& params);
/// `base` with the fields that `json` holds laid over it; values without meaning are left out.
engine::SamplingParams overlaySampling(engine::SamplingParams base, const QJsonObject& json);
/// `base` with what the model's file recommends laid over it.
engine::SamplingParams overlaySampling(engine::SamplingParams base,
                                       const engine::GenerationDefaults& defaults);

/// The same without what needs a calibration profile: dynamic scales, no treatment of outliers,
/// keys per token.
engine::WeightPrecision withoutCalibration(engine::WeightPrecision precision);

/// What the program remembers between runs, in one INI file. Every getter gives a value that has
/// meaning, whatever the file holds. Not for other threads.
class Settings final : public QObject {
  Q_OBJECT
 public:
  explicit Settings(const QString& iniFile, QObject* parent = nullptr);

  std::filesystem::path lastModel() const;
  void setLastModel(const std::filesystem::path& path);  ///< also puts it first in recentModels()
  std::vector<std::filesystem::path> recentModels() const;  ///< newest first, at most ten
  void forgetModel(const std::filesystem::path& path);

  /// Where the KV of chats goes, if it is kept: see Paths::archive(). Not remembered.
  void setArchiveFolder(const QString& folder) { m_archiveFolder = folder; }
  QString archiveFolder() const { return m_archiveFolder; }

  /// Where calibration profiles are kept: see Paths::calibration(). Without it (the default) a
  /// profile in use is not remembered. Not remembered itself.
  void setCalibrationFolder(const QString& folder) { m_calibrationFolder = folder; }

  engine::EngineConfig engineConfig() const;
  /// A profile in use is remembered by its file, which is written to the calibration folder where
  /// it is not there yet.
  void setEngineConfig(const engine::EngineConfig& config);
  /// Not empty after engineConfig() found no usable profile and left out what needs one: a sentence
  /// for the person.
  QString calibrationProblem() const { return m_calibrationProblem; }

  engine::ContextPolicy contextPolicy() const;
  void setContextPolicy(engine::ContextPolicy policy);

  /// The person's own defaults: only the fields that were set. Empty: the model's.
  QJsonObject samplingDefaults() const;
  void setSamplingDefaults(const QJsonObject& sampling);
  QString systemPromptDefault() const;
  void setSystemPromptDefault(const QString& text);

  Theme theme() const;
  void setTheme(Theme theme);
  int zoomPercent() const;  ///< 50 to 300
  void setZoomPercent(int percent);
  bool loadLastModelAtStart() const;
  void setLoadLastModelAtStart(bool on);
  QString modelFolder() const;  ///< empty: Paths::models
  void setModelFolder(const QString& folder);

  // The local API server: off unless asked for, on the loopback address only.
  bool serverEnabled() const;
  void setServerEnabled(bool on);
  int serverPort() const;  ///< 1024 to 65535
  void setServerPort(int port);
  QString serverKey() const;  ///< empty: none is asked for
  void setServerKey(const QString& key);

  /// Geometry, splitter states, open panels: whatever a view wants kept under a name of its own.
  QByteArray viewState(const QString& name) const;
  void setViewState(const QString& name, const QByteArray& state);

  void sync();

 signals:
  void changed();

 private:
  mutable QSettings m_settings;
  engine::WeightPrecision storedPrecision() const;
  engine::CalibrationPtr storedCalibration() const;
  void storePrecision(const engine::WeightPrecision& precision);

  QString m_archiveFolder, m_calibrationFolder;
  // The profile that was read last, and why none could be.
  mutable QString m_calibrationFile, m_calibrationProblem;
  mutable engine::CalibrationPtr m_calibration;
};

}  // namespace vitrine::app

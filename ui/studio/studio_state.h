#pragma once

#include <QObject>
#include <QString>

#include "app/studio/calibration_store.h"
#include "app/studio/studio_session.h"

namespace vitrine::app {
class ConversationStore;
class EngineClient;
class Settings;
}  // namespace vitrine::app

namespace vitrine::ui {

/// What the studio's sections share: the loaded model, the profile and site that are looked at, the
/// one job that runs at a time and whose it is. In the window's thread.
class StudioState final : public QObject {
  Q_OBJECT
 public:
  /// Whose result comes next.
  enum class Job { kNone, kCalibrate, kCompareText, kSensitivity, kGain, kLoss };

  StudioState(app::EngineClient& engine, app::Settings& settings, app::ConversationStore& chats,
              const QString& folder, QObject* parent = nullptr);

  app::EngineClient& engine() const { return m_engine; }
  app::Settings& settings() const { return m_settings; }
  app::ConversationStore& chats() const { return m_chats; }
  app::studio::StudioSession& session() { return *m_session; }

  std::shared_ptr<const engine::Model> model() const;
  /// The model as it runs (its KV heads may be others than the file's). Requires: model().
  engine::ModelConfig modelConfig() const;
  int nLayers() const;

  const std::vector<app::studio::CalibrationStore::Entry>& profiles() const { return m_profiles; }
  const engine::CalibrationPtr& profile() const { return m_profile; }  ///< null: none
  void setProfile(const engine::CalibrationPtr& profile);
  /// Why a profile cannot be used on the loaded model; empty where it can.
  QString problemOf(const engine::CalibrationProfile& profile) const;
  engine::Result<void> saveProfile(const engine::CalibrationProfile& profile);
  /// `file`: of an entry; where it was the chosen one, another is chosen.
  engine::Result<void> removeProfile(const QString& file);

  int site() const { return m_site; }
  void setSite(int site);

  Job job() const { return m_job; }  ///< the last that was begun: results are its
  bool canStart() const;  ///< a model, nothing loading, nothing running
  /// To be said before one of the session's jobs is started.
  void begin(Job job);

  /// FP16 weights and cache on the same backend: what everything is measured against.
  engine::EngineConfig referenceConfig() const;
  engine::EngineConfig config() const;  ///< what is wanted of the loaded engine
  bool isInForce(const engine::WeightPrecision& precision) const;
  /// Switches the loaded engine (and the next start) to a precision.
  void use(const engine::WeightPrecision& precision);
  /// The same with the cache's type.
  void useConfig(const engine::EngineConfig& config);

 signals:
  void modelChanged();
  void profilesChanged();
  void profileChanged();
  void siteChanged();
  void readinessChanged();  ///< canStart() or what is in force may be another

 private:
  void takeModel();
  void readProfiles();

  app::EngineClient& m_engine;
  app::Settings& m_settings;
  app::ConversationStore& m_chats;
  app::studio::CalibrationStore m_store;
  app::studio::StudioSession* m_session;
  std::vector<app::studio::CalibrationStore::Entry> m_profiles;
  engine::CalibrationPtr m_profile;
  std::string m_fingerprint;
  int m_site = 0;
  Job m_job = Job::kNone;
};

}  // namespace vitrine::ui

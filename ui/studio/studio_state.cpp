#include "ui/studio/studio_state.h"

#include <algorithm>

#include "app/chat/engine_client.h"
#include "app/settings.h"
#include "ui/common/engine_switching.h"
#include "ui/studio/studio_words.h"

namespace vitrine::ui {

using app::studio::StudioSession;

StudioState::StudioState(app::EngineClient& engine, app::Settings& settings,
                         app::ConversationStore& chats, const QString& folder, QObject* parent)
    : QObject(parent),
      m_engine(engine),
      m_settings(settings),
      m_chats(chats),
      m_store(folder),
      m_session(new StudioSession(this)) {
  connect(&m_engine, &app::EngineClient::modelLoaded, this, &StudioState::takeModel);
  connect(&m_engine, &app::EngineClient::modelUnloaded, this, &StudioState::takeModel);
  connect(&m_engine, &app::EngineClient::loadStarted, this, &StudioState::readinessChanged);
  connect(&m_engine, &app::EngineClient::loadFailed, this, &StudioState::readinessChanged);
  connect(m_session, &StudioSession::runningChanged, this, &StudioState::readinessChanged);
  takeModel();
}

std::shared_ptr<const engine::Model> StudioState::model() const {
  return m_engine.info() ? m_engine.model() : nullptr;
}

engine::ModelConfig StudioState::modelConfig() const {
  return m_engine.info()->config;
}

int StudioState::nLayers() const {
  return m_engine.info() ? m_engine.info()->config.nLayers : 0;
}

void StudioState::takeModel() {
  const auto loaded = model();
  const std::string fingerprint = loaded ? loaded->fingerprint() : std::string();
  const bool isAnother = fingerprint != m_fingerprint;
  m_fingerprint = fingerprint;
  if (isAnother) {
    if (m_session->isRunning()) m_session->stop();  // what it measures is gone
    m_site = 0;
    m_profile = nullptr;
    readProfiles();
    emit modelChanged();
  }
  emit readinessChanged();
}

void StudioState::readProfiles() {
  m_profiles.clear();
  if (!m_fingerprint.empty()) m_profiles = m_store.list(m_fingerprint);
  // What the model runs with, else the newest that can be used.
  const auto& running = m_engine.config().precision.calibration;
  engine::CalibrationPtr found;
  bool isThere = false;
  for (const auto& entry : m_profiles) {
    if (!entry.profile || !problemOf(*entry.profile).isEmpty()) continue;
    if (m_profile && entry.profile->id == m_profile->id) isThere = true;
    if (!found || (running && entry.profile->id == running->id)) found = entry.profile;
  }
  emit profilesChanged();
  if (!isThere) setProfile(found);
}

void StudioState::setProfile(const engine::CalibrationPtr& profile) {
  if (profile == m_profile) return;
  m_profile = profile;
  emit profileChanged();
}

QString StudioState::problemOf(const engine::CalibrationProfile& profile) const {
  if (!model()) return {};
  const auto checked = engine::checkProfile(profile, m_fingerprint, modelConfig());
  return checked ? QString() : sentenceText(checked.error().message);
}

engine::Result<void> StudioState::saveProfile(const engine::CalibrationProfile& profile) {
  const auto saved = m_store.save(profile);
  if (!saved) return tl::unexpected(saved.error());
  readProfiles();
  for (const auto& entry : m_profiles) {
    if (entry.profile && entry.profile->id == profile.id && problemOf(profile).isEmpty()) {
      setProfile(entry.profile);
      break;
    }
  }
  return {};
}

engine::Result<void> StudioState::removeProfile(const QString& file) {
  VITRINE_TRY(m_store.remove(file));
  readProfiles();
  return {};
}

void StudioState::setSite(int site) {
  if (site == m_site || site < 0 || site >= engine::siteCount(nLayers())) return;
  m_site = site;
  emit siteChanged();
}

bool StudioState::canStart() const {
  return model() && !m_engine.isLoading() && !m_session->isRunning();
}

void StudioState::begin(Job job) {
  m_job = job;
}

engine::EngineConfig StudioState::config() const {
  return wantedConfig(m_engine, m_settings);
}

engine::EngineConfig StudioState::referenceConfig() const {
  engine::EngineConfig reference = config();
  reference.precision = {};
  reference.precision.weights = engine::WeightMode::kFp16;
  reference.cache.type = engine::KvType::kFp16;
  return reference;
}

bool StudioState::isInForce(const engine::WeightPrecision& precision) const {
  return m_engine.info() && m_engine.config().precision == precision;
}

void StudioState::use(const engine::WeightPrecision& precision) {
  engine::EngineConfig wanted = config();
  wanted.precision = precision;
  useConfig(wanted);
}

void StudioState::useConfig(const engine::EngineConfig& config) {
  engine::EngineConfig wanted = this->config();
  wanted.precision = config.precision;
  wanted.cache.type = config.cache.type;
  switchEngine(m_engine, m_settings, wanted);
  emit readinessChanged();
}

}  // namespace vitrine::ui

#include "ui/precision/range_guard.h"

#include <QStringList>
#include <algorithm>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/chat/prompt_messages.h"
#include "app/settings.h"
#include "app/studio/calibration_store.h"
#include "app/studio/profile_list.h"
#include "app/text.h"
#include "engine/measure/machine.h"
#include "ui/common/engine_switching.h"
#include "ui/common/format.h"
#include "ui/common/toast.h"
#include "ui/precision/precision_choices.h"
#include "ui/precision/range_notice.h"

namespace vitrine::ui {
namespace {

constexpr int kLookMs = 500;
constexpr int kNamedLayers = 4;

QString layerText(const app::studio::RangeFinding& finding) {
  return finding.layer < 0 ? RangeGuard::tr("output") : QString::number(finding.layer);
}

// "Layer 3 leaves …", "Layers 3, 7 and 2 more leave …": worst first.
QString titleOf(const std::vector<app::studio::RangeFinding>& findings) {
  QStringList layers;
  for (const auto& finding : findings) {
    if (layers.size() < kNamedLayers) layers << layerText(finding);
  }
  if (findings.size() == 1) {
    return findings.front().layer < 0
               ? RangeGuard::tr("The output leaves its calibrated range")
               : RangeGuard::tr("Layer %1 leaves its calibrated range").arg(layers.front());
  }
  if (int(findings.size()) > kNamedLayers) {
    return RangeGuard::tr("Layers %1 and %2 more leave their calibrated range")
        .arg(layers.join(QStringLiteral(", ")))
        .arg(findings.size() - kNamedLayers);
  }
  const QString last = layers.takeLast();
  return RangeGuard::tr("Layers %1 and %2 leave their calibrated range")
      .arg(layers.join(QStringLiteral(", ")), last);
}

bool isStatic(const engine::WeightPrecision& precision) {
  return precision.weights == engine::WeightMode::kInt8 &&
         precision.activations == engine::ActivationMode::kInt8 &&
         precision.activationScales == engine::ActivationScales::kStatic && precision.calibration;
}

}  // namespace

RangeGuard::RangeGuard(app::EngineClient& engine, app::Settings& settings,
                       app::studio::ProfileList& profiles, QWidget* place)
    : QObject(place),
      m_engine(engine),
      m_settings(settings),
      m_profiles(profiles),
      m_notice(new RangeNotice(place)),
      m_studio(new app::studio::StudioSession(this)) {
  m_timer.setInterval(kLookMs);
  connect(&m_timer, &QTimer::timeout, this, &RangeGuard::look);
  connect(&engine, &app::EngineClient::busyChanged, this, [this](bool busy) {
    busy ? m_timer.start() : m_timer.stop();
    if (!busy) look();
  });
  connect(&engine, &app::EngineClient::turnFinished, this, &RangeGuard::look);
  // Another precision or profile: what was said is not so any more.
  connect(&engine, &app::EngineClient::modelLoaded, this, [this] {
    const engine::WeightPrecision& now = m_engine.info()->running.precision;
    if (!isStatic(now) || now.calibration->id != m_profile) takeAway();
  });
  connect(&engine, &app::EngineClient::modelUnloaded, this, &RangeGuard::takeAway);
  connect(m_notice, &RangeNotice::acknowledged, this, &RangeGuard::takeAway);
  connect(m_notice, &RangeNotice::dynamicWanted, this, &RangeGuard::useDynamicScales);
  connect(m_notice, &RangeNotice::calibrationWanted, this, &RangeGuard::calibrateOnChat);
  connect(m_notice, &RangeNotice::stopWanted, m_studio, &app::studio::StudioSession::stop);
  connect(m_studio, &app::studio::StudioSession::progressed, m_notice, &RangeNotice::showProgress);
  connect(m_studio, &app::studio::StudioSession::calibrated, this, &RangeGuard::takeProfile);
  connect(m_studio, &app::studio::StudioSession::failed, this, [this](const engine::Error& error) {
    m_notice->showProgress({}, -1);
    tell();
    if (error.code != engine::ErrorCode::kCancelled) {
      m_notice->showFault(app::toQString(error.message));
    }
  });
}

void RangeGuard::setSession(app::ChatSession* session) {
  m_session = session;
  if (!m_findings.empty()) tell();
}

void RangeGuard::look() {
  const app::ModelInfoPtr info = m_engine.info();
  if (!info || m_engine.isLoading() || !isStatic(info->running.precision)) return;
  const auto news =
      m_watch.look(m_engine.snapshot()->activationUse, *info->running.precision.calibration);
  if (news.empty()) return;
  m_profile = info->running.precision.calibration->id;
  m_findings.insert(m_findings.end(), news.begin(), news.end());
  std::stable_sort(m_findings.begin(), m_findings.end(),
                   [](const auto& a, const auto& b) { return a.clippedShare > b.clippedShare; });
  tell();
}

void RangeGuard::tell() {
  const app::ModelInfoPtr info = m_engine.info();
  if (m_findings.empty() || !info || !info->running.precision.calibration) return;
  const app::studio::RangeFinding& worst = m_findings.front();
  QString place = siteText(worst.site, info->config.nLayers);
  place[0] = place[0].toUpper();
  m_notice->showFinding(
      titleOf(m_findings),
      tr("%1: %2 of the values of the last %3 tokens were clipped, up to %4 where %5 is the limit. "
         "The profile “%6” was calibrated on other text; answers may get worse.")
          .arg(place, smallShareText(worst.clippedShare), countText(worst.tokens))
          .arg(double(worst.largest), 0, 'g', 3)
          .arg(double(worst.limit), 0, 'g', 3)
          .arg(oneLine(app::toQString(info->running.precision.calibration->name), 40)));
  const bool hasChat = m_session && !m_session->rows().empty();
  m_notice->setCanCalibrate(hasChat && !m_studio->isRunning(),
                            hasChat ? tr("A calibration runs.") : tr("No chat is open."));
}

void RangeGuard::takeAway() {
  m_findings.clear();
  m_studio->stop();
  m_notice->showProgress({}, -1);
  m_notice->hide();
}

void RangeGuard::useDynamicScales() {
  engine::EngineConfig config = wantedConfig(m_engine, m_settings);
  config.precision.activationScales = engine::ActivationScales::kDynamic;
  takeAway();
  switchEngine(m_engine, m_settings, config);
}

void RangeGuard::calibrateOnChat() {
  const app::ModelInfoPtr info = m_engine.info();
  if (!info || !m_session || m_studio->isRunning()) return;
  const std::uint64_t available = engine::availableMemoryBytes();
  if (info->backend.kind != engine::BackendKind::kCuda && info->fileBytes > available) {
    m_notice->showFault(tr("Calibrating needs the model once more, about %1, and %2 are free.")
                            .arg(bytesText(info->fileBytes), bytesText(available)));
    return;
  }
  std::vector<app::Message> path;
  for (const app::MessageRow& row : m_session->rows()) path.push_back(row.message);
  path.emplace_back().role = app::Role::kAssistant;  // an answer to come, which is left out
  app::studio::CalibrationJob job;
  job.model = m_engine.model();
  job.config = info->running;
  const QString title = m_session->conversation().title;
  app::studio::StudioText text;
  text.name = title.isEmpty() ? tr("This chat") : title;
  text.messages = app::promptMessages(m_session->conversation(), path, [](const app::Message&) {
                    return false;
                  }).messages;
  job.options.name = app::toUtf8(text.name);
  job.texts.push_back(std::move(text));
  const engine::CalibrationProfile& before = *info->running.precision.calibration;
  job.options.method = before.method;
  job.options.percentile = before.percentile;
  m_notice->showProgress(tr("Preparing"), 0);
  m_studio->calibrate(std::move(job));
  tell();
}

void RangeGuard::takeProfile(const engine::CalibrationPtr& profile) {
  m_notice->showProgress({}, -1);
  const auto saved = app::studio::CalibrationStore(m_profiles.folder()).save(*profile);
  if (!saved) return m_notice->showFault(app::toQString(saved.error().message));
  m_profiles.refresh();
  engine::EngineConfig config = wantedConfig(m_engine, m_settings);
  if (!isStatic(config.precision)) return;  // the person chose otherwise meanwhile
  config.precision.calibration = profile;
  takeAway();
  switchEngine(m_engine, m_settings, config);
  Toast::of(m_notice)->showMessage(
      tr("Calibrated on “%1”").arg(oneLine(app::toQString(profile->name), 40)));
}

}  // namespace vitrine::ui

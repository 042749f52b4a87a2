#pragma once

#include <QObject>
#include <QPointer>
#include <QTimer>
#include <vector>

#include "app/studio/range_watch.h"
#include "app/studio/studio_session.h"

class QWidget;

namespace vitrine::app {
class ChatSession;
class EngineClient;
class Settings;
namespace studio {
class ProfileList;
}
}  // namespace vitrine::app

namespace vitrine::ui {

class RangeNotice;

/// Warns, under static scales, when a layer's live values leave the range that its profile was
/// calibrated for, and does what the person chooses: dynamic scales, or a profile of the open chat.
/// Looks at the engine twice a second while it is busy, and once after each turn.
class RangeGuard final : public QObject {
  Q_OBJECT
 public:
  /// The warning appears over `place`. Requires: all outlive it.
  RangeGuard(app::EngineClient& engine, app::Settings& settings, app::studio::ProfileList& profiles,
             QWidget* place);

  /// The chat that can be calibrated on; null: none.
  void setSession(app::ChatSession* session);
  RangeNotice* notice() const { return m_notice; }
  const std::vector<app::studio::RangeFinding>& findings() const { return m_findings; }

 private:
  void look();
  void tell();
  void takeAway();
  void useDynamicScales();
  void calibrateOnChat();
  void takeProfile(const engine::CalibrationPtr& profile);

  app::EngineClient& m_engine;
  app::Settings& m_settings;
  app::studio::ProfileList& m_profiles;
  QPointer<app::ChatSession> m_session;
  QTimer m_timer;
  app::studio::RangeWatch m_watch;
  std::vector<app::studio::RangeFinding> m_findings;  ///< not acknowledged yet; worst first
  std::string m_profile;  ///< of the findings
  RangeNotice* m_notice;
  app::studio::StudioSession* m_studio;
};

}  // namespace vitrine::ui

#pragma once

#include <QElapsedTimer>
#include <QPointer>
#include <QTimer>
#include <QWidget>

#include "ui/inspector/inspector_state.h"

class QStackedWidget;
class QTabBar;

namespace vitrine::app {
class ChatSession;
class EngineClient;
class Settings;
namespace studio {
class ProfileList;
}
}  // namespace vitrine::app

namespace vitrine::ui {

class InspectorTab;

/// The right side (364 px): what the engine does, in tabs. Looks at the engine at most ten times a
/// second while something runs and the panel is on screen, once after each change, never else.
class InspectorPanel final : public QWidget {
  Q_OBJECT
 public:
  /// Requires: `engine` and `settings` outlive it.
  InspectorPanel(app::EngineClient& engine, app::Settings& settings, QWidget* parent = nullptr);

  /// The chat whose cache and turns are shown; null: none.
  void setSession(app::ChatSession* session);
  /// How other conversations (by the key that the engine knows) are called and coloured.
  void setOwnerLook(std::function<OwnerLook(const QString& conversation)> look);

  /// Tokens of each of the person's chats; asked for when turns have changed.
  void setChatLengths(std::function<std::vector<int>()> lengths);

  /// The calibration profiles that can be chosen. Requires: it outlives the panel.
  void setProfiles(app::studio::ProfileList* profiles);

  /// "cache", "latency", "precision"; unknown names change nothing.
  void showTab(const QString& name);
  QString currentTab() const;
  const InspectorState& state() const { return m_state; }

 public slots:
  /// Looks again soon (within a tenth of a second).
  void refreshSoon();

 signals:
  /// A calibration profile is to be made.
  void studioWanted();
  /// The person chose a block or a branch of the cache.
  void messageWanted(const QString& conversation, const QString& branch, int position);

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void refresh();
  void collectTurns();
  void readBlock(int block);
  void onBlock(quint64 id, const engine::BlockContent& content);
  void onTokens(const std::vector<engine::GeneratedToken>& tokens);
  void verifyCache();
  void applyConfig(const engine::EngineConfig& config);

  app::EngineClient& m_engine;
  app::Settings& m_settings;
  QPointer<app::ChatSession> m_session;
  app::studio::ProfileList* m_profiles = nullptr;
  InspectorState m_state;
  QElapsedTimer m_sinceMemory;
  bool m_turnsChanged = true;
  std::function<std::vector<int>()> m_chatLengths;
  engine::RequestId m_blockRequest = 0;  ///< the latest question for a block's text
  QTabBar* m_tabs;
  QStackedWidget* m_pages;
  QTimer m_refresh;  ///< single shot; started by changes, and by itself while the engine is busy
};

}  // namespace vitrine::ui

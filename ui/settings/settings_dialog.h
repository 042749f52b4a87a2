#pragma once

#include <QDialog>

class QListWidget;
class QStackedWidget;

namespace vitrine::app {
class EngineClient;
class LocalServer;
class Settings;
}  // namespace vitrine::app

namespace vitrine::ui {

/// The settings, in pages. What is harmless takes effect at once; how the engine runs is applied
/// with a button, since it may empty the cache.
class SettingsDialog final : public QDialog {
  Q_OBJECT
 public:
  /// Requires: `engine`, `settings` and `server` outlive it.
  SettingsDialog(app::EngineClient& engine, app::Settings& settings, app::LocalServer& server,
                 QString standardModelFolder, QWidget* parent = nullptr);

  /// "general", "engine", "chats", "archive", "sampling", "server", "keys".
  void showPage(const QString& name);

 private:
  void addPage(const QString& name, const QString& title, QWidget* page);

  QListWidget* m_list;
  QStackedWidget* m_pages;
};

}  // namespace vitrine::ui

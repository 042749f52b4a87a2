#pragma once

#include <QObject>
#include <QString>
#include <filesystem>

class QWidget;

namespace vitrine::app {
class EngineClient;
class Settings;
}  // namespace vitrine::app

namespace vitrine::ui {

/// Opens model files for the window: starts the load with the person's settings, remembers what
/// loaded, and says what failed. One for the window.
class ModelOpener final : public QObject {
  Q_OBJECT
 public:
  /// Requires: `engine` and `settings` outlive it.
  ModelOpener(app::EngineClient& engine, app::Settings& settings, QObject* parent = nullptr);

  void open(const std::filesystem::path& path);
  /// Asks for a file first.
  void openWithDialog(QWidget* parent);
  /// Whether this load was asked for here (its failure is told by failed()).
  bool started(quint64 request) const { return request == m_request; }
  /// The file that is being loaded; empty: none.
  const std::filesystem::path& opening() const { return m_opening; }

 signals:
  void openingChanged();
  void opened(const std::filesystem::path& path);
  /// Something of the settings does not fit and is left out: a sentence.
  void noticed(const QString& message);
  /// `message` is a sentence with markup shown literally; `kept`: the model before is still there.
  /// A load that the person stopped does not come here.
  void failed(const std::filesystem::path& path, const QString& message, bool kept);

 private:
  app::EngineClient& m_engine;
  app::Settings& m_settings;
  std::filesystem::path m_opening;
  quint64 m_request = 0;
};

}  // namespace vitrine::ui

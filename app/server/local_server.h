#pragma once

#include <QObject>
#include <QString>
#include <memory>

namespace vitrine::app {

class ApiServer;
class EngineClient;
class Settings;

/// The window's own API server (OpenAI-compatible, loopback only), as the settings want it: follows
/// them, so that a switch, another port or another key takes effect at once. Its turns run on the
/// window's engine. Window's thread.
class LocalServer final : public QObject {
  Q_OBJECT
 public:
  /// Starts at once if the settings say so. Requires: `engine` and `settings` outlive it.
  LocalServer(EngineClient& engine, Settings& settings, QObject* parent = nullptr);
  ~LocalServer() override;

  bool isRunning() const { return m_server != nullptr; }
  QString url() const;                           ///< "http://127.0.0.1:8642"; empty: not running
  QString problem() const { return m_problem; }  ///< why it does not run although it should

 signals:
  void changed();

 private:
  void follow();

  EngineClient& m_engine;
  Settings& m_settings;
  std::unique_ptr<ApiServer> m_server;
  int m_port = 0;
  QString m_key;
  QString m_problem;
};

}  // namespace vitrine::app

#include "app/server/local_server.h"

#include "app/chat/engine_client.h"
#include "app/server/api_server.h"
#include "app/settings.h"
#include "app/text.h"

namespace vitrine::app {

LocalServer::LocalServer(EngineClient& engine, Settings& settings, QObject* parent)
    : QObject(parent), m_engine(engine), m_settings(settings) {
  connect(&settings, &Settings::changed, this, &LocalServer::follow);
  follow();
}

LocalServer::~LocalServer() = default;

QString LocalServer::url() const {
  return m_server ? toQString(m_server->url()) : QString();
}

void LocalServer::follow() {
  const bool wanted = m_settings.serverEnabled();
  const int port = m_settings.serverPort();
  const QString key = m_settings.serverKey();
  const bool same = port == m_port && key == m_key;
  if (wanted == isRunning() && (!wanted || same)) {
    if (!wanted && !m_problem.isEmpty()) {
      m_problem.clear();
      emit changed();
    }
    return;
  }
  if (wanted && same && !m_problem.isEmpty()) return;  // failed with these; wait for others
  m_server.reset();
  m_problem.clear();
  m_port = port;
  m_key = key;
  if (wanted) {
    ApiServer::Options options;
    options.port = port;
    options.apiKey = toUtf8(key);
    m_server = std::make_unique<ApiServer>(m_engine.engine(), m_engine.router(), options);
    if (const auto started = m_server->start(); !started) {
      m_problem = toQString(started.error().message);
      m_server.reset();
    }
  }
  emit changed();
}

}  // namespace vitrine::app

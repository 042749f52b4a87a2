#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "app/server/api_server.h"
#include "tests/app/http_client.h"

namespace vitrine::test {

inline const char* const kChat = "/v1/chat/completions";
inline const char* const kCompletions = "/v1/completions";

/// An engine with a model, and the API in front of it.
class ApiFixture {
 public:
  explicit ApiFixture(const std::filesystem::path& model, app::ApiServer::Options options = {},
                      engine::EngineConfig config = {})
      : engine([this](const engine::Event& event) { hear(event); }) {
    config.threads = 1;
    if (!model.empty()) {
      engine.load(model, config);
      std::unique_lock lock(m_mutex);
      m_changed.wait_for(lock, std::chrono::seconds(120), [&] { return m_loaded || m_failed; });
    }
    options.port = 0;
    server = std::make_unique<app::ApiServer>(engine, router, std::move(options));
    port = server->start().value_or(0);
  }
  bool isLoaded() const { return m_loaded; }
  bool isAlive() const { return request(port, "GET", "/v1/models").status == 200; }

  app::EventRouter router;

 private:
  void hear(const engine::Event& event) {
    router.deliver(event);
    const std::lock_guard lock(m_mutex);
    m_loaded |= std::holds_alternative<engine::ModelLoaded>(event);
    m_failed |= std::holds_alternative<engine::LoadFailed>(event);
    m_changed.notify_all();
  }
  std::mutex m_mutex;
  std::condition_variable m_changed;
  bool m_loaded = false, m_failed = false;

 public:
  engine::Engine engine;
  std::unique_ptr<app::ApiServer> server;
  int port = 0;
};

inline nlohmann::json chat(const std::string& text,
                           nlohmann::json more = nlohmann::json::object()) {
  more["messages"] = nlohmann::json::array({{{"role", "user"}, {"content", text}}});
  if (!more.contains("temperature")) more["temperature"] = 0;
  return more;
}

inline std::string textOf(const HttpAnswer& answer) {
  const nlohmann::json body = answer.json();
  if (answer.status != 200) return "status " + std::to_string(answer.status);
  const nlohmann::json& choice = body["choices"][0];
  return choice.contains("message") ? choice["message"]["content"] : choice["text"];
}

}  // namespace vitrine::test

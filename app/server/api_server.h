#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "app/server/event_router.h"
#include "engine/engine.h"

namespace vitrine::app {

/// The OpenAI-compatible API over an engine: /v1/models, /v1/chat/completions, /v1/completions
/// (streamed and not), /tokenize, /detokenize, /health, /metrics. Requests run side by side; the
/// engine batches them. A client that goes away stops its turn.
///
///     EventRouter router;
///     engine::Engine engine([&](const engine::Event& event) { router.deliver(event); });
///     ApiServer server(engine, router, {.port = 0});
///     auto port = server.start();   // Result<int>
///
/// Engine and router must outlive the server. A model may be loaded before or later; without one,
/// requests get status 503.
class ApiServer final {
 public:
  /// One that other programs of this kind leave free.
  static constexpr int kDefaultPort = 8642;

  struct Options {
    std::string host = "127.0.0.1";
    int port = kDefaultPort;  ///< 0: a free one
    std::string apiKey;       ///< empty: none is asked for
    std::string corsOrigin;   ///< the one web origin that may call, or "*"; empty: none
    std::size_t maxBodyBytes = std::size_t{16} << 20U;
    std::string modelName;  ///< what /v1/models says; empty: the file's name
  };

  ApiServer(engine::Engine& engine, EventRouter& router, Options options);
  /// Stops; turns that run for clients are cancelled.
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  /// Binds, and serves on threads of its own. Returns the port. Errors: the address is taken.
  engine::Result<int> start();
  /// Waits until all connections are closed. May be called twice, and by any thread.
  void stop();
  int port() const;
  /// "http://127.0.0.1:8642"
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> m_impl;
};

}  // namespace vitrine::app

// `serve`: the OpenAI-compatible API on this machine until Ctrl+C.
#include <csignal>
#include <memory>

#include "app/cli/command.h"
#include "app/cli/engine_session.h"
#include "app/cli/option_values.h"
#include "app/cli/options.h"
#include "app/server/api_server.h"

namespace vitrine::app::cli {
namespace {

struct ServeOptions {
  ModelOptions model;
  ApiServer::Options server;
};

int serve(const ServeOptions& options) {
  auto path = options.model.resolveModel();
  if (!path) return report(path.error());
  auto config = options.model.resolveConfig(*path);
  if (!config) return report(config.error());
  // Blocked while threads are made, which inherit that: only this thread gets the signals, as a
  // cancelled load first, then in sigwait().
  sigset_t endSignals;
  sigemptyset(&endSignals);
  sigaddset(&endSignals, SIGINT);
  sigaddset(&endSignals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &endSignals, nullptr);

  EventRouter router;
  EngineSession session([&router](const engine::Event& event) { router.deliver(event); });
  pthread_sigmask(SIG_UNBLOCK, &endSignals, nullptr);
  auto info = session.load(*path, *config);
  pthread_sigmask(SIG_BLOCK, &endSignals, nullptr);
  if (!info) return report(info.error());
  ApiServer server(session.engine(), router, options.server);
  if (auto started = server.start(); !started) return report(started.error());
  printOut("listening on " + server.url() + "\n");
  int received = 0;
  sigwait(&endSignals, &received);
  server.stop();
  return 0;
}

}  // namespace

Command addServe(CLI::App& program) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* app = program.add_subcommand("serve", "Offer an OpenAI-compatible API");
  options->model.addTo(*app);
  app->add_option("--host", options->server.host, "address to listen on (127.0.0.1)");
  app->add_option("--port", options->server.port,
                  fmt::format("port; 0 picks a free one ({})", options->server.port))
      ->check(between(0, 65535));
  app->add_option("--api-key", options->server.apiKey, "clients must send it as a bearer token");
  return {app, [options] { return serve(*options); }};
}

}  // namespace vitrine::app::cli

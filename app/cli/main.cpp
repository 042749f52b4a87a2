// vitrine-cli: the engine of the window, for the terminal and for scripts.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <QGuiApplication>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "app/cli/command.h"
#include "engine/backend/gpu.h"

namespace vitrine::app::cli {

int report(const engine::Error& error) {
  std::fprintf(stderr, "vitrine-cli: %s\n", error.message.c_str());
  return error.code == engine::ErrorCode::kInvalidArgument ? kExitUsage : kExitFailure;
}

void printOut(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

namespace {

// Qt gives fonts, which PDF needs, only to GUI applications; no display is ever used.
std::unique_ptr<QCoreApplication> makeApplication(int& argc, char** argv, bool needsFonts) {
  QCoreApplication::setApplicationName("vitrine");
  if (!needsFonts) return std::make_unique<QCoreApplication>(argc, argv);
  qputenv("QT_QPA_PLATFORM", "offscreen");
  return std::make_unique<QGuiApplication>(argc, argv);
}

}  // namespace
}  // namespace vitrine::app::cli

int main(int argc, char** argv) {
  using namespace vitrine::app::cli;

  CLI::App program("Chat with a local language model and see how the answer is made",
                   "vitrine-cli");
  program.set_version_flag("--version", "vitrine-cli " VITRINE_VERSION " (" +
                                            vitrine::engine::describeGpuSupport() + ")");
  program.require_subcommand(1);
  const std::vector<Command> commands = {
      addChat(program),       addRun(program),           addLogits(program),
      addPerplexity(program), addCalibrate(program),     addSensitivity(program),
      addTokenize(program),   addDetokenize(program),    addTemplate(program),
      addInspect(program),    addConversations(program), addExport(program),
      addImport(program),     addServe(program),         addBench(program),
      addLab(program),        addDevices(program),
  };
  const auto isNamed = [&](const Command& command) { return command.app->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && std::none_of(commands.begin(), commands.end(), isNamed)) {
    std::fprintf(stderr, "vitrine-cli: there is no subcommand %s; --help lists them\n", argv[1]);
    return kExitUsage;
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& done) {  // --help, --version
    return program.exit(done);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr,
                 "vitrine-cli: %s\nRun vitrine-cli --help, or --help behind a subcommand.\n",
                 error.what());
    return kExitUsage;
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const auto application = makeApplication(argc, argv, command.needsFonts);
    return command.run();
  }
  return kExitUsage;
}

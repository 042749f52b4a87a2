// `chat`: a conversation in the terminal. The cache is kept across turns.
#include <unistd.h>

#include <iostream>
#include <memory>

#include "app/cli/command.h"
#include "app/cli/engine_session.h"
#include "app/cli/json_output.h"
#include "app/cli/options.h"
#include "app/paths.h"

namespace vitrine::app::cli {
namespace {

constexpr const char* kHelp =
    "/help        this list\n"
    "/regenerate  answer the last question again\n"
    "/edit TEXT   replace the last question\n"
    "/system TEXT set the system prompt and begin a new conversation\n"
    "/new         begin a new conversation\n"
    "/stats       what the last turn reused, computed and took\n"
    "/cache       the KV cache of this conversation\n"
    "/quit        leave (Ctrl+D too); Ctrl+C stops an answer\n";

struct ChatOptions {
  ModelOptions model;
  SamplingOptions sampling;
  std::string system;
};

/// The conversation and the commands that change it.
class TerminalChat {
 public:
  TerminalChat(const ChatOptions& options, EngineSession& session, const engine::ModelInfo& info)
      : m_options(options), m_session(session), m_info(info), m_system(options.system) {
    reset();
  }

  int loop() {
    const bool terminal = isatty(STDIN_FILENO) != 0;
    std::string line;
    while (true) {
      if (terminal) printOut("\n› ");
      if (!std::getline(std::cin, line)) return 0;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.empty()) continue;
      if (line.front() != '/') {
        ask(line);
      } else if (!command(line)) {
        return 0;
      }
    }
  }

 private:
  void reset() {
    m_messages.clear();
    if (!m_system.empty()) m_messages.push_back({"system", m_system, {}});
  }

  // Takes away the last answer; true if a question is left to answer.
  bool dropAnswer() {
    if (!m_messages.empty() && m_messages.back().role == "assistant") m_messages.pop_back();
    return !m_messages.empty() && m_messages.back().role == "user";
  }

  bool command(const std::string& line) {
    const auto space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (name == "/quit" || name == "/exit") return false;
    if (name == "/help") {
      printOut(kHelp);
    } else if (name == "/new") {
      reset();
      printOut("New conversation.\n");
    } else if (name == "/system") {
      m_system = rest;
      reset();
      printOut(rest.empty() ? "No system prompt; new conversation.\n"
                            : "System prompt set; new conversation.\n");
    } else if (name == "/regenerate") {
      if (dropAnswer())
        answer();
      else
        printOut("There is nothing to answer yet.\n");
    } else if (name == "/edit") {
      if (rest.empty()) {
        printOut("Write the new question behind /edit.\n");
      } else if (dropAnswer()) {
        m_messages.pop_back();
        ask(rest);
      } else {
        printOut("There is no question to edit yet.\n");
      }
    } else if (name == "/stats") {
      printOut(m_last ? summary(*m_last) + fmt::format(" · {:.0f} tokens/s\n", m_last->decodeTps)
                      : std::string("No turn yet.\n"));
    } else if (name == "/cache") {
      if (m_last) {
        printOut(fmt::format(
            "{:.2f} MB in use by formula {:.2f} MB, {:.2f} MB reserved: {} blocks of {} tokens, {} "
            "in the pool\n",
            m_last->kv.bytesUsed / 1e6, m_last->kv.bytesFormula / 1e6,
            m_last->kv.bytesReserved / 1e6, m_last->kv.blocksUsed, m_last->kv.blockSize,
            m_last->kv.blocksTotal));
      } else {
        printOut("No turn yet.\n");
      }
    } else {
      printOut(name + " is no command. /help lists them.\n");
    }
    return true;
  }

  void ask(const std::string& question) {
    m_messages.push_back({"user", question, {}});
    answer();
  }

  void answer() {
    engine::GenerateRequest request;
    request.prompt = engine::ChatPrompt{m_messages};
    request.sampling = m_options.sampling.resolve(m_info.defaults);
    request.maxTokens = m_options.sampling.maxTokens.value_or(0);
    request.conversation = "chat";
    auto done = m_session.generate(std::move(request), printOut);
    if (!done) {
      printOut("\n" + done.error().message + "\n");
      m_messages.pop_back();  // the question can be asked again, shorter or in a /new conversation
      return;
    }
    printOut("\n");
    if (isatty(STDOUT_FILENO) != 0) printOut("\033[2m" + summary(*done) + "\033[0m\n");
    m_messages.push_back({"assistant", done->text, done->tokenIds});
    m_last = std::make_unique<engine::TurnReport>(std::move(*done));
  }

  const ChatOptions& m_options;
  EngineSession& m_session;
  const engine::ModelInfo& m_info;
  std::string m_system;
  std::vector<engine::ChatMessage> m_messages;
  std::unique_ptr<engine::TurnReport> m_last;
};

}  // namespace

Command addChat(CLI::App& program) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* app = program.add_subcommand("chat", "Chat in the terminal");
  options->model.addTo(*app);
  options->sampling.addTo(*app);
  app->add_option("--system", options->system, "system prompt")->type_name("TEXT");
  return {app, [options] {
            auto path = options->model.resolveModel();
            if (!path) return report(path.error());
            auto config = options->model.resolveConfig(*path);
            if (!config) return report(config.error());
            if (!options->model.archiveGiven) {
              config->archive.folder = Paths::standard().archive().toStdString();
            }
            EngineSession session;
            auto info = session.load(*path, *config);
            if (!info) return report(info.error());
            if (isatty(STDIN_FILENO) != 0) {
              printOut(fmt::format("{} · {} · {} · /help lists the commands\n", (*info)->name,
                                   (*info)->quantization, (*info)->backend.instructionSet));
            }
            return TerminalChat(*options, session, **info).loop();
          }};
}

}  // namespace vitrine::app::cli

// `run`: one answer, or the turns of one conversation from a file.
#include <memory>
#include <sstream>

#include "app/cli/command.h"
#include "app/cli/engine_session.h"
#include "app/cli/json_output.h"
#include "app/cli/options.h"

namespace vitrine::app::cli {

using engine::ErrorCode;
using engine::fail;
using engine::Result;
using Json = nlohmann::ordered_json;

namespace {

/// One line of a --turns file.
struct Turn {
  enum class Kind { kUser, kEdit, kRegenerate } kind = Kind::kUser;
  int userMessage = 0;  ///< kEdit: which user message is replaced, the first is 1
  std::string text;
};

Result<std::vector<Turn>> parseTurns(const std::string& text) {
  std::vector<Turn> turns;
  std::istringstream lines(text);
  std::string line;
  int number = 0;
  while (std::getline(lines, line)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) {
      return fail(ErrorCode::kInvalidArgument, "line {} of the turns is no JSON object", number);
    }
    Turn turn;
    if (json.contains("user") && json["user"].is_string()) {
      turn.text = json["user"];
      if (json.contains("edit")) {
        if (!json["edit"].is_number_integer()) {
          return fail(ErrorCode::kInvalidArgument, "line {}: \"edit\" must be a number", number);
        }
        turn.kind = Turn::Kind::kEdit;
        turn.userMessage = json["edit"];
      }
    } else if (json.value("regenerate", false)) {
      turn.kind = Turn::Kind::kRegenerate;
    } else {
      return fail(ErrorCode::kInvalidArgument,
                  "line {} must hold {{\"user\": …}}, {{\"edit\": k, \"user\": …}} or "
                  "{{\"regenerate\": true}}",
                  number);
    }
    turns.push_back(std::move(turn));
  }
  if (turns.empty()) return fail(ErrorCode::kInvalidArgument, "the turns file holds no turn");
  return turns;
}

/// Brings the path of messages to where the turn's answer is to follow.
Result<void> applyTurn(const Turn& turn, int number, std::vector<engine::ChatMessage>& messages) {
  if (turn.kind == Turn::Kind::kRegenerate) {
    if (messages.empty() || messages.back().role != "assistant") {
      return fail(ErrorCode::kInvalidArgument, "turn {}: there is no answer to regenerate", number);
    }
    messages.pop_back();
    return {};
  }
  if (turn.kind == Turn::Kind::kEdit) {
    int user = 0;
    std::size_t at = 0;
    for (; at < messages.size(); ++at) {
      if (messages[at].role == "user" && ++user == turn.userMessage) break;
    }
    if (at == messages.size()) {
      return fail(ErrorCode::kInvalidArgument,
                  "turn {}: there is no user message {} to edit (the first is 1, there are {})",
                  number, turn.userMessage, user);
    }
    messages.resize(at);
  }
  messages.push_back({"user", turn.text, {}});
  return {};
}

struct RunOptions {
  ModelOptions model;
  SamplingOptions sampling;
  TextOption prompt;
  std::string system, turns;
  std::vector<std::string> stop;
  bool raw = false, json = false, dropOldest = false, verify = false;
};

engine::GenerateRequest makeRequest(const RunOptions& options, const engine::ModelInfo& info) {
  engine::GenerateRequest request;
  request.sampling = options.sampling.resolve(info.defaults);
  request.maxTokens = options.sampling.maxTokens.value_or(0);
  request.stop = options.stop;
  request.conversation = "run";
  if (options.dropOldest) request.contextPolicy = engine::ContextPolicy::kDropOldest;
  return request;
}

/// The question with its answer, which is what the cache then holds.
engine::GenerateRequest withAnswer(engine::GenerateRequest request,
                                   const engine::TurnReport& report) {
  if (auto* chat = std::get_if<engine::ChatPrompt>(&request.prompt)) {
    chat->messages.push_back({"assistant", report.text, report.tokenIds});
  } else if (auto* raw = std::get_if<engine::RawPrompt>(&request.prompt)) {
    raw->text += report.text;
  }
  return request;
}

std::string summary(const engine::CacheProof& proof) {
  return fmt::format(
      "cache proof: {} of {} blocks differ · logits differ by at most {:.3g} over {} tokens · cold "
      "{:.0f} ms, cached {:.0f} ms",
      proof.differentBlocks, proof.blocks, proof.largestLogitDifference, proof.continuedTokens,
      proof.coldMs, proof.cachedMs);
}

/// One answer, printed as it comes or as JSON, with the proof of its cache where that is asked for.
Result<engine::TurnReport> answer(const RunOptions& options, EngineSession& session,
                                  const engine::ModelInfo& info,
                                  const engine::GenerateRequest& request) {
  VITRINE_ASSIGN(auto done, session.generate(request, [&](const std::string& piece) {
    if (!options.json) printOut(piece);
  }));
  if (!options.json) {
    printOut("\n");
    std::fprintf(stderr, "[%s]\n", cli::summary(done).c_str());
  }
  Json json = toJson(done);
  addMode(json, info.running);
  json["kv_heads"] = info.config.nKvHeads;
  json["backend_note"] = info.backend.note;
  if (options.json) {
    json["memory"] = toJson(engine::readMemoryLedger(*session.idleSnapshot(), info.path));
  }
  if (options.verify && done.stopReason != engine::StopReason::kCancelled) {
    VITRINE_ASSIGN(const auto proof, session.verify(withAnswer(request, done)));
    json["proof"] = toJson(proof);
    if (!options.json) std::fprintf(stderr, "[%s]\n", summary(proof).c_str());
  }
  if (options.json) printJson(json);
  return done;
}

int runTurns(const RunOptions& options, EngineSession& session, const engine::ModelInfo& info) {
  auto text = readAll(options.turns);
  if (!text) return report(text.error());
  auto turns = parseTurns(*text);
  if (!turns) return report(turns.error());

  engine::GenerateRequest request = makeRequest(options, info);
  std::vector<engine::ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system, {}});
  int number = 0;
  for (const Turn& turn : *turns) {
    ++number;
    if (auto ok = applyTurn(turn, number, messages); !ok) return report(ok.error());
    request.prompt = engine::ChatPrompt{messages};
    if (!options.json) printOut("> " + messages.back().content + "\n");
    auto done = answer(options, session, info, request);
    if (!done) return report(done.error());
    messages.push_back({"assistant", done->text, done->tokenIds});
    if (done->stopReason == engine::StopReason::kCancelled) return kExitFailure;
  }
  return 0;
}

int runOnce(const RunOptions& options, EngineSession& session, const engine::ModelInfo& info) {
  auto text = options.prompt.read();
  if (!text) return report(text.error());
  engine::GenerateRequest request = makeRequest(options, info);
  if (options.raw) {
    // Who feeds raw text writes the template's part too, so its control tokens are meant.
    request.prompt = engine::RawPrompt{*text, true};
  } else {
    engine::ChatPrompt chat;
    if (!options.system.empty()) chat.messages.push_back({"system", options.system, {}});
    chat.messages.push_back({"user", *text, {}});
    request.prompt = std::move(chat);
  }
  auto done = answer(options, session, info, request);
  if (!done) return report(done.error());
  return done->stopReason == engine::StopReason::kCancelled ? kExitFailure : 0;
}

}  // namespace

Command addRun(CLI::App& program) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* app = program.add_subcommand("run", "Answer one prompt, or the turns of a file");
  options->model.addTo(*app);
  options->sampling.addTo(*app);
  options->prompt.addTo(*app, "the prompt");
  app->add_option("--system", options->system, "system prompt")->type_name("TEXT");
  app->add_flag("--raw", options->raw, "feed the text as it is, without the chat template");
  app->add_option("--stop", options->stop, "a text that ends the answer; can be repeated")
      ->type_name("TEXT");
  app->add_flag("--drop-oldest", options->dropOldest,
                "when the context is full, leave out the oldest turns");
  app->add_flag("--verify", options->verify,
                "after each answer, compare the cache with a cold prefill (proof)");
  app->add_flag("--json", options->json, "print one JSON object (one a turn)");
  app->add_option("--turns", options->turns,
                  "JSONL, one turn a line: {\"user\": TEXT}, {\"edit\": K, \"user\": TEXT} (branch "
                  "at user message K, the first is 1), {\"regenerate\": true}")
      ->type_name("FILE")
      ->excludes(options->prompt.textOption)
      ->excludes(options->prompt.fileOption);
  return {app, [options] {
            if (options->turns.empty() && !options->prompt.given()) {
              return report({ErrorCode::kInvalidArgument,
                             "nothing to answer: give -p TEXT, -f FILE or --turns FILE"});
            }
            auto path = options->model.resolveModel();
            if (!path) return report(path.error());
            auto config = options->model.resolveConfig(*path);
            if (!config) return report(config.error());
            EngineSession session;
            auto info = session.load(*path, *config);
            if (!info) return report(info.error());
            return options->turns.empty() ? runOnce(*options, session, **info)
                                          : runTurns(*options, session, **info);
          }};
}

}  // namespace vitrine::app::cli

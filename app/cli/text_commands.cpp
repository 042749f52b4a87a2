// `tokenize`, `detokenize`, `template`: text in, text out, nothing computed by the model.
#include <memory>

#include "app/cli/command.h"
#include "app/cli/json_output.h"
#include "app/cli/options.h"
#include "engine/model/model.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app::cli {

using engine::ErrorCode;
using engine::Model;
using engine::Result;
using Json = nlohmann::ordered_json;

namespace {

Result<std::shared_ptr<const Model>> loadModel(const ModelOptions& options) {
  auto path = options.resolveModel();
  if (!path) return tl::unexpected(path.error());
  return Model::load(*path);
}

struct TokenizeOptions {
  ModelOptions model;
  TextOption text;
  bool noSpecial = false, json = false;
};

int tokenize(const TokenizeOptions& options) {
  auto text = options.text.read();
  if (!text) return report(text.error());
  auto model = loadModel(options.model);
  if (!model) return report(model.error());
  const auto& tokenizer = (*model)->tokenizer();
  const auto ids =
      options.noSpecial ? tokenizer.encode(*text) : tokenizer.encodeWithControlTokens(*text);
  if (options.json) {
    Json pieces = Json::array();
    for (const auto id : ids) pieces.push_back(std::string(tokenizer.piece(id)));
    printJson({{"ids", ids}, {"pieces", std::move(pieces)}});
    return 0;
  }
  for (const auto id : ids) printOut(fmt::format("{:>8}  {}\n", id, tokenizer.piece(id)));
  return 0;
}

struct DetokenizeOptions {
  ModelOptions model;
  std::vector<int> ids;
  bool json = false;
};

int detokenize(const DetokenizeOptions& options) {
  auto model = loadModel(options.model);
  if (!model) return report(model.error());
  const auto& tokenizer = (*model)->tokenizer();
  std::string text;
  for (const int id : options.ids) {
    if (id < 0 || id >= tokenizer.vocabSize()) {
      return report({ErrorCode::kInvalidArgument,
                     fmt::format("{} is no token of this model: its ids are 0 to {}", id,
                                 tokenizer.vocabSize() - 1)});
    }
    text += tokenizer.isControl(id) ? tokenizer.piece(id) : tokenizer.bytes(id);
  }
  if (options.json)
    printJson({{"text", text}});
  else
    printOut(text);
  return 0;
}

struct TemplateOptions {
  ModelOptions model;
  std::string file;
  bool noGenerationPrompt = false, json = false;
};

int renderTemplate(const TemplateOptions& options) {
  auto json = readAll(options.file);
  if (!json) return report(json.error());
  auto messages = parseMessages(*json);
  if (!messages) return report(messages.error());
  auto model = loadModel(options.model);
  if (!model) return report(model.error());
  auto pieces = (*model)->chatTemplate().render(*messages, !options.noGenerationPrompt);
  if (!pieces) return report(pieces.error());
  const std::string text = engine::joinPieces(*pieces);
  if (options.json)
    printJson({{"text", text}});
  else
    printOut(text);
  return 0;
}

}  // namespace

Command addTokenize(CLI::App& program) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* app = program.add_subcommand("tokenize", "Show the token ids of a text");
  options->model.addModelTo(*app);
  options->text.addTo(*app, "the text");
  app->add_flag("--no-special", options->noSpecial, "no control tokens, whatever the text spells");
  app->add_flag("--json", options->json, "print one JSON object");
  return {app, [options] { return tokenize(*options); }};
}

Command addDetokenize(CLI::App& program) {
  auto options = std::make_shared<DetokenizeOptions>();
  CLI::App* app = program.add_subcommand("detokenize", "Show the text of token ids");
  options->model.addModelTo(*app);
  app->add_option("ids", options->ids, "token ids, separated by spaces or commas")
      ->delimiter(',')
      ->required();
  app->add_flag("--json", options->json, "print one JSON object");
  return {app, [options] { return detokenize(*options); }};
}

Command addTemplate(CLI::App& program) {
  auto options = std::make_shared<TemplateOptions>();
  CLI::App* app =
      program.add_subcommand("template", "Show the prompt that the chat template makes");
  options->model.addModelTo(*app);
  app->add_option("-f,--file", options->file, "OpenAI messages (- is standard input)")
      ->type_name("MESSAGES.json")
      ->required();
  app->add_flag("--no-generation-prompt", options->noGenerationPrompt,
                "end behind the last message");
  app->add_flag("--json", options->json, "print one JSON object");
  return {app, [options] { return renderTemplate(*options); }};
}

}  // namespace vitrine::app::cli

// `logits`: what the model thinks comes next.

#include <QCryptographicHash>
#include <cmath>
#include <memory>

#include "app/cli/command.h"
#include "app/cli/interrupt.h"
#include "app/cli/json_output.h"
#include "app/cli/option_values.h"
#include "app/cli/options.h"
#include "app/text.h"
#include "engine/measure/distribution.h"
#include "engine/measure/evaluate.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app::cli {

using engine::ErrorCode;
using engine::Model;
using engine::Result;
using engine::TokenId;
using Json = nlohmann::ordered_json;

namespace {

/// The tokens of raw text, beginning with bos where the model wants it.
std::vector<TokenId> rawTokens(const engine::Tokenizer& tokenizer, const std::string& text,
                               bool parseControlTokens) {
  std::vector<TokenId> ids =
      parseControlTokens ? tokenizer.encodeWithControlTokens(text) : tokenizer.encode(text);
  const auto bos = tokenizer.bos();
  if (tokenizer.addsBos() && bos && (ids.empty() || ids.front() != *bos)) {
    ids.insert(ids.begin(), *bos);
  }
  return ids;
}

struct LogitsOptions {
  ModelOptions model;
  TextOption text;
  bool raw = false, json = false;
  int top = 10;
};

int logits(const LogitsOptions& options) {
  auto text = options.text.read();
  if (!text) return report(text.error());
  auto path = options.model.resolveModel();
  if (!path) return report(path.error());
  auto model = Model::load(*path);
  if (!model) return report(model.error());
  const auto& tokenizer = (*model)->tokenizer();

  std::vector<TokenId> ids;
  if (options.raw) {
    ids = rawTokens(tokenizer, *text, true);
  } else {
    const std::vector<engine::ChatMessage> messages = {{"user", *text, {}}};
    auto pieces = (*model)->chatTemplate().render(messages);
    if (!pieces) return report(pieces.error());
    ids = tokenizer.encode(*pieces, messages);
  }
  if (ids.empty()) return report({ErrorCode::kInvalidArgument, "the text is empty"});

  auto config = options.model.resolveConfig(*model);
  if (!config) return report(config.error());
  auto backend =
      engine::makeBackend(config->backend, *model, config->backendOptions(), showProgress);
  if (!backend) return report(backend.error());
  auto values = engine::nextTokenLogits(**backend, (*model)->config(), ids, config->cache.type);
  if (!values) return report(values.error());

  const auto best = engine::topTokens(*values, options.top);
  const QByteArray bytes =
      QByteArray::fromRawData(reinterpret_cast<const char*>(values->data()),
                              static_cast<qsizetype>(values->size() * sizeof(float)));
  const QByteArray hash = QCryptographicHash::hash(bytes, QCryptographicHash::Sha256).toHex();
  const auto textOf = [&](TokenId id) {
    return std::string(tokenizer.isControl(id) ? tokenizer.piece(id) : tokenizer.bytes(id));
  };
  if (options.json) {
    Json top = Json::array();
    for (const auto& token : best) {
      top.push_back({{"id", token.id}, {"text", textOf(token.id)}, {"logprob", token.logprob}});
    }
    printJson({{"tokens", ids}, {"top", top}, {"logits_sha256", hash.toStdString()}});
    return 0;
  }
  printOut(fmt::format("{} tokens; the next one:\n", ids.size()));
  for (const auto& token : best) {
    printOut(
        fmt::format("{:>8}  {:>7.2f} %  {}\n", token.id, std::exp(token.logprob) * 100,
                    Json(textOf(token.id)).dump(-1, ' ', false, Json::error_handler_t::replace)));
  }
  return 0;
}

}  // namespace

Command addLogits(CLI::App& program) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App* app = program.add_subcommand("logits", "Show the next token's distribution");
  options->model.addTo(*app);
  options->text.addTo(*app, "the text, as a user's message");
  app->add_flag("--raw", options->raw, "feed the text as it is, without the chat template");
  app->add_option("--top", options->top, "how many tokens to show (10)")->check(between(1, 1000));
  app->add_flag("--json", options->json, "print one JSON object");
  return {app, [options] { return logits(*options); }};
}

}  // namespace vitrine::app::cli

// `logits` and `perplexity`: what the model thinks of a text, and how far one mode is from another.
#include <unistd.h>

#include <QCryptographicHash>
#include <cmath>
#include <memory>

#include "app/cli/command.h"
#include "app/cli/json_output.h"
#include "app/cli/options.h"
#include "app/text.h"
#include "engine/measure/distribution.h"
#include "engine/measure/evaluate.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app::cli {

using engine::Backend;
using engine::ErrorCode;
using engine::Model;
using engine::Result;
using engine::TokenId;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kDefaultWindow = 512;  // of perplexity, as elsewhere

void showProgress(const std::string& stage, double fraction) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[K%s %3.0f %%%s", stage.c_str(), fraction * 100,
               fraction >= 1 ? "\r\033[K" : "");
}

Result<std::unique_ptr<Backend>> makeBackendFor(const std::shared_ptr<const Model>& model,
                                                const engine::EngineConfig& config) {
  return engine::makeBackend(config.backend, model, config.backendOptions(), showProgress);
}

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

  auto backend = makeBackendFor(*model, options.model.config);
  if (!backend) return report(backend.error());
  auto values =
      engine::nextTokenLogits(**backend, (*model)->config(), ids, options.model.config.cache.type);
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

struct PerplexityOptions {
  ModelOptions model;
  std::string file, reference;
  bool json = false;
};

/// The configuration that `--reference "--weights fp16 …"` describes.
Result<engine::EngineConfig> parseReference(const std::string& text) {
  CLI::App app;
  ModelOptions options;
  options.addTo(app);
  try {
    app.parse(text);
  } catch (const CLI::ParseError& error) {
    return engine::fail(ErrorCode::kInvalidArgument, "--reference \"{}\": {}", text, error.what());
  }
  if (!options.model.empty()) {
    return engine::fail(
        ErrorCode::kInvalidArgument,
        "--reference is the same model in another mode; --model does not fit there");
  }
  return options.config;
}

int perplexity(const PerplexityOptions& options) {
  auto text = readAll(options.file);
  if (!text) return report(text.error());
  std::unique_ptr<engine::EngineConfig> referenceConfig;
  if (!options.reference.empty()) {
    auto parsed = parseReference(options.reference);
    if (!parsed) return report(parsed.error());
    referenceConfig = std::make_unique<engine::EngineConfig>(*parsed);
  }
  auto path = options.model.resolveModel();
  if (!path) return report(path.error());
  auto model = Model::load(*path);
  if (!model) return report(model.error());
  const auto& config = options.model.config;
  auto backend = makeBackendFor(*model, config);
  if (!backend) return report(backend.error());
  std::unique_ptr<Backend> reference;
  if (referenceConfig) {
    auto made = makeBackendFor(*model, *referenceConfig);
    if (!made) return report(made.error());
    reference = std::move(*made);
  }

  engine::EvaluationOptions evaluation;
  evaluation.context = config.contextTokens > 0 ? config.contextTokens : kDefaultWindow;
  evaluation.kv = config.cache.type;
  if (referenceConfig) evaluation.referenceKv = referenceConfig->cache.type;
  const auto& tokenizer = (*model)->tokenizer();
  if (tokenizer.addsBos()) evaluation.bos = tokenizer.bos();
  auto result = engine::evaluate(**backend, reference.get(), (*model)->config(),
                                 tokenizer.encode(*text), evaluation, showProgress);
  if (!result) return report(result.error());

  if (options.json) {
    Json json = {{"tokens", result->tokens}, {"perplexity", result->perplexity}};
    if (reference) {
      json["reference_perplexity"] = result->referencePerplexity;
      json["kl_mean"] = result->klMean;
      json["kl_p99"] = result->klP99;
      json["top1_agreement"] = result->top1Agreement;
    }
    printJson(json);
    return 0;
  }
  printOut(fmt::format("{} tokens, perplexity {:.4f}\n", result->tokens, result->perplexity));
  if (reference) {
    printOut(fmt::format(
        "reference {:.4f}, KL divergence mean {:.6f}, p99 {:.6f}, same best token {:.2f} %\n",
        result->referencePerplexity, result->klMean, result->klP99, result->top1Agreement * 100));
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
  app->add_option("--top", options->top, "how many tokens to show (10)")
      ->check(CLI::Range(1, 1000));
  app->add_flag("--json", options->json, "print one JSON object");
  return {app, [options] { return logits(*options); }};
}

Command addPerplexity(CLI::App& program) {
  auto options = std::make_shared<PerplexityOptions>();
  CLI::App* app = program.add_subcommand(
      "perplexity", "Perplexity of a text, and the distance to another mode of the same model");
  options->model.addTo(*app);
  app->get_option("--context")->description("tokens of a window (512)");
  app->add_option("-f,--file", options->file, "the text (- is standard input)")
      ->type_name("FILE")
      ->required();
  app->add_option("--reference", options->reference,
                  "options of the mode to compare with, such as \"--weights fp16\"")
      ->type_name("OPTIONS");
  app->add_flag("--json", options->json, "print one JSON object");
  return {app, [options] { return perplexity(*options); }};
}

}  // namespace vitrine::app::cli

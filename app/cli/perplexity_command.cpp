// `perplexity`: how well a mode predicts a text, and how far it is from another mode.
#include <memory>

#include "app/cli/command.h"
#include "app/cli/interrupt.h"
#include "app/cli/json_output.h"
#include "app/cli/options.h"
#include "engine/measure/llama_logits.h"
#include "engine/measure/scored_windows.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app::cli {

using engine::Backend;
using engine::ErrorCode;
using engine::EvaluationReport;
using engine::LlamaLogits;
using engine::Model;
using engine::Result;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kDefaultWindow = 512;  // as elsewhere
constexpr int kChunk = 64;           // tokens between two looks at Ctrl+C

struct PerplexityOptions {
  ModelOptions model;
  MeasureText text;
  std::string reference, llamaLogits;
  std::vector<std::string> also;
  bool json = false;
};

/// The options of a mode that stands in one argument: "--weights fp16 …".
Result<ModelOptions> parseMode(const std::string& flag, const std::string& text) {
  CLI::App app;
  ModelOptions options;
  options.addTo(app);
  try {
    app.parse(text);
  } catch (const CLI::ParseError& error) {
    return engine::fail(ErrorCode::kInvalidArgument, "{} \"{}\": {}", flag, text, error.what());
  }
  if (!options.model.empty()) {
    return engine::fail(ErrorCode::kInvalidArgument,
                        "{} is the same model in another mode; --model does not fit there", flag);
  }
  return options;
}

/// A mode while it is measured.
struct Mode {
  engine::EngineConfig config;
  std::unique_ptr<Backend> backend;
  engine::EvaluationSums sums;
};

Result<Mode> makeMode(const std::shared_ptr<const Model>& model, const ModelOptions& options,
                      const std::stop_token& stop) {
  Mode mode;
  VITRINE_ASSIGN(mode.config, options.resolveConfig(model, stop));
  VITRINE_ASSIGN(mode.backend,
                 engine::makeBackend(mode.config.backend, model, mode.config.backendOptions(),
                                     showProgress, stop));
  return mode;
}

/// The text, and how it is cut; with llama.cpp's logits both come from there.
struct Reading {
  std::vector<engine::TokenId> tokens;
  int context = kDefaultWindow;
  std::optional<LlamaLogits> llama;
};

Result<Reading> readText(const PerplexityOptions& options, const Model& model) {
  Reading reading;
  if (options.llamaLogits.empty()) {
    VITRINE_ASSIGN(const std::string text, options.text.read());
    reading.tokens = model.tokenizer().encode(text);
    if (options.model.config.contextTokens > 0) {
      reading.context = options.model.config.contextTokens;
    }
    return reading;
  }
  VITRINE_ASSIGN(reading.llama, LlamaLogits::open(options.llamaLogits));
  if (reading.llama->vocabSize() != model.config().vocabSize) {
    return engine::fail(ErrorCode::kInvalidArgument,
                        "{} is over a vocabulary of {} tokens, the model has {}: the logits are of "
                        "another model",
                        options.llamaLogits, reading.llama->vocabSize(), model.config().vocabSize);
  }
  const auto tokens = reading.llama->tokens();
  reading.tokens.assign(tokens.begin(), tokens.end());
  reading.context = reading.llama->context();
  return reading;
}

/// Adds what llama.cpp scored. It leaves out the first token that is scored here in each window.
void addAgainstLlama(LlamaLogits& llama, std::int64_t index, std::span<Mode> modes,
                     std::span<const std::span<const float>> logits, engine::TokenId next) {
  const int perWindow = llama.rowsPerWindow() + 1;
  const auto window = static_cast<int>(index / perWindow);
  const auto row = static_cast<int>(index % perWindow) - 1;
  if (row < 0) return;
  const auto theirs = llama.row(window, row, next);
  for (std::size_t i = 0; i < modes.size(); ++i) modes[i].sums.add(logits[i], theirs, next);
}

Json toJson(const Mode& mode, const EvaluationReport& report, bool compared,
            const Mode* reference) {
  Json json = {{"tokens", report.tokens}, {"perplexity", report.perplexity}};
  if (compared) {
    json["reference_perplexity"] = report.referencePerplexity;
    json["kl_mean"] = report.klMean;
    json["kl_p99"] = report.klP99;
    json["top1_agreement"] = report.top1Agreement;
  }
  if (reference != nullptr) {
    json["reference_weight_bytes"] = reference->backend->memory().weightBytes;
  }
  const auto memory = mode.backend->memory();
  json["weight_bytes"] = memory.weightBytes;
  json["kv_bytes_per_token"] =
      memory.kvBytesPerBlock / static_cast<std::uint64_t>(mode.backend->cacheShape().blockSize);
  addMode(json, mode.config);
  return json;
}

void print(const Mode& mode, const EvaluationReport& report, bool compared, bool several) {
  if (several) {
    printOut(fmt::format("{} · KV {}\n", engine::precisionKey(mode.config.precision),
                         nameOf(mode.config.cache.type)));
  }
  printOut(fmt::format("{} tokens, perplexity {:.4f}\n", report.tokens, report.perplexity));
  if (!compared) return;
  printOut(fmt::format(
      "reference {:.4f}, KL divergence mean {:.6f}, p99 {:.6f}, same best token {:.2f} %\n",
      report.referencePerplexity, report.klMean, report.klP99, report.top1Agreement * 100));
}

Result<void> measure(const PerplexityOptions& options, const std::stop_token& stop) {
  std::vector<ModelOptions> modeOptions = {options.model};
  for (const std::string& also : options.also) {
    VITRINE_ASSIGN(auto parsed, parseMode("--also", also));
    modeOptions.push_back(std::move(parsed));
  }
  std::optional<ModelOptions> referenceOptions;
  if (!options.reference.empty()) {
    VITRINE_ASSIGN(referenceOptions, parseMode("--reference", options.reference));
  }
  VITRINE_ASSIGN(const std::string path, options.model.resolveModel());
  VITRINE_ASSIGN(const auto model, Model::load(path));
  VITRINE_ASSIGN(Reading reading, readText(options, *model));
  engine::ScoredWindows::Options how{reading.context, kChunk};
  if (model->tokenizer().addsBos()) how.bos = model->tokenizer().bos();
  VITRINE_ASSIGN(const auto windows,
                 engine::ScoredWindows::make(model->config(), reading.tokens, how));

  std::vector<Mode> modes;
  for (const ModelOptions& each : modeOptions) {
    VITRINE_ASSIGN(auto mode, makeMode(model, each, stop));
    modes.push_back(std::move(mode));
  }
  std::optional<Mode> reference;
  if (referenceOptions) {
    VITRINE_ASSIGN(reference, makeMode(model, *referenceOptions, stop));
  }

  std::vector<engine::ScoredWindows::Side> sides;
  for (const Mode& mode : modes) sides.push_back({mode.backend.get(), mode.config.cache.type});
  if (reference) sides.push_back({reference->backend.get(), reference->config.cache.type});
  std::int64_t index = 0;
  const auto onRow = [&](std::span<const std::span<const float>> logits, engine::TokenId next) {
    if (reading.llama) {
      addAgainstLlama(*reading.llama, index++, modes, logits, next);
      return;
    }
    for (std::size_t i = 0; i < modes.size(); ++i) {
      if (reference) {
        modes[i].sums.add(logits[i], logits.back(), next);
      } else {
        modes[i].sums.add(logits[i], next);
      }
    }
  };
  VITRINE_TRY(windows.run(sides, onRow, "Evaluating", showProgress, stop));
  if (reading.llama && reading.llama->lost()) {
    return engine::fail(ErrorCode::kIo, "{} could not be read to its end", options.llamaLogits);
  }
  const bool compared = reference.has_value() || reading.llama.has_value();
  for (const Mode& mode : modes) {
    const EvaluationReport report = mode.sums.report();
    if (options.json) {
      printJson(toJson(mode, report, compared, reference ? &*reference : nullptr));
    } else {
      print(mode, report, compared, modes.size() > 1);
    }
  }
  return {};
}

}  // namespace

Command addPerplexity(CLI::App& program) {
  auto options = std::make_shared<PerplexityOptions>();
  CLI::App* app = program.add_subcommand(
      "perplexity", "Perplexity of a text, and the distance to another mode of the same model");
  options->model.addTo(*app);
  app->get_option("--context")->description("tokens of a window (512)");
  options->text.addTo(*app);
  CLI::Option* reference =
      app->add_option("--reference", options->reference,
                      "options of the mode to compare with, such as \"--weights fp16\"")
          ->type_name("OPTIONS");
  app->add_option("--llama-logits", options->llamaLogits,
                  "compare with llama.cpp on its text and windows: what llama-perplexity "
                  "--kl-divergence-base wrote for this model")
      ->type_name("FILE")
      ->excludes(reference)
      ->excludes("--file")
      ->excludes("--text")
      ->excludes("--context");
  app->add_option("--also", options->also,
                  "options of another mode to measure over the same reading of the reference; can "
                  "be repeated")
      ->type_name("OPTIONS");
  app->add_flag("--json", options->json, "print one JSON object (one a mode)");
  return {app, [options] {
            return runStoppable([&](std::stop_token stop) { return measure(*options, stop); });
          }};
}

}  // namespace vitrine::app::cli

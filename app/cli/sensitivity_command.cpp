// `sensitivity`: which layers or kinds of matrix lose most when they alone are quantized.
#include <algorithm>
#include <memory>

#include "app/cli/command.h"
#include "app/cli/interrupt.h"
#include "app/cli/json_output.h"
#include "app/cli/option_values.h"
#include "app/cli/options.h"
#include "engine/measure/keep_choice.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app::cli {

using engine::Model;
using engine::Result;
using engine::SensitivityReport;
using engine::SensitivityRow;
using Json = nlohmann::ordered_json;

namespace {

enum class By { kLayer, kPart, kMatrix };

struct SensitivityCliOptions {
  ModelOptions model;
  MeasureText text;
  std::vector<By> by;
  int tokens = 2048;
  std::uint64_t keepBytes = 0;
  bool json = false;
};

Json toJson(const std::vector<SensitivityRow>& rows) {
  Json json = Json::array();
  for (const SensitivityRow& row : rows) {
    json.push_back({{"name", row.name},
                    {"kl_mean", row.klMean},
                    {"kl_p99", row.klP99},
                    {"top1_agreement", row.top1Agreement},
                    {"bytes_saved", row.bytesSaved}});
  }
  return json;
}

Json toJson(const SensitivityReport& report) {
  return {{"tokens", report.tokens},
          {"all",
           {{"perplexity", report.all.perplexity},
            {"reference_perplexity", report.all.referencePerplexity},
            {"kl_mean", report.all.klMean},
            {"kl_p99", report.all.klP99},
            {"top1_agreement", report.all.top1Agreement}}},
          {"layers", toJson(report.layers)},
          {"parts", toJson(report.parts)},
          {"matrices", toJson(report.matrices)}};
}

void print(const std::string& head, const std::vector<SensitivityRow>& rows) {
  if (rows.empty()) return;
  printOut(fmt::format("\n{:<12}{:>12}{:>12}{:>12}{:>12}\n", head, "KL mean", "p99", "same best",
                       "MB saved"));
  for (const SensitivityRow& row : rows) {
    printOut(fmt::format("{:<12}{:>12.6f}{:>12.6f}{:>10.2f} %{:>12.2f}\n", row.name, row.klMean,
                         row.klP99, row.top1Agreement * 100,
                         static_cast<double>(row.bytesSaved) / 1e6));
  }
}

/// Which groups are measured; refused where --keep-bytes could not choose from them.
Result<engine::SensitivityOptions> groupsOf(const SensitivityCliOptions& options) {
  const auto asked = [&](By by) {
    return std::find(options.by.begin(), options.by.end(), by) != options.by.end();
  };
  engine::SensitivityOptions how;
  how.layers = options.by.empty() || asked(By::kLayer);
  how.parts = options.by.empty() || asked(By::kPart);
  how.matrices = asked(By::kMatrix);
  if (options.keepBytes > 0 && !how.matrices && !(how.layers && how.parts)) {
    return engine::fail(engine::ErrorCode::kInvalidArgument,
                        "--keep-bytes chooses matrices by what was measured of layers and parts, "
                        "or of each matrix: name both, or matrix, with --by");
  }
  return how;
}

Result<void> measure(const SensitivityCliOptions& options, const std::stop_token& stop) {
  VITRINE_ASSIGN(auto how, groupsOf(options));
  VITRINE_ASSIGN(const std::string text, options.text.read());
  VITRINE_ASSIGN(const std::string path, options.model.resolveModel());
  VITRINE_ASSIGN(const auto model, Model::load(path));
  ModelOptions modelOptions = options.model;
  if (modelOptions.config.precision.weights == engine::WeightMode::kNative) {
    modelOptions.config.precision.weights = engine::WeightMode::kInt8;  // what is asked about
  }
  VITRINE_ASSIGN(const auto config, modelOptions.resolveConfig(model, stop));
  auto tokens = model->tokenizer().encode(text);
  tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(options.tokens)));

  how.precision = config.precision;
  how.context = config.contextTokens > 0 ? config.contextTokens
                                         : std::min(how.context, model->config().contextLength);
  how.chunk = 64;  // tokens between two looks at Ctrl+C
  if (model->tokenizer().addsBos()) how.bos = model->tokenizer().bos();
  const auto make = [&](const engine::WeightPrecision& precision) {
    engine::BackendOptions backend = config.backendOptions();
    backend.precision = precision;
    return engine::makeBackend(config.backend, model, backend, {}, stop);
  };
  VITRINE_ASSIGN(
      const SensitivityReport report,
      engine::measureSensitivity(make, model->config(), tokens, how, showProgress, stop));
  clearProgress();
  const engine::KeepChoice keep = engine::mostLossPerByte(report, options.keepBytes);
  if (options.json) {
    Json json = toJson(report);
    if (options.keepBytes > 0) {
      json["worth_keeping"] = {
          {"set", keep.matrices.text()}, {"bytes", keep.bytes}, {"share_of_loss", keep.share}};
    }
    addMode(json, config);
    printJson(json);
    return {};
  }
  printOut(fmt::format(
      "{} tokens; everything quantized: KL divergence mean {:.6f}, p99 {:.6f}, "
      "same best token {:.2f} %\n",
      report.tokens, report.all.klMean, report.all.klP99, report.all.top1Agreement * 100));
  print("layer", report.layers);
  print("part", report.parts);
  print("matrix", report.matrices);
  if (options.keepBytes > 0) {
    printOut(fmt::format("\nmost loss for {:.2f} MB ({:.1f} % of it): --keep-fp {}\n",
                         static_cast<double>(keep.bytes) / 1e6, keep.share * 100,
                         keep.matrices.empty() ? "(nothing fits)" : keep.matrices.text()));
  }
  return {};
}

}  // namespace

Command addSensitivity(CLI::App& program) {
  auto options = std::make_shared<SensitivityCliOptions>();
  CLI::App* app = program.add_subcommand(
      "sensitivity", "Rank layers and kinds of matrix by what INT8 costs when they alone have it");
  options->model.addTo(*app);
  app->get_option("--weights")->description("int8 here, whatever the model's are");
  app->get_option("--context")->description("tokens of a window (512)");
  options->text.addTo(*app);
  addChoices<By>(*app, "--by", options->by,
                 {{"layer", By::kLayer}, {"part", By::kPart}, {"matrix", By::kMatrix}},
                 "what is quantized alone; commas between (layer,part)");
  addBytes(*app, "--keep-bytes", options->keepBytes,
           "also name what is best kept in FP16 for this memory, such as 10M");
  app->add_option("--tokens", options->tokens, "most tokens of the text (2048)")
      ->check(between(2, 1 << 24));
  app->add_flag("--json", options->json, "print one JSON object");
  return {app, [options] {
            return runStoppable([&](std::stop_token stop) { return measure(*options, stop); });
          }};
}

}  // namespace vitrine::app::cli

// `calibrate`: ranges of a model's activations over texts, as a profile.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "app/cli/command.h"
#include "app/cli/interrupt.h"
#include "app/cli/json_output.h"
#include "app/cli/option_values.h"
#include "app/cli/options.h"
#include "engine/measure/calibrate.h"
#include "engine/quant/sites.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app::cli {

using engine::CalibrationProfile;
using engine::Model;
using engine::Result;
using engine::ScaleMethod;
using engine::SiteStatistics;
using Json = nlohmann::ordered_json;

namespace {

constexpr float kInt8Levels = 127.0F;

struct CalibrateOptions {
  ModelOptions model;
  std::vector<std::string> files, texts;
  engine::CalibrationOptions calibration;
  int tokens = 8192;
  std::string output;
  bool json = false;
};

/// What a static scale means at one site.
struct SiteLine {
  std::string name;
  float absMax = 0, scale = 0;
  double clippedShare = 0;
  std::vector<int> outliers;
};

SiteLine lineOf(const CalibrationProfile& profile, int site, float threshold) {
  const SiteStatistics& seen = profile.sites[static_cast<std::size_t>(site)];
  const float limit = engine::staticLimit(seen, profile.method, profile.percentile);
  SiteLine line;
  line.name = engine::siteName(site, profile.nLayers());
  line.absMax = seen.absMax();
  line.scale = limit / kInt8Levels;
  // The histogram tells it to the width of a bin, which holds the largest value too.
  line.clippedShare = limit < line.absMax ? seen.histogram.shareAbove(limit) : 0.0;
  line.outliers = engine::outlierColumns(seen, threshold);
  return line;
}

void print(const CalibrationProfile& profile, const std::vector<SiteLine>& lines) {
  printOut(fmt::format("{:<22}{:>12}{:>12}{:>12}  outlier columns\n", "input", "largest", "scale",
                       "clipped"));
  for (const SiteLine& line : lines) {
    printOut(fmt::format(
        "{:<22}{:>12.4g}{:>12.4g}{:>10.4f} %  {}\n", line.name, line.absMax, line.scale,
        line.clippedShare * 100,
        line.outliers.empty() ? std::string("-") : fmt::format("{}", line.outliers.size())));
  }
  printOut(fmt::format("\n{} tokens, scales by {}\n", profile.tokens, nameOf(profile.method)));
}

Json toJson(const CalibrationProfile& profile, const std::vector<SiteLine>& lines,
            const std::string& file) {
  Json layers = Json::array();
  for (const SiteLine& line : lines) {
    layers.push_back({{"name", line.name},
                      {"absmax", line.absMax},
                      {"scale", line.scale},
                      {"clipped_share", line.clippedShare},
                      {"outlier_channels", line.outliers}});
  }
  return {{"profile", file},
          {"id", profile.id},
          {"name", profile.name},
          {"model", profile.modelName},
          {"fingerprint", profile.modelFingerprint},
          {"sources", profile.sources},
          {"tokens", profile.tokens},
          {"method", nameOf(profile.method)},
          {"layers", std::move(layers)}};
}

Result<std::vector<engine::CalibrationText>> readTexts(const CalibrateOptions& options,
                                                       const Model& model) {
  std::vector<engine::CalibrationText> texts;
  const auto add = [&](const std::string& name, const std::string& text) {
    auto tokens = model.tokenizer().encode(text);
    tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(options.tokens)));
    texts.push_back({name, std::move(tokens)});
  };
  for (const std::string& file : options.files) {
    VITRINE_ASSIGN(const std::string text, readAll(file));
    add(file == "-" ? "standard input" : std::filesystem::path(file).filename().string(), text);
  }
  for (const std::string& id : options.texts) {
    VITRINE_ASSIGN(const std::string text, readBundledText(id));
    add("bundled: " + id, text);
  }
  if (texts.empty()) {
    return engine::fail(engine::ErrorCode::kInvalidArgument,
                        "nothing to calibrate on: give -f FILE or --text ID ({})",
                        bundledTextIds());
  }
  return texts;
}

std::string nameFrom(const std::vector<engine::CalibrationText>& texts) {
  std::string name;
  for (const auto& text : texts) {
    if (!name.empty()) name += ", ";
    name += text.name;
  }
  return name;
}

Result<void> calibrate(CalibrateOptions options, const std::stop_token& stop) {
  VITRINE_ASSIGN(const std::string path, options.model.resolveModel());
  VITRINE_ASSIGN(const auto model, Model::load(path));
  VITRINE_ASSIGN(const auto texts, readTexts(options, *model));
  if (options.calibration.name.empty()) options.calibration.name = nameFrom(texts);
  options.calibration.context =
      std::min(options.calibration.context, model->config().contextLength);
  engine::EngineConfig config = options.model.config;
  config.precision.activations = engine::ActivationMode::kFp16;
  VITRINE_ASSIGN(
      const auto backend,
      engine::makeBackend(config.backend, model, config.backendOptions(), showProgress, stop));
  VITRINE_ASSIGN(const auto profile, engine::calibrate(*backend, *model, texts, options.calibration,
                                                       showProgress, stop));
  VITRINE_TRY(engine::saveProfile(*profile, options.output));
  std::vector<SiteLine> lines;
  for (int site = 0; site < engine::siteCount(profile->nLayers()); ++site) {
    lines.push_back(lineOf(*profile, site, options.model.config.precision.outlierThreshold));
  }
  clearProgress();
  if (options.json) {
    printJson(toJson(*profile, lines, options.output));
  } else {
    print(*profile, lines);
  }
  std::fprintf(stderr, "wrote %s\n", options.output.c_str());
  return {};
}

}  // namespace

Command addCalibrate(CLI::App& program) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* app = program.add_subcommand(
      "calibrate", "Collect the ranges of activations over texts, and write them as a profile");
  options->model.addTo(*app);
  app->add_option("-f,--file", options->files, "a text (- is standard input); can be repeated")
      ->type_name("FILE");
  app->add_option("--text", options->texts, "a text of the program: " + bundledTextIds())
      ->delimiter(',')
      ->type_name("ID");
  addChoice<ScaleMethod>(*app, "--method", options->calibration.method,
                         {{"max", ScaleMethod::kMax},
                          {"percentile", ScaleMethod::kPercentile},
                          {"mse", ScaleMethod::kMse}},
                         "static scales by the largest value, a percentile, or the least squared "
                         "error (max)");
  app->add_option("--percentile", options->calibration.percentile,
                  "of --method percentile, in percent (99.99)")
      ->check(between(50.0, 100.0));
  app->add_option("--tokens", options->tokens, "most tokens of each text (8192)")
      ->check(between(2, 1 << 24));
  app->add_option("--name", options->calibration.name, "of the profile (its texts)")
      ->type_name("TEXT");
  app->add_option("-o,--output", options->output, "the profile's file")
      ->type_name("PROFILE")
      ->required();
  app->add_flag("--json", options->json, "print one JSON object");
  return {app, [options] {
            return runStoppable([&](std::stop_token stop) { return calibrate(*options, stop); });
          }};
}

}  // namespace vitrine::app::cli

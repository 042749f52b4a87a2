#include "app/cli/options.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "app/cli/option_values.h"
#include "app/paths.h"
#include "app/studio/bundled_texts.h"
#include "app/text.h"

namespace vitrine::app::cli {

using engine::ErrorCode;
using engine::fail;
using engine::Result;

void ModelOptions::addModelTo(CLI::App& app) {
  app.add_option("-m,--model", model, "GGUF file (any part of a split set)")->type_name("PATH");
}

void ModelOptions::addTo(CLI::App& app) {
  using namespace engine;
  addModelTo(app);
  addChoice<BackendKind>(app, "--backend", config.backend,
                         {{"auto", BackendKind::kAuto},
                          {"cpu", BackendKind::kCpu},
                          {"cuda", BackendKind::kCuda},
                          {"reference", BackendKind::kReference}},
                         "where to compute (auto)");
  app.add_option("--device", config.device,
                 "which GPU, where there are several (0); `devices` lists them")
      ->check(between(0, 63));
  app.add_option("-t,--threads", config.threads, "CPU threads (physical cores)")
      ->check(between(1, 1024));
  addPrecisionTo(app);
  addChoice<KvType>(app, "--kv", config.cache.type,
                    {{"fp16", KvType::kFp16}, {"int8", KvType::kInt8}}, "KV cache type (fp16)");
  addChoice<bool>(app, "--kv-cache", config.cache.enabled, {{"on", true}, {"off", false}},
                  "off: recompute the whole sequence for each token (on)");
  addChoice<bool>(app, "--reuse", config.cache.reuse, {{"on", true}, {"off", false}},
                  "off: no turn starts from cached tokens (on)");
  addChoice<KvLayout>(app, "--kv-layout", config.cache.layout,
                      {{"paged", KvLayout::kPaged}, {"contiguous", KvLayout::kContiguous}},
                      "contiguous reserves the whole context up front (paged)");
  app.add_option("--block-size", config.cache.blockSize, "positions of a KV block (16)")
      ->check([](const std::string& text) {
        const int value = std::atoi(text.c_str());
        return value >= 16 && value <= 256 && value % 16 == 0
                   ? std::string()
                   : "must be a multiple of 16 from 16 to 256, not " + text;
      });
  addBytes(app, "--kv-budget", config.cache.budgetBytes,
           "memory for the KV cache, such as 512M (a share of what is free)");
  app.add_option("--kv-heads", config.kvHeads,
                 "KV heads: a multiple of the model's number (exact) or a divisor (averaged, "
                 "approximate) that divides its query heads (the model's)")
      ->check(between(1, 65536));
  app.add_option_function<std::string>(
         "--kv-archive",
         [this](const std::string& folder) {
           archiveGiven = true;
           config.archive.folder = folder == "off" ? std::string() : folder;
         },
         "keep the KV of conversations in this folder, or off (off; chat: the cache folder)")
      ->type_name("DIR|off");
  addBytes(app, "--kv-archive-limit", config.archive.limitBytes,
           "most that may be kept there; the least recently used goes first (2G)");
  app.add_option("-c,--context", config.contextTokens, "tokens of context (the model's)")
      ->check(between(16, 1 << 24));
  addChoice<Batching>(app, "--batching", config.batching,
                      {{"continuous", Batching::kContinuous}, {"static", Batching::kStatic}},
                      "static: answers begin together, when all before have ended (continuous)");
  app.add_option("--prefill-chunk", config.prefillChunk, "most prompt tokens of one step (256)")
      ->check(between(1, 1 << 16));
}

void ModelOptions::addPrecisionTo(CLI::App& app) {
  using namespace engine;
  WeightPrecision& precision = config.precision;
  addChoice<WeightMode>(app, "--weights", precision.weights,
                        {{"native", WeightMode::kNative},
                         {"fp16", WeightMode::kFp16},
                         {"bf16", WeightMode::kBf16},
                         {"int8", WeightMode::kInt8}},
                        "how weights are held (native: as in the file)");
  addChoice<WeightScales>(
      app, "--weight-scales", precision.weightScales,
      {{"group", WeightScales::kGroup},
       {"channel", WeightScales::kChannel},
       {"tensor", WeightScales::kTensor}},
      "which INT8 weights share a scale: some in a row, a row, a matrix (group)");
  app.add_option("--group-size", precision.groupSize, "weights of a group: 32, 64 or 128 (32)")
      ->check([](const std::string& text) {
        const bool possible = text == "32" || text == "64" || text == "128";
        return possible ? std::string() : "must be 32, 64 or 128, not " + text;
      });
  addChoice<ActivationMode>(app, "--activations", precision.activations,
                            {{"fp16", ActivationMode::kFp16}, {"int8", ActivationMode::kInt8}},
                            "int8 with --weights int8 is W8A8 (fp16)");
  addChoice<ActivationScales>(
      app, "--activation-scales", precision.activationScales,
      {{"dynamic", ActivationScales::kDynamic}, {"static", ActivationScales::kStatic}},
      "INT8 activations: scales from each row, or from a profile (dynamic; with --calibration: "
      "static)")
      ->each([this](const std::string&) { scalesGiven = true; });
  app.add_option("--calibration", calibration, "a profile made by calibrate")->type_name("FILE");
  addChoice<OutlierMode>(app, "--outliers", precision.outliers,
                         {{"none", OutlierMode::kNone},
                          {"mixed", OutlierMode::kMixed},
                          {"smooth", OutlierMode::kSmooth}},
                         "columns of INT8 activations that are far larger than the others: mixed "
                         "keeps them FP16, smooth moves their range into the weights (none)");
  app.add_option("--smoothing", precision.smoothing, "strength of --outliers smooth, 0 to 1 (0.5)");
  app.add_option("--outlier-threshold", precision.outlierThreshold,
                 "of --outliers mixed: times the median column's largest value (3)");
  app.add_option(
         "--keep-fp", keep,
         "matrices that stay FP16: layers (3, 0-5, *), each with or without one of .q .k .v "
         ".o .gate .up .down, and output; commas between")
      ->type_name("SET");
  addChoice<KeyScales>(app, "--kv-keys", precision.keyScales,
                       {{"token", KeyScales::kToken}, {"channel", KeyScales::kChannel}},
                       "scales of INT8 keys: per token, or per channel too (token)");
}

Result<std::string> ModelOptions::resolveModel() const {
  if (!model.empty()) return model;
  const std::filesystem::path folder = Paths::standard().models.toStdString();
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".gguf") found.push_back(entry.path().string());
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return fail(ErrorCode::kNotFound, "no model in {}: name one with --model PATH",
                folder.string());
  }
  return fail(ErrorCode::kInvalidArgument, "{} models in {}: choose one with --model PATH",
              found.size(), folder.string());
}

void SamplingOptions::addTo(CLI::App& app) {
  app.add_option("--temp", temperature, "temperature; 0: always the best token (0.8)");
  app.add_option("--top-k", topK, "keep the k best tokens; 0: all (40)");
  app.add_option("--top-p", topP, "keep the smallest set of this probability; 1: all (0.95)");
  app.add_option("--min-p", minP, "drop tokens below this share of the best; 0: none (0.05)");
  app.add_option("--repeat-penalty", repeatPenalty, "1: off (1.0)");
  app.add_option("--presence-penalty", presencePenalty, "0: off (0)");
  app.add_option("--frequency-penalty", frequencyPenalty, "0: off (0)");
  app.add_option("--seed", seed, "the same seed gives the same text (random)");
  app.add_option("-n,--max-tokens", maxTokens, "most tokens of an answer (no limit)")
      ->check(between(1, 1 << 24));
}

engine::SamplingParams SamplingOptions::resolve(const engine::GenerationDefaults& defaults) const {
  engine::SamplingParams params;
  const auto choose = [](auto& field, const auto& given, const auto& modelsOwn) {
    if (given) {
      field = *given;
    } else if (modelsOwn) {
      field = *modelsOwn;
    }
  };
  const std::optional<float> none;
  choose(params.temperature, temperature, defaults.temperature);
  choose(params.topK, topK, defaults.topK);
  choose(params.topP, topP, defaults.topP);
  choose(params.minP, minP, defaults.minP);
  choose(params.repeatPenalty, repeatPenalty, defaults.repeatPenalty);
  choose(params.presencePenalty, presencePenalty, none);
  choose(params.frequencyPenalty, frequencyPenalty, none);
  params.seed = seed;
  return params;
}

void TextOption::addTo(CLI::App& app, const std::string& what) {
  textOption = app.add_option("-p,--prompt", text, what)->type_name("TEXT");
  fileOption = app.add_option("-f,--file", file, what + ", from a file (- is standard input)")
                   ->type_name("FILE");
  textOption->excludes(fileOption);
}

Result<std::string> TextOption::read() const {
  if (fileOption->count() > 0) return readAll(file);
  if (textOption->count() > 0) return text;
  return fail(ErrorCode::kInvalidArgument, "a text is needed: give -p TEXT or -f FILE");
}

void MeasureText::addTo(CLI::App& app) {
  CLI::Option* fromFile =
      app.add_option("-f,--file", file, "the text (- is standard input)")->type_name("FILE");
  app.add_option("--text", bundled, "a text of the program: " + bundledTextIds())
      ->type_name("ID")
      ->excludes(fromFile);
}

Result<std::string> MeasureText::read() const {
  if (!file.empty()) return readAll(file);
  if (!bundled.empty()) return readBundledText(bundled);
  return fail(ErrorCode::kInvalidArgument, "a text is needed: give -f FILE or --text ID ({})",
              bundledTextIds());
}

std::string bundledTextIds() {
  std::string ids;
  for (const auto& text : studio::bundledTexts()) {
    if (!ids.empty()) ids += ", ";
    ids += toUtf8(text.id);
  }
  return ids;
}

Result<std::string> readBundledText(const std::string& id) {
  std::string text = studio::bundledText(toQString(id));
  if (text.empty()) {
    return fail(ErrorCode::kInvalidArgument, "there is no text {}; the program brings {}", id,
                bundledTextIds());
  }
  return text;
}

Result<std::string> readAll(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::error_code reason;
  if (std::filesystem::is_directory(path, reason)) {
    return fail(ErrorCode::kIo, "{} is a folder, not a file", path);
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(ErrorCode::kIo, "cannot open {}: {}", path, std::strerror(errno));
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) return fail(ErrorCode::kIo, "cannot read {}: {}", path, std::strerror(errno));
  return text;
}

Result<std::uint64_t> parseBytes(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  double factor = 1;
  std::string suffix(end);
  if (!suffix.empty() && (suffix.back() == 'B' || suffix.back() == 'b')) suffix.pop_back();
  if (!suffix.empty() && (suffix.back() == 'i')) suffix.pop_back();
  if (suffix == "K" || suffix == "k")
    factor = 1024.0;
  else if (suffix == "M" || suffix == "m")
    factor = 1024.0 * 1024.0;
  else if (suffix == "G" || suffix == "g")
    factor = 1024.0 * 1024.0 * 1024.0;
  else if (!suffix.empty())
    end = nullptr;
  if (end == text.c_str() || end == nullptr || !std::isfinite(value) || value <= 0 ||
      value * factor > 1e18) {
    return fail(ErrorCode::kInvalidArgument, "'{}' is no size: write a number with K, M or G",
                text);
  }
  return static_cast<std::uint64_t>(value * factor);
}

}  // namespace vitrine::app::cli

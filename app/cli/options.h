#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/engine_types.h"

namespace vitrine::app::cli {

/// The options of every subcommand that loads a model.
struct ModelOptions {
  std::string model;  ///< as given; empty: the model folder's own (see resolveModel)
  /// As far as the options alone tell it: see resolveConfig().
  engine::EngineConfig config;
  bool archiveGiven = false;  ///< --kv-archive was among the options
  std::string keep;           ///< --keep-fp: means something only for a model's layers
  std::string calibration;    ///< --calibration: a profile's file
  bool scalesGiven = false;   ///< --activation-scales was among the options

  void addTo(CLI::App& app);
  /// Model alone, without the options of how it runs (tokenize, template, …).
  void addModelTo(CLI::App& app);
  /// The path to load: what was given, else the one model in the model folder.
  engine::Result<std::string> resolveModel() const;

  using ModelPtr = std::shared_ptr<const engine::Model>;
  /// The configuration with what needs the model: the matrices that stay FP16, the profile. Where
  /// outliers or keys want a profile and none was given, one is made from the bundled texts, which
  /// is told on standard error.
  engine::Result<engine::EngineConfig> resolveConfig(const ModelPtr& model,
                                                     const std::stop_token& stop = {}) const;
  /// The same for a model that is not loaded yet; it is read only where something needs it.
  engine::Result<engine::EngineConfig> resolveConfig(const std::string& path) const;

 private:
  void addPrecisionTo(CLI::App& app);
};

/// The sampling options; what is not given comes from the model, then from the defaults.
struct SamplingOptions {
  std::optional<float> temperature, topP, minP, repeatPenalty, presencePenalty, frequencyPenalty;
  std::optional<int> topK;
  std::optional<std::uint64_t> seed;
  std::optional<int> maxTokens;

  void addTo(CLI::App& app);
  engine::SamplingParams resolve(const engine::GenerationDefaults& defaults) const;
};

/// Text from `-p TEXT` or `-f FILE` ("-" reads standard input); exactly one must be given.
struct TextOption {
  std::string text, file;
  CLI::Option* textOption = nullptr;
  CLI::Option* fileOption = nullptr;

  void addTo(CLI::App& app, const std::string& what);
  bool given() const { return textOption->count() + fileOption->count() > 0; }
  engine::Result<std::string> read() const;
};

/// A text to measure on: a file, or one that comes with the program; exactly one must be given.
struct MeasureText {
  std::string file, bundled;

  void addTo(CLI::App& app);
  engine::Result<std::string> read() const;
};

/// A text that comes with the program, by its id; kInvalidArgument names those that there are.
engine::Result<std::string> readBundledText(const std::string& id);
/// "english, chinese, code, chat".
std::string bundledTextIds();

/// The bytes of a file, or of standard input for "-".
engine::Result<std::string> readAll(const std::string& path);

/// "512", "64K", "1.5G" (binary) to bytes.
engine::Result<std::uint64_t> parseBytes(const std::string& text);

}  // namespace vitrine::app::cli

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine_types.h"

namespace vitrine::app::cli {

/// The options of every subcommand that loads a model.
struct ModelOptions {
  std::string model;  ///< as given; empty: the model folder's own (see resolveModel)
  engine::EngineConfig config;
  bool archiveGiven = false;  ///< --kv-archive was among the options

  void addTo(CLI::App& app);
  /// Model alone, without the options of how it runs (tokenize, template, …).
  void addModelTo(CLI::App& app);
  /// The path to load: what was given, else the one model in the model folder.
  engine::Result<std::string> resolveModel() const;
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

/// The bytes of a file, or of standard input for "-".
engine::Result<std::string> readAll(const std::string& path);

/// "512", "64K", "1.5G" (binary) to bytes.
engine::Result<std::uint64_t> parseBytes(const std::string& text);

}  // namespace vitrine::app::cli

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/types.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"

namespace vitrine::engine {

class ChatTemplate;
class Tokenizer;

/// Sampling settings that the file itself recommends; empty where it says nothing.
struct GenerationDefaults {
  std::optional<float> temperature;
  std::optional<int> topK;
  std::optional<float> topP;
  std::optional<float> minP;
  std::optional<float> repeatPenalty;
};

/// Called now and then while something long runs: what is done, and how much of it (0 to 1).
using Progress = std::function<void(const std::string& stage, double fraction)>;

/// A loaded model: configuration, tokenizer, chat template, and weights in the mapped file.
/// Immutable after loading, so any thread may read it.
class Model {
 public:
  /// Opens a GGUF file (any part of a split set) and validates all of it before anything is
  /// allocated. Errors name the file, the field and the numbers. `path` may hold any characters.
  static Result<std::shared_ptr<const Model>> load(const std::filesystem::path& path,
                                                   const Progress& progress = {},
                                                   std::stop_token stop = {});
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const std::filesystem::path& path() const;
  const ModelConfig& config() const;
  const Weights& weights() const;
  const Tokenizer& tokenizer() const;
  const ChatTemplate& chatTemplate() const;
  const GenerationDefaults& generationDefaults() const;

  /// Every id that ends an answer: the file's eos and eot, and the template's own turn end, also
  /// where a conversion marked it as an ordinary token. Sorted.
  const std::vector<TokenId>& endTokens() const;

  std::uint64_t parameterCount() const;
  std::uint64_t fileBytes() const;
  /// The commonest type of the matrices, as people name files: "Q4_1".
  const std::string& quantizationName() const;
  /// 128-bit hash of the header and samples of the data, in hex. Identifies the model's KV.
  const std::string& fingerprint() const;
  /// Sentences for the user: an unknown pre-tokenizer, a substituted template, …
  const std::vector<std::string>& warnings() const;

  /// Whether the file shrank or became unreadable after loading. Weights read from the mapping are
  /// zeros from there on instead of a SIGBUS, so whoever computes with them asks after each step
  /// (one atomic load a part). Any thread.
  bool fileLost() const;
  /// The same as an error with a sentence for the user.
  Result<void> checkFile() const;

 private:
  Model();
  struct Impl;
  std::unique_ptr<Impl> m_impl;
};

}  // namespace vitrine::engine

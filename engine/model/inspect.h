#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "engine/backend/precision.h"
#include "engine/base/result.h"

namespace vitrine::engine {

/// What a model file holds, also one that this program cannot run. Numbers that the file does not
/// say are 0.
struct ModelInspection {
  std::filesystem::path path;
  int nParts = 1;
  std::uint64_t fileBytes = 0;
  std::string name;          ///< as the file calls itself; UTF-8, any characters
  std::string architecture;  ///< "" where the file says none
  std::string quantization;  ///< commonest type of the matrices: "Q4_1"
  std::uint64_t parameters = 0;
  std::map<std::string, int> tensorTypes;  ///< type and number of tensors
  int nLayers = 0;
  int nHeads = 0;
  int nKvHeads = 0;
  int headDim = 0;
  int dModel = 0;
  int vocabSize = 0;
  std::int64_t contextLength = 0;  ///< tokens the model was trained for
  std::string chatTemplate;        ///< source; may be empty

  /// What the weights would take in memory, as this program runs them.
  struct WeightNeed {
    WeightMode mode;
    int kvHeads;  ///< that the model is run with
    std::uint64_t bytes;
  };
  std::vector<WeightNeed> weightNeeds;  ///< every mode and number of heads; only where supported
  std::uint64_t mappedBytes = 0;        ///< of the file, what is read while running

  bool supported = false;
  std::string problem;  ///< why it cannot be run; empty when it can
  std::vector<std::string> warnings;

  /// L × H_kv × D × 2 × bytes (+ scales); 0 where a number is missing.
  std::uint64_t kvBytesPerToken(KvType type) const;
  /// 0 where nothing is known of that mode.
  std::uint64_t weightBytes(WeightMode mode, int kvHeads) const;
  /// Tokens of context whose KV fits beside the weights (as in the file) in `memoryBytes`, at most
  /// contextLength; 0 where a number is missing or the weights alone are too large.
  std::int64_t contextThatFits(std::uint64_t memoryBytes, KvType type) const;
};

/// Reads the header; the weights stay untouched. Errors: files that are no GGUF, or damaged ones.
Result<ModelInspection> inspectModel(const std::filesystem::path& path);

}  // namespace vitrine::engine

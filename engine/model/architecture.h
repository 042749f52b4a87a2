#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"

namespace vitrine::engine {

class GgufFile;

/// Whether an architecture's files have a kind of tensor.
enum class Presence { kNever, kMaybe, kAlways };

/// What one architecture differs in. A new architecture that is built from the same parts is a new
/// row of the table in architecture.cpp.
struct Architecture {
  std::string_view name;  ///< `general.architecture`, and the prefix of its keys
  RopeStyle ropeStyle = RopeStyle::kInterleaved;
  Activation activation = Activation::kSilu;
  Presence attentionBias = Presence::kNever;  ///< attn_{q,k,v}.bias
  Presence headNorm = Presence::kNever;       ///< attn_{q,k}_norm.weight
};

std::span<const Architecture> architectures();
/// nullptr: not in the table.
const Architecture* findArchitecture(std::string_view name);
/// The row for a file; kUnsupported names the file's architecture and those that run.
Result<const Architecture*> architectureOf(const GgufFile& file);

/// Shapes and constants from the metadata, every one checked for range and against the others.
/// Errors name the key and its value. `warnings` receives sentences for the user.
Result<ModelConfig> readConfig(const GgufFile& file, const Architecture& architecture,
                               std::vector<std::string>& warnings);

/// Views of all weights, each tensor's type and shape checked against the config.
Result<Weights> readWeights(const GgufFile& file, const Architecture& architecture,
                            const ModelConfig& config, std::vector<std::string>& warnings);

/// Whether the vocabulary has as many tokens as the embedding has rows.
Result<void> checkVocabulary(const GgufFile& file, const ModelConfig& config, int nTokens);

}  // namespace vitrine::engine

#pragma once

#include <cstdint>
#include <vector>

#include "app/model_library.h"
#include "engine/backend/precision.h"

namespace vitrine::app {

/// How a model that is not loaded would be run.
struct MemoryChoice {
  engine::WeightMode weights = engine::WeightMode::kNative;
  engine::KvType kv = engine::KvType::kFp16;
  int kvHeads = 0;  ///< 0: the model's own
};

/// What it would take, from the file's shapes alone: the same formulas as the engine's, without the
/// program itself and a step's intermediate results (some tens of megabytes).
struct MemoryPlan {
  std::uint64_t weightBytes = 0;  ///< 0: not known
  std::uint64_t mappedBytes = 0;  ///< of the file, kept in memory while running
  std::uint64_t kvBytesPerToken = 0;
  int blockSize = 16;
  std::int64_t modelContext = 0;

  /// Weights and file parts, before any token.
  std::uint64_t fixedBytes() const { return weightBytes + mappedBytes; }
  /// KV of one sequence of so many tokens, in whole blocks.
  std::uint64_t kvBytes(std::int64_t tokens) const;
  std::uint64_t memoryFor(std::int64_t tokens) const { return fixedBytes() + kvBytes(tokens); }
  /// Tokens of one sequence that fit, at most the model's context.
  std::int64_t contextThatFits(std::uint64_t memoryBytes) const;
  /// Sequences of so many tokens that fit at a time.
  std::int64_t chatsThatFit(std::uint64_t memoryBytes, std::int64_t tokens) const;
};

/// Numbers of KV heads that the model can be run with, its own among them.
std::vector<int> kvHeadChoices(const ModelEntry& model);

MemoryPlan planMemory(const ModelEntry& model, const MemoryChoice& choice);

}  // namespace vitrine::app

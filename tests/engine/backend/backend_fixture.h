#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <QTemporaryDir>

#include "engine/backend/backend.h"
#include "engine/backend/gpu.h"
#include "tests/tiny_models.h"

namespace vitrine::test {

/// Takes the value of a Result, or throws its message (Qt Test reports it as a failure).
template <typename T>
T valueOf(engine::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}
inline void valueOf(engine::Result<void> result) {
  if (!result) throw std::runtime_error(result.error().message);
}

/// The backends that this test is about, for data rows: the CUDA backend where it is linked (then
/// the same source is another test beside it), else those of every build.
inline std::vector<engine::BackendKind> backendKinds() {
  if (engine::cudaSupport() != nullptr) return {engine::BackendKind::kCuda};
  return {engine::BackendKind::kReference, engine::BackendKind::kCpu};
}

/// Whether two ways to the same logits gave the same: bits, except on a GPU, where long and short
/// batches take different kernels.
inline bool sameLogits(engine::BackendKind kind, std::span<const float> a,
                       std::span<const float> b) {
  if (kind != engine::BackendKind::kCuda) return std::equal(a.begin(), a.end(), b.begin(), b.end());
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::fabs(x - y) <= 5e-2F + 5e-3F * std::fabs(x);
  });
}

/// Writes a model into a folder that goes away at the end of the program, and loads it.
inline std::shared_ptr<const engine::Model> loadModel(const GgufWriter& file) {
  static QTemporaryDir folder;
  static int count = 0;
  const auto path = std::filesystem::path(folder.path().toStdString()) /
                    ("model" + std::to_string(count++) + ".gguf");
  return valueOf(engine::Model::load(file.save(path)));
}

inline std::unique_ptr<engine::Backend> makeBackend(
    engine::BackendKind kind, const std::shared_ptr<const engine::Model>& model,
    engine::WeightPrecision precision = {}, int threads = 2) {
  engine::BackendOptions options;
  options.precision = precision;
  options.threads = threads;
  return valueOf(engine::makeBackend(kind, model, options));
}

inline void configureCache(engine::Backend& backend, const engine::Model& model,
                           engine::KvType type, int nBlocks) {
  valueOf(backend.configureCache({type, 16, nBlocks, model.config().nKvHeads}));
}

/// Blocks first, first + step, …
inline std::vector<engine::BlockId> blocks(int count, int first = 0, int step = 1) {
  std::vector<engine::BlockId> table(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) table[static_cast<std::size_t>(i)] = first + i * step;
  return table;
}

/// One step for one sequence: the logits of the last `rows` tokens.
inline std::vector<float> forward(engine::Backend& backend, std::span<const engine::TokenId> tokens,
                                  int firstPosition, const std::vector<engine::BlockId>& table,
                                  int rows = 1) {
  const engine::BatchSequence sequence{tokens, firstPosition, table, rows};
  const auto logits = valueOf(backend.forward({&sequence, 1}));
  return {logits.values().begin(), logits.values().end()};
}

inline std::vector<std::byte> readBlock(const engine::Backend& backend, engine::BlockId block) {
  std::vector<std::byte> bytes(backend.memory().kvBytesPerBlock);
  valueOf(backend.readBlock(block, bytes));
  return bytes;
}

/// Token ids of printable letters and control tokens, no two calls alike.
inline std::vector<engine::TokenId> someTokens(int count, int seed) {
  std::vector<engine::TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((i * i * 7 + i * 31 + seed * 101) % 250);
  return tokens;
}

/// ‖a − b‖ / ‖a‖
inline double difference(std::span<const float> a, std::span<const float> b) {
  double error = 0.0, size = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    size += static_cast<double>(a[i]) * a[i];
  }
  return std::sqrt(error / size);
}

}  // namespace vitrine::test

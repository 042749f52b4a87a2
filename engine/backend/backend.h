#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/backend/precision.h"
#include "engine/base/result.h"
#include "engine/base/types.h"
#include "engine/model/model.h"

namespace vitrine::engine {

enum class BackendKind { kAuto, kReference, kCpu, kCuda };
const char* toString(BackendKind kind);  // "auto", "reference", "cpu", "cuda"

struct BackendOptions {
  WeightPrecision precision;
  int threads = 0;  ///< 0: physical cores
  int kvHeads = 0;  ///< see EngineConfig::kvHeads
};

/// What a backend is, for people and for tests that prove that the forced one ran.
struct BackendInfo {
  BackendKind kind = BackendKind::kReference;
  std::string name;            ///< "cpu"
  std::string instructionSet;  ///< "AVX-512 VNNI BF16", "AVX2", "portable", "sm_90", …
  std::string device;          ///< processor or GPU
  int threads = 1;
};

/// Shape of the KV pool. A block holds K and V of `blockSize` consecutive positions, all layers.
struct KvShape {
  KvType type = KvType::kFp16;
  int blockSize = 16;  ///< a multiple of 16
  int nBlocks = 0;
  int nKvHeads = 0;    ///< equals Backend::config().nKvHeads
};

/// The tokens of one sequence in a batch. Their K and V go to positions `firstPosition` and on;
/// `blockTable` covers all positions up to the last of them, and the blocks that are written are
/// not shared with another sequence. All positions before `firstPosition` are in the cache.
struct BatchSequence {
  std::span<const TokenId> tokens;  // at least one
  int firstPosition = 0;
  std::span<const BlockId> blockTable;
  /// Rows whose logits are wanted: the last `logitRows` of `tokens`. 0: none (a prefill chunk
  /// that is not the last).
  int logitRows = 1;
};

/// Logits of the wanted rows, in the order of the batch. [rows, vocabSize], row-major; valid until
/// the next call of forward().
struct LogitsView {
  std::span<float> values;
  int vocabSize = 0;
  std::span<float> row(int i) const {
    return values.subspan(static_cast<std::size_t>(i) * vocabSize, vocabSize);
  }
};

struct BackendMemory {
  std::uint64_t weightBytes = 0;     ///< weights as held (repacked copies; mapped file parts apart)
  std::uint64_t mappedBytes = 0;     ///< parts of the mapped file that are read while running
  std::uint64_t kvBytesPerBlock = 0; ///< values and scales, all layers
  std::uint64_t kvScaleBytesPerBlock = 0;  ///< of those, scales
  std::uint64_t kvAllocatedBytes = 0;  ///< RAM that the pool holds: of parts that were written
  std::uint64_t workspaceBytes = 0;
  /// Bytes of weights that one decode step reads (tied head once, one row of the embedding).
  std::uint64_t weightBytesPerToken = 0;
};

/// Runs a model. Owned and called by one thread. Results do not depend on what else is in the
/// batch, on how a prompt is cut into chunks, or on where blocks lie: the same sequence gives the
/// same bits (every row's sums run in one fixed order).
class Backend {
 public:
  virtual ~Backend() = default;

  virtual BackendInfo info() const = 0;
  virtual const WeightPrecision& precision() const = 0;
  /// The model as it runs: its config with the KV heads in force (BackendOptions::kvHeads).
  virtual const ModelConfig& config() const = 0;

  /// Makes the KV pool, dropping the one before. kOutOfMemory says how much was wanted and free.
  virtual Result<void> configureCache(const KvShape& shape) = 0;
  virtual const KvShape& cacheShape() const = 0;

  /// One step for all sequences of the batch: prefill, decode, or both.
  virtual Result<LogitsView> forward(std::span<const BatchSequence> batch) = 0;

  /// Copies the first `tokens` positions of a block, all layers (copy on write).
  virtual Result<void> copyBlock(BlockId from, BlockId to, int tokens) = 0;
  /// One block's bytes, in a layout of the backend's own; `bytes` has kvBytesPerBlock elements.
  virtual Result<void> readBlock(BlockId block, std::span<std::byte> bytes) const = 0;
  virtual Result<void> writeBlock(BlockId block, std::span<const std::byte> bytes) = 0;

  /// A turn begins or ends: between the two, worker threads may wait actively; outside they sleep.
  virtual void setActive(bool active) = 0;

  virtual BackendMemory memory() const = 0;
};

/// Builds a backend for a model, converting its weights (the long part; reports progress, stops on
/// request with kCancelled). kAuto: CUDA where this build has it and a GPU is usable, else CPU.
/// VITRINE_BACKEND=reference|cpu|cuda in the environment overrides kAuto.
Result<std::unique_ptr<Backend>> makeBackend(BackendKind kind, std::shared_ptr<const Model> model,
                                             const BackendOptions& options,
                                             const Progress& progress = {},
                                             std::stop_token stop = {});

/// Bytes of one block for a model and a pool shape: B × L × S × H_kv × D × 2 × bytes (+ scales).
std::uint64_t kvBytesPerBlock(const ModelConfig& config, const KvShape& shape);

// One factory a backend; makeBackend() chooses.
Result<std::unique_ptr<Backend>> makeReferenceBackend(std::shared_ptr<const Model> model,
                                                      const BackendOptions& options,
                                                      const Progress& progress,
                                                      std::stop_token stop);
Result<std::unique_ptr<Backend>> makeCpuBackend(std::shared_ptr<const Model> model,
                                                const BackendOptions& options,
                                                const Progress& progress, std::stop_token stop);

}  // namespace vitrine::engine

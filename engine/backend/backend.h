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
#include "engine/quant/activation_observer.h"

namespace vitrine::engine {

enum class BackendKind { kAuto, kReference, kCpu, kCuda };
const char* nameOf(BackendKind kind);  // "auto", "reference", "cpu", "cuda"

struct BackendOptions {
  WeightPrecision precision;
  int threads = 0;   ///< 0: physical cores
  int kvHeads = 0;   ///< see EngineConfig::kvHeads
  int device = 0;    ///< which GPU, for cuda
  std::string note{};  ///< goes into BackendInfo::note
};

/// What a backend is, for people and for tests that prove that the forced one ran.
struct BackendInfo {
  BackendKind kind = BackendKind::kReference;
  std::string name;            ///< "cpu"
  std::string instructionSet;  ///< "AVX-512 VNNI BF16", "AVX2", "portable", "sm_90", …
  std::string device;          ///< processor or GPU
  int threads = 1;
  /// Why kAuto did not take a GPU: "the GPU driver is too old: …"; "" where nothing is to be said.
  std::string note{};
};

/// Shape of the KV pool. A block holds K and V of `blockSize` consecutive positions, all layers.
struct KvShape {
  KvType type = KvType::kFp16;
  int blockSize = 16;  ///< a multiple of 16
  int nBlocks = 0;
  int nKvHeads = 0;  ///< equals Backend::config().nKvHeads
  /// Of nBlocks, how many may lie in host memory while others are on the device. A batch needs all
  /// its blocks on the device at once: at most nBlocks − hostBlocks. 0 where there is no device.
  int hostBlocks = 0;
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
  /// 0: whole rows of logits. k: the k best tokens of each row are enough; a backend may then give
  /// those alone (a GPU: a few bytes instead of the vocabulary), or whole rows all the same.
  int best = 0;
};

/// Logits of the wanted rows, in the order of the batch; valid until the next call of forward().
/// A row is whole, or the best tokens of it.
class LogitsView {
 public:
  struct Row {
    std::span<float> logits;           // [vocabSize], or empty
    std::span<const TokenLogit> best;  // best first (ties: the smaller id), or empty
  };

  LogitsView() = default;
  /// Whole rows [rows, vocabSize], row-major.
  LogitsView(std::span<float> values, int vocabSize) : m_values(values), m_vocabSize(vocabSize) {}
  /// Rows of both kinds.
  explicit LogitsView(std::span<const Row> rows) : m_rows(rows) {}

  Row at(int i) const {
    if (!m_rows.empty()) return m_rows[static_cast<std::size_t>(i)];
    return {row(i), {}};
  }
  /// All rows [rows, vocabSize]. Requires: every row was asked for whole.
  std::span<float> values() const { return m_values; }
  /// A whole row. Requires: it was asked for whole.
  std::span<float> row(int i) const {
    if (!m_rows.empty()) return m_rows[static_cast<std::size_t>(i)].logits;
    return m_values.subspan(static_cast<std::size_t>(i) * m_vocabSize, m_vocabSize);
  }

 private:
  std::span<float> m_values;
  std::span<const Row> m_rows;
  int m_vocabSize = 0;
};

/// The memory of a device as its driver tells it, and what of it is ours. Bytes.
struct DeviceMemory {
  std::uint64_t total = 0, free = 0;
  std::uint64_t weights = 0;
  std::uint64_t kvBlocks = 0;   ///< blocks that hold something
  std::uint64_t kvScales = 0;   ///< of those, scales of INT8
  std::uint64_t kvFree = 0;     ///< blocks that hold nothing
  std::uint64_t workspace = 0;  ///< activations, cuBLAS, graphs' buffers
  std::uint64_t context = 0;    ///< the driver's own, for this process
  std::uint64_t others = 0;     ///< other programs; 0 and counted in `context` where it is not told
  std::uint64_t hostKv = 0;  ///< page-locked host memory that holds blocks; no part of the device
  /// What the driver counts as used beyond all of these; negative: less.
  std::int64_t residual() const {
    return static_cast<std::int64_t>(total - free) -
           static_cast<std::int64_t>(weights + kvBlocks + kvFree + workspace + context + others);
  }
};

struct BackendMemory {
  std::uint64_t weightBytes = 0;  ///< weights as held (repacked copies; mapped file parts apart)
  std::uint64_t mappedBytes = 0;  ///< parts of the mapped file that are read while running
  std::uint64_t kvBytesPerBlock = 0;       ///< values and scales, all layers
  std::uint64_t kvScaleBytesPerBlock = 0;  ///< of those, scales
  std::uint64_t kvAllocatedBytes = 0;      ///< RAM that the pool holds: of parts that were written
  std::uint64_t workspaceBytes = 0;
  /// Bytes of weights that one decode step reads (tied head once, one row of the embedding).
  std::uint64_t weightBytesPerToken = 0;
  std::optional<DeviceMemory> device;  ///< where the backend has one
};

/// Runs a model. Owned and called by one thread. Results do not depend on what else is in the
/// batch, on how a prompt is cut into chunks, or on where blocks lie. On the CPU the same sequence
/// gives the same bits (every row's sums run in one fixed order); on a GPU it does so within
/// rounding, since long and short batches take different kernels.
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
  /// Bytes that a pool may take now; on a device, what the present one has is counted in. Any
  /// thread.
  virtual std::uint64_t memoryForCache() const = 0;

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

  /// From the next forward() on, shows every row that enters a matrix product, and every key; null
  /// ends it. Steps take longer meanwhile.
  virtual void observe(ActivationObserver* observer) = 0;
  /// What went through static scales since the pool was made, site by site; empty where scales are
  /// not static.
  virtual std::vector<SiteUse> activationUse() const = 0;
};

/// Builds a backend for a model, converting its weights (the long part; reports progress, stops on
/// request with kCancelled). kAuto: CUDA where this build has it and a GPU is usable, else CPU with
/// the reason in BackendInfo::note; kCuda is an error then.
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

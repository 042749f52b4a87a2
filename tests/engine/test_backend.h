#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/measure/machine.h"

namespace vitrine::engine::test {

/// A backend for tests of cache and scheduler. It computes a real function of the tokens that its
/// blocks hold: the value of a position depends on the token and on the value before it, the logits
/// on the values of all positions. A wrong block, a stale one or one written twice therefore gives
/// other answers, and reading a position that nobody wrote is counted.
class TestBackend final : public Backend {
 public:
  static constexpr int kVocabSize = 61;

  explicit TestBackend(int nBlocks, int blockSize = 16);

  BackendInfo info() const override;
  const WeightPrecision& precision() const override { return m_precision; }
  const ModelConfig& config() const override { return m_config; }
  Result<void> configureCache(const KvShape& shape) override;
  const KvShape& cacheShape() const override { return m_shape; }
  std::uint64_t memoryForCache() const override { return availableMemoryBytes(); }
  Result<LogitsView> forward(std::span<const BatchSequence> batch) override;
  Result<void> copyBlock(BlockId from, BlockId to, int tokens) override;
  Result<void> readBlock(BlockId block, std::span<std::byte> bytes) const override;
  Result<void> writeBlock(BlockId block, std::span<const std::byte> bytes) override;
  void setActive(bool on) override { active = on; }
  BackendMemory memory() const override;
  void observe(ActivationObserver*) override {}  // multiplies no matrices
  std::vector<SiteUse> activationUse() const override { return {}; }

  /// As on a device that holds only a part of the pool at a time: see KvShape::hostBlocks.
  void setHostBlocks(int blocks) { m_shape.hostBlocks = blocks; }

  /// The same function without blocks: logits after `tokens`.
  static std::vector<float> logitsAfter(std::span<const TokenId> tokens);

  bool active = false;
  int steps = 0;
  int computedTokens = 0;
  int copies = 0;
  int mostSequences = 0;                    ///< in one batch
  int mostTokens = 0;                       ///< in one batch
  int brokenReads = 0;                      ///< positions read that hold nothing
  int overfull = 0;                         ///< batches with more blocks than the device holds
  int sharedWrites = 0;                     ///< blocks written while in two tables of the batch
  std::vector<std::vector<int>> batches;    ///< tokens of each sequence, step by step
  std::optional<Error> failNext;            ///< the next forward() fails with it
  std::chrono::microseconds timeOfToken{};  ///< that computing a position takes
  int failures = 0;                         ///< how many more fail with the same
  int hostBlocksAfterFailure = -1;          ///< what setHostBlocks() is called with then

 private:
  LogitsView wantedRows(std::span<const BatchSequence> batch);
  std::uint64_t& value(std::span<const BlockId> table, int position);

  WeightPrecision m_precision;
  ModelConfig m_config;
  KvShape m_shape;
  std::vector<std::uint64_t> m_values;  // [nBlocks, blockSize]; 0: never written
  std::vector<float> m_logits;
  std::vector<TokenLogit> m_best;
  std::vector<LogitsView::Row> m_wanted;
};

}  // namespace vitrine::engine::test

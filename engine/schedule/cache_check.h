#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/cache/kv_cache.h"
#include "engine/engine_types.h"

namespace vitrine::engine {

/// Proves a cached prompt right or wrong: computes it once more from nothing, compares the bytes of
/// every block, then lets both go on and compares their logits. One step at a time, so that turns
/// run in between, in free blocks alone: what is cached stays as it is. Inference thread only.
class CacheCheck final {
 public:
  CacheCheck(RequestId id, std::vector<TokenId> prompt, std::stop_token stop);

  RequestId id() const { return m_id; }
  bool stopRequested() const { return m_stop.stop_requested(); }

  /// Takes the blocks. kNotFound if nothing of the prompt is cached, kOutOfMemory if too few blocks
  /// are free; nothing is held then.
  Result<void> begin(KvCache& cache, Backend& backend, int contextTokens);
  /// Computes at most about `chunk` positions; true when the proof is there.
  Result<bool> step(KvCache& cache, int chunk);
  /// Gives the blocks back.
  void end(KvCache& cache);

  const CacheProof& proof() const { return m_proof; }
  int lastTokens() const { return m_lastTokens; }  ///< positions that the last step computed
  const Sequence& cold() const { return m_cold; }
  const Sequence& cached() const { return m_cached; }

 private:
  enum class Phase { kCold, kTail, kCached, kContinued };

  Result<void> stepCold(KvCache& cache, int chunk);
  Result<void> checkTail(KvCache& cache);
  Result<void> stepCached(KvCache& cache, int chunk);
  Result<void> stepContinued(KvCache& cache);
  void compareLogits(std::span<const float> cold, std::span<const float> cached);
  Result<void> compareFullBlocks();
  Result<LogitsView> forward(const Sequence& sequence, int tokens, std::span<const BlockId> table,
                             bool logits, double& milliseconds);
  Result<void> fill(BlockId block, std::byte value);
  Result<std::vector<std::byte>> read(BlockId block) const;

  RequestId m_id;
  std::stop_token m_stop;
  Backend* m_backend = nullptr;
  Phase m_phase = Phase::kCold;
  Sequence m_cold, m_cached;
  int m_blockSize = 0;
  int m_promptTokens = 0;
  int m_matched = 0;  // positions found cached
  int m_comparedBlocks = 0;
  int m_toContinue = 0;  // tokens still to be compared
  int m_lastTokens = 0;
  BlockId m_scratch = -1;  // the last of the cold sequence, never one of its positions
  std::vector<float> m_coldLogits;
  CacheProof m_proof;
};

}  // namespace vitrine::engine

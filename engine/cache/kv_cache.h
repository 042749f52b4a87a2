#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/result.h"
#include "engine/cache/block_pool.h"
#include "engine/cache/cache_map.h"
#include "engine/cache/prefix_index.h"
#include "engine/cache/sequence.h"

namespace vitrine::engine {

/// Gives sequences their blocks: finds what is cached of a prompt, copies on write, appends on
/// demand, and keeps the blocks of finished sequences for the next ones. Works on the backend's
/// pool as it is shaped when this object is made. Inference thread only.
class KvCache final {
 public:
  explicit KvCache(Backend& backend);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  int blocksFor(int tokens) const { return (tokens + m_blockSize - 1) / m_blockSize; }
  int blockSize() const { return m_blockSize; }
  int nBlocks() const { return m_pool.size(); }
  /// Blocks that the sequences which run may have together: on a device, what it holds now.
  int capacity() const;
  /// They have more, since the device holds less than before.
  bool isOvercommitted() const { return m_pool.usedCount() > capacity(); }
  const BlockPool& pool() const { return m_pool; }

  /// What is cached of a history.
  PrefixMatch find(std::span<const TokenId> tokens) const { return m_index.match(tokens); }

  /// Gives the sequence its cached beginning (never its last token: that one is always computed
  /// again, for its logits) and blocks for the rest of its tokens. False, and nothing changes, if
  /// fewer than `headroomBlocks` would be left for the sequences that run. Requires: an empty
  /// table.
  Result<bool> begin(Sequence& sequence, int headroomBlocks);
  /// What begin() would reuse and take for such a sequence, and how many cached blocks would have
  /// to go for it. Nothing changes; only the tokens and the mode are looked at.
  struct Preview {
    int reusedTokens = 0, newBlocks = 0, evictedBlocks = 0;
  };
  Preview preview(const Sequence& sequence) const;
  /// Blocks for `tokens` positions of a sequence that leaves no trace: free ones alone, so that
  /// nothing is evicted; `fromCache` shares the cached beginning (a partial block is copied). False
  /// if too few are free. Given back by end(), which keeps nothing.
  Result<bool> beginProbe(Sequence& sequence, int tokens, bool fromCache);
  /// Blocks for all positions below `tokens`. False if the pool has none left; those that were
  /// given stay.
  bool reserve(Sequence& sequence, int tokens);
  /// K and V of the next `count` tokens were written: full blocks become visible to others.
  void advance(Sequence& sequence, int count);
  /// Forgets what was computed, keeps the blocks (the cache is off). Requires: !mode.keep.
  void rewind(Sequence& sequence);
  /// Gives all blocks back; what they hold stays cached, to be evicted tails before heads.
  void end(Sequence& sequence);

  /// The label of a conversation's branch. Stays valid while blocks carry it.
  OwnerId ownerFor(std::string_view conversation, std::string_view branch);
  const std::vector<BlockOwner>& owners() const { return m_owners; }
  /// Frees the cached blocks of a conversation, except where others' blocks build on them.
  void forget(std::string_view conversation);
  /// Frees every block that no sequence uses.
  void clear();

  /// Cells and owners for the panels; `running`: the sequences that have blocks.
  void describe(std::span<const Sequence* const> running, EngineSnapshot& snapshot) const;
  /// What a block holds and for whom; kNotFound says why there is nothing to tell.
  Result<BlockContent> inspect(BlockId block, std::span<const Sequence* const> running) const;

  /// Cached blocks that had to make room, since the start.
  std::uint64_t evictedBlocks() const { return m_evictedBlocks; }

  /// "" when all promises hold over the pool, the index and these sequences. For tests.
  std::string checkInvariants(std::span<const Sequence* const> sequences) const;

 private:
  void noteCapacity() { m_pool.setMostUsed(capacity()); }
  PrefixMatch matchFor(const Sequence& sequence) const;
  Result<bool> beginPaged(Sequence& sequence, PrefixMatch match, int headroomBlocks);
  Result<bool> beginContiguous(Sequence& sequence, const PrefixMatch& match);
  bool canGoOnInPlace(const PrefixMatch& match, int nBlocks, bool sparing) const;
  bool goOnInPlace(Sequence& sequence, const PrefixMatch& match, int nBlocks);
  Result<bool> copyIntoRun(Sequence& sequence, const PrefixMatch& match, int nBlocks);
  void takeOver(BlockId block, int tokens, OwnerId owner);
  Result<void> copyTail(Sequence& sequence, const PrefixMatch& match, BlockId to);
  void startAt(Sequence& sequence, const PrefixMatch& match);
  void finishBlock(Sequence& sequence, int index);
  void forgetOwner(OwnerId owner);

  Backend& m_backend;
  int m_blockSize;
  BlockPool m_pool;
  PrefixIndex m_index;
  CacheMap m_map;
  std::vector<BlockOwner> m_owners;
  std::uint64_t m_evictedBlocks = 0;
};

}  // namespace vitrine::engine

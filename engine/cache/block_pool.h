#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/types.h"

namespace vitrine::engine {

/// Who a block is shown as belonging to; an index given out by KvCache.
using OwnerId = std::int16_t;
constexpr OwnerId kNoOwner = -1;

/// The host's bookkeeping of the KV pool: which block is free, cached or used, by how many
/// sequences, and which tokens it holds. The values themselves lie in the backend.
///
///     free ──allocate──▶ used ──last release──▶ cached ──acquire──▶ used
///       ▲                  │ (not kept)            │
///       └──────────────────┴───────drop / evicted by allocate
///
/// Unreferenced blocks wait in one list: free ones in front, then cached ones, the least recently
/// used first. Inference thread only.
class BlockPool final {
 public:
  /// Called before a cached block is taken for something else.
  using EvictionListener = std::function<void(BlockId)>;

  BlockPool(int nBlocks, int blockSize, EvictionListener onEvict = {});

  int size() const { return static_cast<int>(m_blocks.size()); }
  int blockSize() const { return m_blockSize; }
  int freeCount() const { return m_freeCount; }
  int cachedCount() const { return m_cachedCount; }
  int usedCount() const { return size() - m_freeCount - m_cachedCount; }
  /// Most blocks that may be used at a time, where not all can be: on a device that cannot hold the
  /// whole pool. The rest waits free or cached.
  void setMostUsed(int blocks) { m_mostUsed = blocks; }
  int mostUsed() const { return m_mostUsed; }
  /// Blocks that allocate() can hand out: free and cached ones, as far as they may be used.
  int availableCount() const {
    return std::clamp(m_mostUsed - usedCount(), 0, m_freeCount + m_cachedCount);
  }

  bool canAllocate(int count) const { return count <= availableCount(); }
  /// An empty block with one reference, for the tokens at `position` and on of a sequence.
  /// Requires: canAllocate(1).
  BlockId allocate(OwnerId owner, int position = 0);
  /// First block of `count` adjacent ones that nobody uses, or -1. Prefers the run that evicts the
  /// fewest cached blocks.
  BlockId findRun(int count) const;
  /// Takes one certain unreferenced block, evicting what it held.
  void allocateAt(BlockId block, OwnerId owner, int position = 0);

  /// One more sequence uses the block. Requires: it is used or cached.
  void acquire(BlockId block);
  /// One fewer. The last one makes a kept block cached (most recently used), any other free.
  void release(BlockId block);
  /// A cached block becomes free. Requires: nobody uses it.
  void drop(BlockId block);

  /// Appends token ids to a block. Requires: exactly one sequence uses it, and there is room.
  void append(BlockId block, std::span<const TokenId> tokens);
  /// Forgets the tokens behind the first `count`. Requires: one user, not kept.
  void truncate(BlockId block, int count);
  /// Whether the prefix index knows the block, so that its content outlives its users.
  void setKept(BlockId block, bool kept);

  std::span<const TokenId> tokens(BlockId block) const;
  int filled(BlockId block) const { return at(block).filled; }
  bool isFull(BlockId block) const { return at(block).filled == m_blockSize; }
  int references(BlockId block) const { return at(block).references; }
  bool isKept(BlockId block) const { return at(block).kept; }
  OwnerId owner(BlockId block) const { return at(block).owner; }
  /// Of its first token in its sequence; sharing does not change it.
  int position(BlockId block) const { return at(block).position; }
  /// Changes whenever tokens that the block held are lost: equal numbers mean that it still holds
  /// what it held (and maybe more behind).
  std::uint32_t generation(BlockId block) const { return at(block).generation; }
  void setOwner(BlockId block, OwnerId owner) { at(block).owner = owner; }

  /// "" when all promises hold, else the first that is broken. For tests; linear in the pool.
  std::string checkInvariants() const;

 private:
  struct Block {
    std::int32_t references = 0;
    std::int32_t filled = 0;
    BlockId previous = -1, next = -1;  // in the list of unreferenced blocks
    std::int32_t position = 0;
    std::uint32_t generation = 0;
    OwnerId owner = kNoOwner;
    bool kept = false;
  };

  Block& at(BlockId block) { return m_blocks[static_cast<std::size_t>(block)]; }
  const Block& at(BlockId block) const { return m_blocks[static_cast<std::size_t>(block)]; }
  void unlink(BlockId block);
  void pushFront(BlockId block);
  void pushBack(BlockId block);
  void makeFree(BlockId block);

  int m_blockSize;
  EvictionListener m_onEvict;
  std::vector<Block> m_blocks;
  std::vector<TokenId> m_tokens;  // [nBlocks, blockSize]
  BlockId m_front = -1, m_back = -1;
  int m_freeCount = 0, m_cachedCount = 0;
  int m_mostUsed;
};

}  // namespace vitrine::engine

#include "engine/cache/block_pool.h"

#include <algorithm>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "engine/base/check.h"

namespace vitrine::engine {

BlockPool::BlockPool(int nBlocks, int blockSize, EvictionListener onEvict)
    : m_blockSize(blockSize), m_onEvict(std::move(onEvict)), m_mostUsed(nBlocks) {
  VITRINE_CHECK(nBlocks > 0 && blockSize > 0, "a pool has at least one block of one position");
  m_blocks.resize(static_cast<std::size_t>(nBlocks));
  m_tokens.resize(m_blocks.size() * static_cast<std::size_t>(blockSize));
  for (BlockId block = 0; block < nBlocks; ++block) pushBack(block);
  m_freeCount = nBlocks;
}

BlockId BlockPool::allocate(OwnerId owner, int position) {
  VITRINE_CHECK(m_front >= 0, "allocate() without canAllocate()");
  const BlockId block = m_front;
  allocateAt(block, owner, position);
  return block;
}

BlockId BlockPool::findRun(int count) const {
  // One pass: length of the unreferenced run that ends here, and how many of its last `count`
  // blocks are cached.
  BlockId best = -1;
  int bestCached = 0;
  int length = 0, cached = 0;
  for (BlockId block = 0; block < size(); ++block) {
    if (at(block).references > 0) {
      length = cached = 0;
      continue;
    }
    ++length;
    cached += at(block).kept ? 1 : 0;
    if (length > count) cached -= at(block - count).kept ? 1 : 0;
    if (length >= count && (best < 0 || cached < bestCached)) {
      best = block - count + 1;
      bestCached = cached;
      if (cached == 0) break;
    }
  }
  return best;
}

void BlockPool::allocateAt(BlockId block, OwnerId owner, int position) {
  VITRINE_CHECK(at(block).references == 0, "only an unreferenced block can be allocated");
  if (at(block).kept) {
    if (m_onEvict) m_onEvict(block);
    drop(block);
  }
  unlink(block);
  --m_freeCount;
  Block& taken = at(block);
  taken.references = 1;
  taken.filled = 0;
  taken.owner = owner;
  taken.position = position;
}

void BlockPool::acquire(BlockId block) {
  Block& wanted = at(block);
  if (wanted.references == 0) {
    VITRINE_CHECK(wanted.kept, "a free block has nothing to share");
    unlink(block);
    --m_cachedCount;
  }
  ++wanted.references;
}

void BlockPool::release(BlockId block) {
  Block& left = at(block);
  VITRINE_CHECK(left.references > 0, "released more often than acquired");
  if (--left.references > 0) return;
  if (left.kept) {
    pushBack(block);
    ++m_cachedCount;
  } else {
    makeFree(block);
  }
}

void BlockPool::drop(BlockId block) {
  VITRINE_CHECK(at(block).references == 0 && at(block).kept, "only a cached block can be dropped");
  unlink(block);
  --m_cachedCount;
  makeFree(block);
}

void BlockPool::append(BlockId block, std::span<const TokenId> tokens) {
  Block& target = at(block);
  VITRINE_CHECK(target.references == 1, "a block that is written has one user");
  VITRINE_CHECK(target.filled + static_cast<int>(tokens.size()) <= m_blockSize, "block overflow");
  std::copy(tokens.begin(), tokens.end(),
            m_tokens.begin() + static_cast<std::ptrdiff_t>(block) * m_blockSize + target.filled);
  target.filled += static_cast<int>(tokens.size());
}

void BlockPool::truncate(BlockId block, int count) {
  Block& target = at(block);
  VITRINE_CHECK(target.references == 1 && !target.kept, "only a private block can be cut");
  VITRINE_CHECK(count >= 0 && count <= target.filled, "cut behind the end");
  if (count < target.filled) ++target.generation;
  target.filled = count;
}

void BlockPool::setKept(BlockId block, bool kept) {
  VITRINE_CHECK(at(block).references > 0, "kept changes while a sequence holds the block");
  at(block).kept = kept;
}

std::span<const TokenId> BlockPool::tokens(BlockId block) const {
  return {m_tokens.data() + static_cast<std::size_t>(block) * static_cast<std::size_t>(m_blockSize),
          static_cast<std::size_t>(at(block).filled)};
}

void BlockPool::unlink(BlockId block) {
  Block& gone = at(block);
  (gone.previous >= 0 ? at(gone.previous).next : m_front) = gone.next;
  (gone.next >= 0 ? at(gone.next).previous : m_back) = gone.previous;
  gone.previous = gone.next = -1;
}

void BlockPool::pushFront(BlockId block) {
  at(block).next = m_front;
  (m_front >= 0 ? at(m_front).previous : m_back) = block;
  m_front = block;
}

void BlockPool::pushBack(BlockId block) {
  at(block).previous = m_back;
  (m_back >= 0 ? at(m_back).next : m_front) = block;
  m_back = block;
}

void BlockPool::makeFree(BlockId block) {
  Block& freed = at(block);
  freed.kept = false;
  freed.filled = 0;
  freed.owner = kNoOwner;
  ++freed.generation;
  pushFront(block);
  ++m_freeCount;
}

std::string BlockPool::checkInvariants() const {
  std::vector<bool> listed(m_blocks.size(), false);
  int nFree = 0, nCached = 0;
  BlockId previous = -1;
  for (BlockId block = m_front; block >= 0; block = at(block).next) {
    const Block& one = at(block);
    if (listed[static_cast<std::size_t>(block)]) return fmt::format("block {} listed twice", block);
    listed[static_cast<std::size_t>(block)] = true;
    if (one.references != 0) return fmt::format("block {} is used and listed", block);
    if (one.previous != previous) return fmt::format("block {} has a wrong back link", block);
    if (one.kept) {
      ++nCached;
      if (one.filled == 0) return fmt::format("block {} is cached but empty", block);
    } else {
      ++nFree;
      if (nCached > 0) return fmt::format("free block {} stands behind a cached one", block);
      if (one.filled != 0) return fmt::format("block {} is free but holds tokens", block);
    }
    previous = block;
  }
  if (previous != m_back) return "the list's end is not its last block";
  if (nFree != m_freeCount || nCached != m_cachedCount) {
    return fmt::format("counted {} free and {} cached blocks, kept {} and {}", nFree, nCached,
                       m_freeCount, m_cachedCount);
  }
  for (BlockId block = 0; block < size(); ++block) {
    const Block& one = at(block);
    if (one.references < 0) return fmt::format("block {} has {} users", block, one.references);
    if (one.references == 0 && !listed[static_cast<std::size_t>(block)]) {
      return fmt::format("block {} is lost: unused and not listed", block);
    }
    if (one.filled < 0 || one.filled > m_blockSize) {
      return fmt::format("block {} holds {} of {} positions", block, one.filled, m_blockSize);
    }
  }
  return {};
}

}  // namespace vitrine::engine

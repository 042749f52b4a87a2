#include "engine/cache/kv_cache.h"

#include <algorithm>
#include <map>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "engine/base/check.h"

namespace vitrine::engine {

KvCache::KvCache(Backend& backend)
    : m_backend(backend),
      m_blockSize(backend.cacheShape().blockSize),
      m_pool(backend.cacheShape().nBlocks, m_blockSize,
             [this](BlockId block) {
               m_index.erase(block);
               ++m_evictedBlocks;
             }),
      m_index(m_pool),
      m_map(m_pool) {}

int KvCache::capacity() const {
  const KvShape& shape = m_backend.cacheShape();
  return std::min(m_pool.size(), shape.nBlocks - shape.hostBlocks);
}

// ---------------------------------------------------------------- beginning

PrefixMatch KvCache::matchFor(const Sequence& sequence) const {
  if (!sequence.mode.reuse || !sequence.mode.keep || sequence.length() < 2) return {};
  return m_index.match(std::span(sequence.tokens).first(sequence.tokens.size() - 1));
}

Result<bool> KvCache::begin(Sequence& sequence, int headroomBlocks) {
  VITRINE_CHECK(sequence.table.empty() && sequence.computed == 0, "a sequence begins once");
  noteCapacity();
  const PrefixMatch match = matchFor(sequence);
  // A contiguous sequence holds all that it will ever need, so it leaves no headroom.
  return sequence.mode.reserveTokens > 0 ? beginContiguous(sequence, match)
                                         : beginPaged(sequence, match, headroomBlocks);
}

Result<bool> KvCache::beginPaged(Sequence& sequence, PrefixMatch match, int headroomBlocks) {
  const int needed = blocksFor(sequence.length()) - static_cast<int>(match.blocks.size());
  const auto isIdle = [&](BlockId block) { return m_pool.references(block) == 0; };
  const auto idle = static_cast<int>(std::ranges::count_if(match.blocks, isIdle));
  int spare = m_pool.availableCount() - idle - needed - headroomBlocks;
  if (spare < 0) return false;

  for (const BlockId block : match.blocks) m_pool.acquire(block);
  sequence.table = match.blocks;
  if (match.tail >= 0) {
    // A cached block that ends where the match ends is written on; any other is copied, so that
    // what it holds behind the match stays for whoever wrote it, unless there is no room for both.
    const bool whole = match.tailTokens == m_pool.filled(match.tail);
    if (isIdle(match.tail) && !m_pool.isFull(match.tail) && (whole || spare == 0)) {
      takeOver(match.tail, match.tailTokens, sequence.owner);
      sequence.table.push_back(match.tail);
    } else if (isIdle(match.tail) && spare == 0) {
      match.tail = -1;
      match.tailTokens = 0;
    } else {
      m_pool.acquire(match.tail);
      const auto position = static_cast<int>(sequence.table.size()) * m_blockSize;
      const BlockId copy = m_pool.allocate(sequence.owner, position);
      sequence.table.push_back(copy);
      const auto copied = copyTail(sequence, match, copy);
      m_pool.release(match.tail);
      if (!copied) {
        startAt(sequence, PrefixMatch{});
        end(sequence);
        return tl::unexpected(copied.error());
      }
    }
  }
  startAt(sequence, match);
  const bool reserved = reserve(sequence, sequence.length());
  VITRINE_CHECK(reserved, "admission counted the blocks");
  return true;
}

void KvCache::takeOver(BlockId block, int tokens, OwnerId owner) {
  m_pool.acquire(block);
  m_index.erase(block);
  m_pool.setKept(block, false);
  m_pool.truncate(block, tokens);
  m_pool.setOwner(block, owner);
}

Result<void> KvCache::copyTail(Sequence& sequence, const PrefixMatch& match, BlockId to) {
  VITRINE_TRY(m_backend.copyBlock(match.tail, to, match.tailTokens));
  const auto first = match.blocks.size() * static_cast<std::size_t>(m_blockSize);
  m_pool.append(
      to, std::span(sequence.tokens).subspan(first, static_cast<std::size_t>(match.tailTokens)));
  return {};
}

void KvCache::startAt(Sequence& sequence, const PrefixMatch& match) {
  sequence.computed = match.tokens(m_blockSize);
  sequence.fullBlocks = static_cast<int>(match.blocks.size());
  sequence.hash = match.hash;
}

// ---------------------------------------------------------------- contiguous layout

Result<bool> KvCache::beginContiguous(Sequence& sequence, const PrefixMatch& match) {
  const int nBlocks = blocksFor(std::max(sequence.mode.reserveTokens, sequence.length()));
  if (match.tokens(m_blockSize) > 0) {
    if (canGoOnInPlace(match, nBlocks, true)) return goOnInPlace(sequence, match, nBlocks);
    VITRINE_ASSIGN(const bool copied, copyIntoRun(sequence, match, nBlocks));
    if (copied) return true;
    if (canGoOnInPlace(match, nBlocks, false)) return goOnInPlace(sequence, match, nBlocks);
  }
  return copyIntoRun(sequence, PrefixMatch{}, nBlocks);
}

/// Whether the cached blocks are adjacent, nobody uses them, and nobody uses the room behind them
/// (`sparing`: nothing that is cached would be lost either).
bool KvCache::canGoOnInPlace(const PrefixMatch& match, int nBlocks, bool sparing) const {
  const auto nFull = static_cast<int>(match.blocks.size());
  const BlockId first = nFull > 0 ? match.blocks.front() : match.tail;
  if (first + nBlocks > m_pool.size() || !m_pool.canAllocate(nBlocks)) return false;
  if (match.tail >= 0 && match.tail != first + nFull) return false;
  for (int i = 0; i < nBlocks; ++i) {
    const BlockId block = first + i;
    if (m_pool.references(block) > 0) return false;
    if (i < nFull) {
      if (match.blocks[static_cast<std::size_t>(i)] != block) return false;
    } else if (sparing && block == match.tail) {
      if (m_pool.filled(block) > match.tailTokens) return false;
    } else if (sparing && m_pool.isKept(block)) {
      return false;
    }
  }
  return true;
}

bool KvCache::goOnInPlace(Sequence& sequence, const PrefixMatch& match, int nBlocks) {
  const auto nFull = static_cast<int>(match.blocks.size());
  const BlockId first = nFull > 0 ? match.blocks.front() : match.tail;
  for (int i = 0; i < nBlocks; ++i) {
    const BlockId block = first + i;
    if (i < nFull) {
      m_pool.acquire(block);
    } else if (block == match.tail) {
      takeOver(block, match.tailTokens, sequence.owner);
    } else {
      m_pool.allocateAt(block, sequence.owner, i * m_blockSize);
    }
    sequence.table.push_back(block);
  }
  startAt(sequence, match);
  return true;
}

/// Takes a fresh run of adjacent blocks and copies what is cached into it.
Result<bool> KvCache::copyIntoRun(Sequence& sequence, const PrefixMatch& match, int nBlocks) {
  const auto pin = [&](bool on) {
    for (const BlockId block : match.blocks) on ? m_pool.acquire(block) : m_pool.release(block);
    if (match.tail >= 0) on ? m_pool.acquire(match.tail) : m_pool.release(match.tail);
  };
  pin(true);
  const BlockId run = m_pool.canAllocate(nBlocks) ? m_pool.findRun(nBlocks) : -1;
  if (run < 0) {
    pin(false);
    return false;
  }
  for (int i = 0; i < nBlocks; ++i) {
    m_pool.allocateAt(run + i, sequence.owner, i * m_blockSize);
    sequence.table.push_back(run + i);
  }
  Result<void> copied;
  for (std::size_t i = 0; i < match.blocks.size() && copied; ++i) {
    copied = m_backend.copyBlock(match.blocks[i], sequence.table[i], m_blockSize);
    if (copied) m_pool.append(sequence.table[i], m_pool.tokens(match.blocks[i]));
  }
  if (copied && match.tail >= 0) {
    copied = copyTail(sequence, match, sequence.table[match.blocks.size()]);
  }
  pin(false);
  if (!copied) {
    startAt(sequence, PrefixMatch{});
    end(sequence);
    return tl::unexpected(copied.error());
  }
  startAt(sequence, match);
  return true;
}

// ---------------------------------------------------------------- running

bool KvCache::reserve(Sequence& sequence, int tokens) {
  noteCapacity();
  const auto needed = static_cast<std::size_t>(blocksFor(tokens));
  while (sequence.table.size() < needed) {
    if (!m_pool.canAllocate(1)) return false;
    const auto position = static_cast<int>(sequence.table.size()) * m_blockSize;
    sequence.table.push_back(m_pool.allocate(sequence.owner, position));
  }
  return true;
}

void KvCache::advance(Sequence& sequence, int count) {
  while (count > 0) {
    const int index = sequence.computed / m_blockSize;
    const int offset = sequence.computed % m_blockSize;
    const int here = std::min(count, m_blockSize - offset);
    const BlockId block = sequence.table[static_cast<std::size_t>(index)];
    m_pool.append(block, std::span(sequence.tokens)
                             .subspan(static_cast<std::size_t>(sequence.computed),
                                      static_cast<std::size_t>(here)));
    sequence.computed += here;
    count -= here;
    if (offset + here == m_blockSize && sequence.mode.keep) finishBlock(sequence, index);
  }
}

/// A block is full: offers it to the index, or takes the equal one that another sequence filled.
void KvCache::finishBlock(Sequence& sequence, int index) {
  BlockId& block = sequence.table[static_cast<std::size_t>(index)];
  const PrefixHash parent = sequence.hash;
  const auto tokens = m_pool.tokens(block);
  sequence.hash = extend(parent, tokens);
  sequence.fullBlocks = index + 1;
  const BlockId equal = m_index.findFull(parent, tokens);
  if (equal < 0) {
    if (m_index.insert(block, parent)) m_pool.setKept(block, true);
  } else if (sequence.mode.reuse && sequence.mode.reserveTokens == 0) {
    m_pool.acquire(equal);
    m_pool.release(block);
    block = equal;
  }
}

void KvCache::rewind(Sequence& sequence) {
  VITRINE_CHECK(!sequence.mode.keep, "only a sequence without a cache is computed again");
  for (const BlockId block : sequence.table) m_pool.truncate(block, 0);
  sequence.computed = 0;
}

void KvCache::end(Sequence& sequence) {
  const auto tail = static_cast<std::size_t>(sequence.fullBlocks);
  if (sequence.mode.keep && tail < sequence.table.size()) {
    const BlockId block = sequence.table[tail];
    const auto tokens = m_pool.tokens(block);
    if (!tokens.empty() && !m_pool.isFull(block) && !m_index.covers(sequence.hash, tokens) &&
        m_index.insert(block, sequence.hash)) {
      m_pool.setKept(block, true);
    }
  }
  if (sequence.mode.keep && sequence.computed > 0) {
    // What a later turn would find, which is not always the table: of equal blocks one stays.
    PrefixMatch kept = m_index.match(
        std::span(sequence.tokens).first(static_cast<std::size_t>(sequence.computed)));
    if (kept.tail >= 0) kept.blocks.push_back(kept.tail);
    m_map.record(sequence.owner, kept.blocks);
  }
  // Backwards, so that a tail is evicted before the head that it needs.
  for (auto block = sequence.table.rbegin(); block != sequence.table.rend(); ++block) {
    m_pool.release(*block);
  }
  sequence.table.clear();
  sequence.computed = 0;
  sequence.fullBlocks = 0;
  sequence.hash = PrefixHash{};
}

// ---------------------------------------------------------------- owners

OwnerId KvCache::ownerFor(std::string_view conversation, std::string_view branch) {
  constexpr std::size_t kMostOwners = 8192;
  std::size_t unused = m_owners.size();
  for (std::size_t i = 0; i < m_owners.size(); ++i) {
    if (m_owners[i].conversation == conversation && m_owners[i].branch == branch) {
      return static_cast<OwnerId>(i);
    }
  }
  if (m_owners.size() >= kMostOwners) {
    std::vector<bool> seen(m_owners.size(), false);
    for (BlockId block = 0; block < m_pool.size(); ++block) {
      if (m_pool.owner(block) != kNoOwner)
        seen[static_cast<std::size_t>(m_pool.owner(block))] = true;
    }
    const auto gap = std::find(seen.begin(), seen.end(), false);
    if (gap == seen.end()) return kNoOwner;
    unused = static_cast<std::size_t>(gap - seen.begin());
  }
  if (unused == m_owners.size()) m_owners.emplace_back();
  m_map.forget(static_cast<OwnerId>(unused));
  m_owners[unused] = BlockOwner{std::string(conversation), std::string(branch)};
  return static_cast<OwnerId>(unused);
}

void KvCache::forget(std::string_view conversation) {
  for (std::size_t i = 0; i < m_owners.size(); ++i) {
    if (m_owners[i].conversation != conversation) continue;
    forgetOwner(static_cast<OwnerId>(i));
    m_map.forget(static_cast<OwnerId>(i));
  }
}

void KvCache::forgetOwner(OwnerId owner) {
  const auto belongs = [&](BlockId block) {
    return block >= 0 && m_pool.owner(block) == owner && m_index.contains(block);
  };
  for (BlockId start = 0; start < m_pool.size(); ++start) {
    BlockId block = start;
    while (belongs(block) && m_pool.references(block) == 0 && m_index.childrenOf(block).empty()) {
      const BlockId parent = m_index.parentOf(block);
      m_index.erase(block);
      m_pool.drop(block);
      block = parent;
    }
  }
  // What is left carries blocks of others (or is in use): the former now belong to those others.
  for (BlockId start = 0; start < m_pool.size(); ++start) {
    const OwnerId heir = m_pool.owner(start);
    if (heir == owner || heir == kNoOwner || !m_index.contains(start)) continue;
    for (BlockId block = m_index.parentOf(start); belongs(block); block = m_index.parentOf(block)) {
      m_pool.setOwner(block, heir);
    }
  }
}

void KvCache::clear() {
  for (BlockId block = 0; block < m_pool.size(); ++block) {
    if (m_pool.references(block) == 0 && m_pool.isKept(block)) {
      m_index.erase(block);
      m_pool.drop(block);
    }
  }
}

// ---------------------------------------------------------------- what others see

void KvCache::describe(std::span<const Sequence* const> running, EngineSnapshot& snapshot) const {
  m_map.describe(running, m_owners, snapshot);
}

Result<BlockContent> KvCache::inspect(BlockId block,
                                      std::span<const Sequence* const> running) const {
  if (block < 0 || block >= m_pool.size()) {
    return fail(ErrorCode::kNotFound, "there is no block {}: the pool has blocks 0 to {}", block,
                m_pool.size() - 1);
  }
  if (m_pool.references(block) == 0 && !m_pool.isKept(block)) {
    return fail(ErrorCode::kNotFound, "block {} is free", block);
  }
  return m_map.inspect(block, running, m_owners);
}

// ---------------------------------------------------------------- tests

std::string KvCache::checkInvariants(std::span<const Sequence* const> sequences) const {
  if (auto problem = m_pool.checkInvariants(); !problem.empty()) return problem;
  if (auto problem = m_index.checkInvariants(); !problem.empty()) return problem;
  std::map<BlockId, int> references;
  for (const Sequence* sequence : sequences) {
    for (std::size_t i = 0; i < sequence->table.size(); ++i) {
      const BlockId block = sequence->table[i];
      ++references[block];
      const int first = static_cast<int>(i) * m_blockSize;
      const int expected = std::clamp(sequence->computed - first, 0, m_blockSize);
      const auto held = m_pool.tokens(block);
      if (static_cast<int>(held.size()) != expected) {
        return fmt::format("block {} holds {} positions, its sequence computed {}", block,
                           held.size(), expected);
      }
      if (!std::equal(held.begin(), held.end(), sequence->tokens.begin() + first)) {
        return fmt::format("block {} holds other tokens than its sequence", block);
      }
    }
  }
  for (BlockId block = 0; block < m_pool.size(); ++block) {
    const auto counted = references.find(block);
    const int expected = counted == references.end() ? 0 : counted->second;
    if (m_pool.references(block) != expected) {
      return fmt::format("block {} counts {} users, {} sequences hold it", block,
                         m_pool.references(block), expected);
    }
  }
  return {};
}

}  // namespace vitrine::engine

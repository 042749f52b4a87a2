// Looks that leave no trace: what begin() would do, and sequences beside those of turns.
#include <algorithm>

#include "engine/cache/kv_cache.h"

namespace vitrine::engine {

KvCache::Preview KvCache::preview(const Sequence& sequence) const {
  const PrefixMatch match = matchFor(sequence);
  Preview preview;
  preview.reusedTokens = match.tokens(m_blockSize);
  const auto nFull = static_cast<int>(match.blocks.size());
  const int needed = blocksFor(std::max(sequence.length(), sequence.mode.reserveTokens));
  if (sequence.mode.reserveTokens > 0) {
    const bool inPlace = preview.reusedTokens > 0 && canGoOnInPlace(match, needed, true);
    preview.newBlocks = needed - (inPlace ? nFull + (match.tail >= 0 ? 1 : 0) : 0);
  } else {
    const bool takenOver = match.tail >= 0 && m_pool.references(match.tail) == 0 &&
                           match.tailTokens == m_pool.filled(match.tail);
    preview.newBlocks = needed - nFull - (takenOver ? 1 : 0);
  }
  const auto isIdle = [this](BlockId block) { return m_pool.references(block) == 0; };
  const int idle = static_cast<int>(std::ranges::count_if(match.blocks, isIdle));
  preview.evictedBlocks =
      std::clamp(preview.newBlocks - m_pool.freeCount(), 0, m_pool.cachedCount() - idle);
  return preview;
}

Result<bool> KvCache::beginProbe(Sequence& sequence, int tokens, bool fromCache) {
  sequence.mode = CacheMode{.keep = false, .reuse = false, .reserveTokens = 0};
  PrefixMatch match;
  if (fromCache && sequence.length() > 1) {
    match = m_index.match(std::span(sequence.tokens).first(sequence.tokens.size() - 1));
  }
  noteCapacity();
  if (blocksFor(tokens) - static_cast<int>(match.blocks.size()) > m_pool.freeCount()) return false;
  // Shared blocks and the one that is copied have to be where the others are.
  if (!m_pool.canAllocate(blocksFor(tokens) + (match.tail >= 0 ? 1 : 0))) return false;
  for (const BlockId block : match.blocks) m_pool.acquire(block);
  sequence.table = match.blocks;
  if (match.tail >= 0) {
    m_pool.acquire(match.tail);
    sequence.table.push_back(m_pool.allocate(kNoOwner));
    const auto copied = copyTail(sequence, match, sequence.table.back());
    m_pool.release(match.tail);
    if (!copied) {
      end(sequence);
      return tl::unexpected(copied.error());
    }
  }
  startAt(sequence, match);
  reserve(sequence, tokens);
  return true;
}

}  // namespace vitrine::engine

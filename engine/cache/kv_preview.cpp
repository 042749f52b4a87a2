// Looks at what begin() would do, without doing it.
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

}  // namespace vitrine::engine

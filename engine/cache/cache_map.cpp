#include "engine/cache/cache_map.h"

#include <algorithm>

namespace vitrine::engine {

void CacheMap::record(OwnerId owner, std::span<const BlockId> blocks) {
  if (owner == kNoOwner) return;
  const auto index = static_cast<std::size_t>(owner);
  if (m_recorded.size() <= index) m_recorded.resize(index + 1);
  std::vector<Link>& chain = m_recorded[index];
  chain.clear();
  chain.reserve(blocks.size());
  for (const BlockId block : blocks) chain.push_back(Link{block, m_pool.generation(block)});
  // Chains of which nothing is left need no memory; one look at each first link finds them.
  for (std::vector<Link>& other : m_recorded) {
    if (intactLinks(other) == 0) std::vector<Link>{}.swap(other);
  }
}

void CacheMap::forget(OwnerId owner) {
  const auto index = static_cast<std::size_t>(owner);
  if (owner != kNoOwner && index < m_recorded.size()) std::vector<Link>{}.swap(m_recorded[index]);
}

std::size_t CacheMap::intactLinks(const std::vector<Link>& chain) const {
  const auto gone = [this](const Link& link) {
    return m_pool.generation(link.block) != link.generation;
  };
  return static_cast<std::size_t>(std::find_if(chain.begin(), chain.end(), gone) - chain.begin());
}

CacheMap::Chains CacheMap::chains(std::span<const Sequence* const> running,
                                  std::size_t nOwners) const {
  Chains chains(nOwners);
  for (std::size_t owner = 0; owner < std::min(nOwners, m_recorded.size()); ++owner) {
    const std::vector<Link>& recorded = m_recorded[owner];
    const std::size_t intact = intactLinks(recorded);
    chains[owner].reserve(intact);
    for (std::size_t i = 0; i < intact; ++i) chains[owner].push_back(recorded[i].block);
  }
  std::vector<bool> runs(nOwners, false);
  for (const Sequence* sequence : running) {
    if (sequence->owner == kNoOwner || sequence->table.empty()) continue;
    const auto owner = static_cast<std::size_t>(sequence->owner);
    const int blockSize = m_pool.blockSize();
    const auto filled =
        std::min(sequence->table.size(),
                 static_cast<std::size_t>((sequence->computed + blockSize - 1) / blockSize));
    // Two turns of one branch at a time: the longer one stands for it.
    if (runs[owner] && filled <= chains[owner].size()) continue;
    runs[owner] = true;
    chains[owner].assign(sequence->table.begin(),
                         sequence->table.begin() + static_cast<std::ptrdiff_t>(filled));
  }
  return chains;
}

void CacheMap::describe(std::span<const Sequence* const> running,
                        std::span<const BlockOwner> owners, EngineSnapshot& snapshot) const {
  Chains all = chains(running, owners.size());
  snapshot.blocks.resize(static_cast<std::size_t>(m_pool.size()));
  for (const auto& chain : all) {
    for (const BlockId block : chain) ++snapshot.blocks[static_cast<std::size_t>(block)].sharers;
  }

  std::vector<std::int16_t> shownAs(owners.size(), -1);
  const auto shown = [&](std::size_t owner) -> std::int16_t {
    if (shownAs[owner] < 0) {
      shownAs[owner] = static_cast<std::int16_t>(snapshot.owners.size());
      CacheOwner& added = snapshot.owners.emplace_back();
      added.conversation = owners[owner].conversation;
      added.branch = owners[owner].branch;
    }
    return shownAs[owner];
  };
  for (BlockId block = 0; block < m_pool.size(); ++block) {
    BlockCell& cell = snapshot.blocks[static_cast<std::size_t>(block)];
    const int references = m_pool.references(block);
    cell.state = references > 0         ? BlockState::kUsed
                 : m_pool.isKept(block) ? BlockState::kCached
                                        : BlockState::kFree;
    if (cell.state == BlockState::kFree) continue;
    cell.filled = static_cast<std::uint8_t>(std::min(m_pool.filled(block), 255));
    cell.references = static_cast<std::uint16_t>(std::min(references, 65535));
    cell.position = m_pool.position(block);
    const OwnerId owner = m_pool.owner(block);
    if (owner == kNoOwner) continue;
    cell.owner = shown(static_cast<std::size_t>(owner));
    CacheOwner& labelled = snapshot.owners[static_cast<std::size_t>(cell.owner)];
    labelled.tokens += m_pool.filled(block);
    ++labelled.blocks;
    labelled.bytes += snapshot.bytesPerBlock;
  }
  for (std::size_t owner = 0; owner < all.size(); ++owner) {
    if (all[owner].empty()) continue;
    CacheOwner& branch = snapshot.owners[static_cast<std::size_t>(shown(owner))];
    branch.chain = std::move(all[owner]);
    branch.sharedBlocks = static_cast<int>(std::ranges::count_if(branch.chain, [&](BlockId block) {
      return snapshot.blocks[static_cast<std::size_t>(block)].sharers > 1;
    }));
  }
}

BlockContent CacheMap::inspect(BlockId block, std::span<const Sequence* const> running,
                               std::span<const BlockOwner> owners) const {
  BlockContent content;
  content.block = block;
  content.firstPosition = m_pool.position(block);
  const auto tokens = m_pool.tokens(block);
  content.tokens.assign(tokens.begin(), tokens.end());
  content.references = m_pool.references(block);
  const Chains all = chains(running, owners.size());
  for (std::size_t owner = 0; owner < all.size(); ++owner) {
    // A block has one place in every history that goes through it.
    const auto place = static_cast<std::size_t>(content.firstPosition / m_pool.blockSize());
    if (place >= all[owner].size() || all[owner][place] != block) continue;
    content.holders.push_back({owners[owner].conversation, owners[owner].branch});
  }
  return content;
}

}  // namespace vitrine::engine

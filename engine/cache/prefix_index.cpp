#include "engine/cache/prefix_index.h"

#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "engine/base/check.h"

namespace vitrine::engine {

PrefixMatch PrefixIndex::match(std::span<const TokenId> tokens) const {
  PrefixMatch found;
  const auto blockSize = static_cast<std::size_t>(m_pool.blockSize());
  std::span<const TokenId> rest = tokens;
  while (rest.size() >= blockSize) {
    const auto head = rest.first(blockSize);
    const BlockId block = findFull(found.hash, head);
    if (block < 0) break;
    found.blocks.push_back(block);
    found.hash = extend(found.hash, head);
    rest = rest.subspan(blockSize);
  }
  const auto children = m_children.find(found.hash);
  if (children == m_children.end()) return found;
  for (const BlockId child : children->second) {
    const auto held = m_pool.tokens(child);
    const auto limit = std::min(held.size(), rest.size());
    const auto [end, unused] = std::mismatch(held.begin(), held.begin() + limit, rest.begin());
    const auto common = static_cast<int>(end - held.begin());
    if (common > found.tailTokens) {
      found.tail = child;
      found.tailTokens = common;
    }
  }
  return found;
}

BlockId PrefixIndex::findFull(const PrefixHash& parent, std::span<const TokenId> tokens) const {
  const auto found = m_full.find(extend(parent, tokens));
  if (found == m_full.end()) return -1;
  const BlockId block = found->second;
  const auto held = m_pool.tokens(block);
  // A hash is a hint; the tokens and the history are the proof.
  if (!std::equal(held.begin(), held.end(), tokens.begin(), tokens.end())) return -1;
  return m_entries.at(block).parent == parent ? block : -1;
}

bool PrefixIndex::covers(const PrefixHash& parent, std::span<const TokenId> tokens) const {
  const auto children = m_children.find(parent);
  if (children == m_children.end()) return false;
  return std::any_of(children->second.begin(), children->second.end(), [&](BlockId child) {
    const auto held = m_pool.tokens(child);
    return held.size() >= tokens.size() && std::equal(tokens.begin(), tokens.end(), held.begin());
  });
}

bool PrefixIndex::insert(BlockId block, const PrefixHash& parent) {
  const auto tokens = m_pool.tokens(block);
  VITRINE_CHECK(!tokens.empty(), "an empty block cannot be found again");
  VITRINE_CHECK(!contains(block), "the block is in the index already");
  const Entry entry{parent, extend(parent, tokens), m_pool.isFull(block)};
  if (entry.full && !m_full.emplace(entry.hash, block).second) return false;
  m_entries.emplace(block, entry);
  m_children[parent].push_back(block);
  return true;
}

void PrefixIndex::erase(BlockId block) {
  const auto found = m_entries.find(block);
  VITRINE_CHECK(found != m_entries.end(), "the block is not in the index");
  const Entry entry = found->second;
  m_entries.erase(found);
  if (entry.full) m_full.erase(entry.hash);
  const auto children = m_children.find(entry.parent);
  std::erase(children->second, block);
  if (children->second.empty()) m_children.erase(children);
}

BlockId PrefixIndex::parentOf(BlockId block) const {
  const auto entry = m_entries.find(block);
  if (entry == m_entries.end()) return -1;
  const auto parent = m_full.find(entry->second.parent);
  return parent == m_full.end() ? -1 : parent->second;
}

std::span<const BlockId> PrefixIndex::childrenOf(BlockId block) const {
  const auto entry = m_entries.find(block);
  if (entry == m_entries.end() || !entry->second.full) return {};
  const auto children = m_children.find(entry->second.hash);
  if (children == m_children.end()) return {};
  return children->second;
}

std::string PrefixIndex::checkInvariants() const {
  std::size_t nFull = 0, nChildren = 0;
  for (const auto& [block, entry] : m_entries) {
    if (!m_pool.isKept(block)) return fmt::format("indexed block {} is not kept", block);
    if (entry.full != m_pool.isFull(block)) return fmt::format("block {} changed its fill", block);
    if (extend(entry.parent, m_pool.tokens(block)) != entry.hash) {
      return fmt::format("block {} changed its tokens", block);
    }
    nFull += entry.full ? 1 : 0;
    if (entry.full) {
      const auto full = m_full.find(entry.hash);
      if (full == m_full.end() || full->second != block) {
        return fmt::format("full block {} is not found by its hash", block);
      }
    }
  }
  for (const auto& [hash, children] : m_children) {
    nChildren += children.size();
    for (const BlockId child : children) {
      const auto entry = m_entries.find(child);
      if (entry == m_entries.end() || entry->second.parent != hash) {
        return fmt::format("block {} stands under a wrong parent", child);
      }
    }
  }
  if (nFull != m_full.size()) return "the number of full blocks differs";
  if (nChildren != m_entries.size()) return "the number of children differs";
  for (BlockId block = 0; block < m_pool.size(); ++block) {
    if (m_pool.isKept(block) && !contains(block)) {
      return fmt::format("kept block {} cannot be found", block);
    }
  }
  return {};
}

}  // namespace vitrine::engine

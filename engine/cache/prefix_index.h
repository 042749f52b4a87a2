#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/types.h"
#include "engine/cache/block_pool.h"
#include "engine/cache/prefix_hash.h"

namespace vitrine::engine {

/// What the cache holds of a prompt.
struct PrefixMatch {
  std::vector<BlockId> blocks;  ///< whole blocks, from the start of the prompt
  PrefixHash hash;              ///< of the tokens of `blocks`
  BlockId tail = -1;            ///< block whose first `tailTokens` positions also match, or -1
  int tailTokens = 0;

  int tokens(int blockSize) const {
    return static_cast<int>(blocks.size()) * blockSize + tailTokens;
  }
};

/// Finds blocks by the tokens that they hold and the tokens before them: a chain of hashes over
/// full blocks (as vLLM's automatic prefix caching), and behind the last full one the child with
/// the longest common beginning, partly filled blocks included, so that reuse is exact to the
/// token. A block has one place; which conversation or slot it came from plays no part.
class PrefixIndex final {
 public:
  explicit PrefixIndex(const BlockPool& pool) : m_pool(pool) {}

  /// The longest cached beginning of `tokens`.
  PrefixMatch match(std::span<const TokenId> tokens) const;

  /// A full block with the same tokens after the same history, or -1.
  BlockId findFull(const PrefixHash& parent, std::span<const TokenId> tokens) const;
  /// Whether some block after `parent` begins with these tokens.
  bool covers(const PrefixHash& parent, std::span<const TokenId> tokens) const;

  /// Adds a filled or partly filled block that follows `parent`. False, and nothing is added, where
  /// a full block with the same hash is there. Requires: the block is not in the index.
  bool insert(BlockId block, const PrefixHash& parent);
  void erase(BlockId block);

  bool contains(BlockId block) const { return m_entries.contains(block); }
  /// The full block in front of this one, or -1 where it is not cached (or this is the first).
  BlockId parentOf(BlockId block) const;
  /// Blocks that follow this one, or none. Valid until the index changes.
  std::span<const BlockId> childrenOf(BlockId block) const;
  std::size_t size() const { return m_entries.size(); }

  std::string checkInvariants() const;

 private:
  struct Entry {
    PrefixHash parent, hash;  // hash: only of full blocks
    bool full = false;
  };
  template <typename Value>
  using ByHash = std::unordered_map<PrefixHash, Value, PrefixHashHasher>;

  const BlockPool& m_pool;
  std::unordered_map<BlockId, Entry> m_entries;
  ByHash<BlockId> m_full;                   // hash after the block → the block
  ByHash<std::vector<BlockId>> m_children;  // hash before the block → all blocks that follow
};

}  // namespace vitrine::engine

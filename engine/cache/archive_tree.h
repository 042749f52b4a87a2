#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/types.h"
#include "engine/cache/prefix_hash.h"

namespace vitrine::engine {

/// One block of a conversation on disk.
struct ArchivedBlock {
  std::int32_t parent = -1;  ///< the full block before it, an earlier one of the tree; −1: first
  std::vector<TokenId> tokens;  ///< 1 to blockSize
  std::uint64_t checksum = 0;   ///< XXH3 of its bytes, seeded with `hash.low`
  PrefixHash hash;              ///< of all tokens up to its end: ties the bytes to their history
};

/// Which tokens a conversation has on disk: every branch, what branches share once. Only knows
/// tokens; the bytes are in the file.
class ArchiveTree final {
 public:
  explicit ArchiveTree(int blockSize = 16) : m_blockSize(blockSize) {}

  struct Match {
    std::vector<int> blocks;  ///< in order; the last may hold more tokens than match
    int tokens = 0;
  };
  /// The longest beginning of `tokens` that is on disk, exact to the token.
  Match match(std::span<const TokenId> tokens) const;

  /// Adds a block behind a full one. Requires: parent is −1 or a full block, tokens 1 to blockSize.
  int add(std::int32_t parent, std::span<const TokenId> tokens);
  void setChecksum(int block, std::uint64_t checksum) { at(block).checksum = checksum; }

  /// Tokens from the start through `block` and on along its longest continuation.
  std::vector<TokenId> pathThrough(int block) const;

  int blockSize() const { return m_blockSize; }
  int size() const { return static_cast<int>(m_blocks.size()); }
  const ArchivedBlock& block(int index) const { return m_blocks[static_cast<std::size_t>(index)]; }
  std::span<const int> childrenOf(int block) const;  ///< −1: the first blocks
  bool isFull(int index) const {
    return static_cast<int>(block(index).tokens.size()) == m_blockSize;
  }
  /// Positions of all blocks: each shared one counted once.
  int tokens() const { return m_tokens; }

 private:
  ArchivedBlock& at(int index) { return m_blocks[static_cast<std::size_t>(index)]; }

  int m_blockSize;
  int m_tokens = 0;
  std::vector<ArchivedBlock> m_blocks;
  std::vector<std::vector<int>> m_children{{}};  // [block + 1]
};

}  // namespace vitrine::engine

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/cache/block_pool.h"
#include "engine/cache/sequence.h"
#include "engine/engine_types.h"

namespace vitrine::engine {

/// Who a block is shown as belonging to: a branch of a conversation.
struct BlockOwner {
  std::string conversation, branch;
};

/// Through which blocks the history of each branch goes, for the panels. A block of the pool names
/// one owner, but a system prompt that six chats share lies in one block: only the chains tell.
/// A chain is remembered when its turn ends and is cut where a block has changed hands since, which
/// the pool's generation numbers tell without looking at tokens. Inference thread only.
class CacheMap final {
 public:
  explicit CacheMap(const BlockPool& pool) : m_pool(pool) {}

  /// The branch's cached history is now these blocks, the last of them possibly in part. Replaces
  /// what was remembered of the branch.
  void record(OwnerId owner, std::span<const BlockId> blocks);
  void forget(OwnerId owner);

  /// Cells, owners with their chains, sharers. Branches whose turn is in `running` are shown by the
  /// blocks of that turn.
  void describe(std::span<const Sequence* const> running, std::span<const BlockOwner> owners,
                EngineSnapshot& snapshot) const;
  /// What one block holds and for whom. Requires: the block is not free.
  BlockContent inspect(BlockId block, std::span<const Sequence* const> running,
                       std::span<const BlockOwner> owners) const;

 private:
  struct Link {
    BlockId block;
    std::uint32_t generation;
  };
  using Chains = std::vector<std::vector<BlockId>>;  // [owners]

  std::size_t intactLinks(const std::vector<Link>& chain) const;
  Chains chains(std::span<const Sequence* const> running, std::size_t nOwners) const;

  const BlockPool& m_pool;
  std::vector<std::vector<Link>> m_recorded;  // [owners]
};

}  // namespace vitrine::engine

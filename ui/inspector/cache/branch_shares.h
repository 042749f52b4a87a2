#pragma once

#include <QString>
#include <cstdint>
#include <vector>

#include "engine/engine_types.h"

namespace vitrine::ui {

/// What the branches of one conversation hold together and apart, counted block by block.
struct BranchShares {
  struct Branch {
    int owner = -1;         ///< index into the snapshot's owners
    int tokens = 0;         ///< of its whole cached history
    int blocks = 0;         ///< likewise
    int sharedHere = 0;     ///< of them, also in another branch of this conversation
    int sharedOutside = 0;  ///< of the rest, also in another conversation
    int own = 0;            ///< in no other
  };
  std::vector<Branch> branches;  ///< in the snapshot's order
  int distinctBlocks = 0;        ///< that the conversation holds
  std::uint64_t savedHere = 0;   ///< bytes that its branches would hold twice or more often
  std::uint64_t savedPool = 0;   ///< the same over all conversations of the pool
  int sharedOutside = 0;         ///< distinct blocks that another conversation holds, too
};

BranchShares branchShares(const engine::EngineSnapshot& snapshot, const QString& conversation);

/// The sequences that a turn computes now, by the blocks that they hold.
struct LiveSequences {
  int count = 0;
  int blocks = 0;           ///< distinct ones
  std::int64_t tokens = 0;  ///< positions of all sequences
};
LiveSequences liveSequences(const engine::EngineSnapshot& snapshot);

/// Places, bytes and waste of one way to lay out sequences in a pool.
struct LayoutCost {
  std::uint64_t reservedTokens = 0, usedTokens = 0;
  std::uint64_t wastedTokens() const {
    return reservedTokens > usedTokens ? reservedTokens - usedTokens : 0;
  }
  double chatsThatFit = 0;  ///< in the whole pool, of the average length at hand
};

/// Sequences of these lengths side by side, each to itself: with blocks on demand, and with the
/// whole context reserved for each.
struct LayoutComparison {
  int sequences = 0;
  LayoutCost paged, contiguous;
};
LayoutComparison compareLayouts(const std::vector<int>& lengths, int blockSize, int contextTokens,
                                int poolBlocks);

/// Of what the pool holds now: paged counts shared blocks once, as they lie there.
LayoutComparison compareLayoutsInPool(const engine::EngineSnapshot& snapshot, int contextTokens);

}  // namespace vitrine::ui

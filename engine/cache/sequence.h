#pragma once

#include <vector>

#include "engine/base/types.h"
#include "engine/cache/block_pool.h"
#include "engine/cache/prefix_hash.h"

namespace vitrine::engine {

/// How a sequence uses the pool; fixed when it begins.
struct CacheMode {
  bool keep = true;       ///< its blocks stay cached for others (false: every step recomputes)
  bool reuse = true;      ///< it starts from cached blocks and shares equal ones
  int reserveTokens = 0;  ///< contiguous layout: adjacent blocks for so many, up front; 0: paged
};

/// Tokens being decoded, and the blocks that hold their K and V. KvCache fills all but `tokens`.
struct Sequence {
  std::vector<TokenId> tokens;  ///< prompt, then what was generated
  std::vector<BlockId> table;   ///< blocks of positions 0 and on
  int computed = 0;             ///< positions whose K and V are in the blocks
  OwnerId owner = kNoOwner;
  CacheMode mode;

  PrefixHash hash;     ///< of the full blocks below
  int fullBlocks = 0;  ///< blocks filled and offered to the index

  int length() const { return static_cast<int>(tokens.size()); }
};

}  // namespace vitrine::engine

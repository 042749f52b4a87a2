#pragma once

#include <span>

#include "engine/backend/backend.h"

// What every backend asks before it touches memory.

namespace vitrine::engine {

/// Whether a pool of this shape can be made for a model as it runs (Backend::config()).
Result<void> checkKvShape(const KvShape& shape, const ModelConfig& config);

/// Whether the block lies in the pool.
Result<void> checkBlock(BlockId block, const KvShape& shape);

/// The same, and whether `bytes` is what a block has (readBlock, writeBlock).
Result<void> checkBlockBytes(BlockId block, std::size_t bytes, std::size_t blockBytes,
                             const KvShape& shape);

/// Whether the pool is there and every sequence has tokens of the vocabulary, a position, rows and
/// a block table that fit each other.
Result<void> checkBatch(std::span<const BatchSequence> batch, const ModelConfig& config,
                        const KvShape& shape);

}  // namespace vitrine::engine

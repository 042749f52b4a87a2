#include "engine/backend/batch_check.h"

namespace vitrine::engine {

Result<void> checkKvShape(const KvShape& shape, const ModelConfig& config) {
  if (shape.blockSize < 16 || shape.blockSize % 16 != 0 || shape.nBlocks < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "a KV pool of {} blocks of {} tokens is not possible: at least 1 block, of a "
                "multiple of 16 tokens",
                shape.nBlocks, shape.blockSize);
  }
  if (shape.nKvHeads != config.nKvHeads) {
    return fail(ErrorCode::kInvalidArgument,
                "the model runs with {} KV heads and the cache was asked for {}", config.nKvHeads,
                shape.nKvHeads);
  }
  return {};
}

Result<void> checkBlock(BlockId block, const KvShape& shape) {
  if (block >= 0 && block < shape.nBlocks) return {};
  return fail(ErrorCode::kInternal, "block {} is not in the pool of {} blocks", block,
              shape.nBlocks);
}

Result<void> checkBlockBytes(BlockId block, std::size_t bytes, std::size_t blockBytes,
                             const KvShape& shape) {
  VITRINE_TRY(checkBlock(block, shape));
  if (bytes == blockBytes) return {};
  return fail(ErrorCode::kInternal, "a block has {} bytes, not {}", blockBytes, bytes);
}

Result<void> checkBatch(std::span<const BatchSequence> batch, const ModelConfig& config,
                        const KvShape& shape) {
  if (shape.nBlocks < 1) return fail(ErrorCode::kInternal, "the KV cache was not configured");
  for (const BatchSequence& s : batch) {
    const auto tokens = static_cast<int>(s.tokens.size());
    if (tokens < 1 || s.firstPosition < 0 || s.logitRows < 0 || s.logitRows > tokens) {
      return fail(ErrorCode::kInternal, "a batch entry of {} tokens at position {} with {} rows",
                  tokens, s.firstPosition, s.logitRows);
    }
    for (TokenId token : s.tokens) {
      if (token >= 0 && token < config.vocabSize) continue;
      return fail(ErrorCode::kInvalidArgument, "token {} is outside the vocabulary of {}", token,
                  config.vocabSize);
    }
    const std::size_t covered = s.blockTable.size() * static_cast<std::size_t>(shape.blockSize);
    if (covered < static_cast<std::size_t>(s.firstPosition) + s.tokens.size()) {
      return fail(ErrorCode::kInternal,
                  "a block table of {} positions for {} tokens at position {}", covered, tokens,
                  s.firstPosition);
    }
    for (BlockId block : s.blockTable) VITRINE_TRY(checkBlock(block, shape));
  }
  return {};
}

}  // namespace vitrine::engine

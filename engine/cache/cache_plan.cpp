#include "engine/cache/cache_plan.h"

#include <algorithm>

namespace vitrine::engine {

Result<CachePlan> planCache(const ModelConfig& model, const EngineConfig& config,
                            std::uint64_t availableBytes) {
  const CacheOptions& cache = config.cache;
  if (cache.blockSize < 16 || cache.blockSize > 128 || cache.blockSize % 16 != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "the block size is {}; it must be a multiple of 16 between 16 and 128",
                cache.blockSize);
  }
  if (config.contextTokens < 0) {
    return fail(ErrorCode::kInvalidArgument, "the context is {} tokens; it cannot be negative",
                config.contextTokens);
  }
  CachePlan plan;
  plan.contextTokens = config.contextTokens > 0
                           ? std::min(config.contextTokens, model.contextLength)
                           : model.contextLength;
  plan.shape.type = cache.type;
  plan.shape.blockSize = cache.blockSize;
  plan.shape.nKvHeads = model.nKvHeads;
  plan.shape.nBlocks = 1;
  const std::uint64_t blockBytes = kvBytesPerBlock(model, plan.shape);

  const auto contextBlocks =
      static_cast<std::uint64_t>((plan.contextTokens + cache.blockSize - 1) / cache.blockSize);
  constexpr std::uint64_t kMostBlocks = 1 << 20;
  std::uint64_t blocks = 0;
  if (cache.budgetBytes > 0) {
    blocks = cache.budgetBytes / blockBytes;
    if (blocks == 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "the KV budget is {} bytes, but one block of {} tokens takes {} bytes",
                  cache.budgetBytes, cache.blockSize, blockBytes);
    }
  } else if (availableBytes == 0) {
    blocks = contextBlocks;  // the system does not say
  } else {
    constexpr std::uint64_t kMostContexts = 8;
    const std::uint64_t share = availableBytes / 4 / blockBytes;
    const std::uint64_t possible = availableBytes / 10 * 9 / blockBytes;
    blocks =
        std::max(std::min(share, kMostContexts * contextBlocks), std::min(contextBlocks, possible));
    if (blocks == 0) {
      return fail(ErrorCode::kOutOfMemory,
                  "one KV block of {} tokens takes {} bytes, but only {} bytes are free",
                  cache.blockSize, blockBytes, availableBytes);
    }
  }
  plan.shape.nBlocks = static_cast<int>(std::min(blocks, kMostBlocks));
  const auto held = static_cast<std::int64_t>(plan.shape.nBlocks) * cache.blockSize;
  plan.contextTokens = static_cast<int>(std::min<std::int64_t>(plan.contextTokens, held));
  return plan;
}

}  // namespace vitrine::engine

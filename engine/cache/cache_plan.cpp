#include "engine/cache/cache_plan.h"

#include <algorithm>

#include "engine/measure/machine.h"

namespace vitrine::engine {
namespace {

constexpr std::uint64_t kMostContexts = 8;
constexpr std::uint64_t kMostBlocks = 1 << 20;

/// Blocks for idle conversations in host memory, beside a pool on a device.
std::uint64_t hostBlocks(const CacheOptions& cache, std::uint64_t freeBytes,
                         std::uint64_t blockBytes, std::uint64_t contextBlocks) {
  if (cache.hostBudgetBytes > 0) {
    return std::min(cache.hostBudgetBytes, freeBytes / 10 * 9) / blockBytes;
  }
  return std::min(freeBytes / 8 / blockBytes, kMostContexts * contextBlocks);
}

}  // namespace

CacheRoom CacheRoom::of(const Backend& backend) {
  CacheRoom room{backend.memoryForCache(), std::nullopt};
  if (backend.memory().device) room.hostBytes = availableMemoryBytes();
  return room;
}

Result<CachePlan> planCache(const ModelConfig& model, const EngineConfig& config,
                            const CacheRoom& room) {
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
  const bool isDevice = room.hostBytes.has_value();
  const std::uint64_t possible = room.bytes / 10 * 9 / blockBytes;
  std::uint64_t blocks = 0;
  if (cache.budgetBytes > 0) {
    blocks = cache.budgetBytes / blockBytes;
    if (blocks == 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "the KV budget is {} bytes, but one block of {} tokens takes {} bytes",
                  cache.budgetBytes, cache.blockSize, blockBytes);
    }
    if (isDevice) blocks = std::min(blocks, possible);
  } else if (room.bytes == 0 && !isDevice) {
    blocks = contextBlocks;  // the system does not say
  } else {
    const std::uint64_t share = room.bytes / (isDevice ? 2 : 4) / blockBytes;
    blocks =
        std::max(std::min(share, kMostContexts * contextBlocks), std::min(contextBlocks, possible));
  }
  if (blocks == 0) {
    return fail(ErrorCode::kOutOfMemory,
                "one KV block of {} tokens takes {} bytes, but only {} bytes are free{}",
                cache.blockSize, blockBytes, room.bytes, isDevice ? " on the device" : "");
  }
  plan.shape.nBlocks = static_cast<int>(std::min(blocks, kMostBlocks));
  const auto held = static_cast<std::int64_t>(plan.shape.nBlocks) * cache.blockSize;
  plan.contextTokens = static_cast<int>(std::min<std::int64_t>(plan.contextTokens, held));
  if (isDevice) {
    const std::uint64_t more = hostBlocks(cache, *room.hostBytes, blockBytes, contextBlocks);
    plan.shape.hostBlocks = static_cast<int>(std::min(more, kMostBlocks));
    plan.shape.nBlocks += plan.shape.hostBlocks;
  }
  return plan;
}

}  // namespace vitrine::engine

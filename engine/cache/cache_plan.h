#pragma once

#include <cstdint>
#include <optional>

#include "engine/backend/backend.h"
#include "engine/base/result.h"
#include "engine/engine_types.h"
#include "engine/model/model_config.h"

namespace vitrine::engine {

/// The pool of a model under a configuration, and the context that it can hold.
struct CachePlan {
  KvShape shape;
  /// The model's or the user's, at most what the pool holds; of a device's pool, what the device
  /// holds: a sequence that runs has no block in host memory.
  int contextTokens = 0;
};

/// What a pool may take.
struct CacheRoom {
  std::uint64_t bytes = 0;  ///< free where the backend computes; 0: the system does not say
  /// Where that is a device: what is free in host memory, for blocks that have to leave it.
  std::optional<std::uint64_t> hostBytes;

  static CacheRoom of(const Backend& backend);
};

/// Sizes the pool: the user's budget, else a quarter of what is free and no more than eight whole
/// contexts, but one whole context where the memory allows it. A budget below one block is refused
/// with both numbers. On a device it is half of what is free, a budget is cut to what is free, and
/// blocks in host memory come on top: the user's budget for them, else an eighth of what is free
/// there and no more than eight whole contexts.
Result<CachePlan> planCache(const ModelConfig& model, const EngineConfig& config,
                            const CacheRoom& room);

}  // namespace vitrine::engine

#pragma once

#include "engine/backend/backend.h"
#include "engine/base/result.h"
#include "engine/engine_types.h"
#include "engine/model/model_config.h"

namespace vitrine::engine {

/// The pool of a model under a configuration, and the context that it can hold.
struct CachePlan {
  KvShape shape;
  int contextTokens = 0;  ///< the model's or the user's, at most what the whole pool holds
};

/// Sizes the pool: the user's budget, else a quarter of `availableBytes` and no more than eight
/// whole contexts, but one whole context where the memory allows it. A budget below one block is
/// refused with both numbers.
Result<CachePlan> planCache(const ModelConfig& model, const EngineConfig& config,
                            std::uint64_t availableBytes);

}  // namespace vitrine::engine

#pragma once

#include "engine/backend/backend.h"
#include "engine/base/result.h"
#include "engine/schedule/step_cost.h"

namespace vitrine::engine {

/// Times a few short steps, so that the first forecast for a model rests on measurements. Stops
/// when the next step would go beyond `budgetMs` (one step runs in any case). The pool's blocks are
/// written and the pool is then made anew, so nothing of it is left.
/// Requires: no sequence is in the pool. Fails only if the pool cannot be made again.
Result<void> warmUp(Backend& backend, StepCost& cost, double budgetMs);

}  // namespace vitrine::engine

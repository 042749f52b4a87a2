#pragma once

#include <cstdint>

#include "engine/backend/precision.h"
#include "engine/model/weights.h"

namespace vitrine::engine {

/// Bytes that the cpu backend will hold of a model's weights (BackendMemory::weightBytes), from
/// shapes and types alone: nothing of the weights is read. `kvHeads` as EngineConfig::kvHeads, and
/// possible for the model. The embedding stays in the mapped file and is not counted.
std::uint64_t cpuWeightBytes(const Weights& from, int ownKvHeads, const WeightPrecision& precision,
                             int kvHeads);

}  // namespace vitrine::engine

#pragma once

#include <string>

#include "engine/backend/precision.h"

namespace vitrine::engine {

/// What a precision is beyond its weights and activations, for reports: "groups of 64", "per
/// channel, static scales, smoothing 0.5, 0-2 in FP16". Empty where there is nothing to say.
std::string precisionDetails(const WeightPrecision& precision);

}  // namespace vitrine::engine

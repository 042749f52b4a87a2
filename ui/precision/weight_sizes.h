#pragma once

#include <cstdint>

#include "engine/backend/precision.h"
#include "engine/model/weights.h"

namespace vitrine::ui {

/// Bytes that a model's weights take in a precision, computed from the shapes and types in its
/// file: matrices in the mode's format (INT8: a byte a value and an FP16 scale a group, row or
/// matrix; those that are kept, FP16), norms and biases in FP32, a tied output once. kNative is
/// what the tensors take in the file. Outlier columns that lie beside an INT8 matrix are not
/// counted: how many there are is known once the weights are made. What a backend really holds may
/// differ by padding; once loaded, its own count is shown instead.
std::uint64_t computedWeightBytes(const engine::Weights& weights,
                                  const engine::WeightPrecision& precision);

}  // namespace vitrine::ui

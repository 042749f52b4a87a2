#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/tensor_type.h"

namespace vitrine::kernels::reference {

/// values[0..n) of one row of file weights as FP32. `data` is the row's first block;
/// n is a multiple of the type's block. Exact for every type.
void dequantize(TensorType type, const std::byte* data, float* values, std::int64_t n);

}  // namespace vitrine::kernels::reference

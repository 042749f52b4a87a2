#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/tensor_type.h"

// Matrix product with weights, y = x Wᵀ (+ bias): y[r, o] = Σ_i x[r, i] · W[o, i] + b[o]
//
//   x [rows, in] FP32, y [rows, out] FP32, bias [out] FP32 or null
//
// Weights come in three forms:
//   FP32        W [out, in]
//   file        W [out, in] in a TensorType, each row a whole number of the type's blocks
//   INT8 groups q [out, in] int8 and s [out, ceil(in / group)] FP32: W[o, i] = s[o, i / group] ·
//   q[o, i]
//               With INT8 activations (W8A8) x is quantized the same way, row by row with the same
//               group, and y[r, o] = Σ_g sx[r, g] · s[o, g] · (Σ_{i in g} qx[r, i] · q[o, i]), the
//               inner sums in int32 (64 · 127² fits easily). A group may be the whole row (one
//               scale a row): the sum of a row stays in int32 up to kMostSummedColumns columns.
//
// Every y[r, o] is a sum in one fixed order that does not depend on the number of rows.
// Reads out · in weights once for all rows: bandwidth bound up to about 14 rows on a CPU.
// Tolerance of a fast kernel: FP32/FP16/BF16 products rel 1e-3 of Σ|x·W|, W8A8 rel 1e-5 of it.

namespace vitrine::kernels {

/// Columns whose products an int32 can sum whatever they are: INT8 times INT8, or times the −128 by
/// which some kernels shift weights.
inline constexpr int kMostSummedColumns = 0x7FFFFFFF / (127 * 128);

/// A weight matrix in INT8 groups. A view.
struct Int8Matrix {
  const std::int8_t* q = nullptr;  // [out, in]
  const float* scales = nullptr;   // [out, ceil(in / groupSize)]
  int out = 0;
  int in = 0;
  int groupSize = 32;

  int groups() const { return (in + groupSize - 1) / groupSize; }
};

}  // namespace vitrine::kernels

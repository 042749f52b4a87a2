#pragma once

#include <cstddef>

// What is done to a matrix W [rows, cols] on its way from the file into memory:
//     W'[o, i] = (rowScale[o] · W[o, i]) · columnScale[i], and 0 in some columns
// Every backend does it in this order in FP32, so that all hold the same numbers.

namespace vitrine::kernels {

/// A view.
struct WeightChange {
  const float* rowScale = nullptr;     // [rows]; null: ones
  const float* columnScale = nullptr;  // [cols]; null: ones
  const int* zeroColumns = nullptr;    // [zeroCount], ascending
  int zeroCount = 0;

  bool any() const { return rowScale != nullptr || columnScale != nullptr || zeroCount > 0; }

  /// Row `row` of the matrix, [cols], in place.
  void apply(int row, float* values, int cols) const {
    if (rowScale != nullptr) {
      for (int i = 0; i < cols; ++i) values[i] = rowScale[row] * values[i];
    }
    if (columnScale != nullptr) {
      for (int i = 0; i < cols; ++i) values[i] = values[i] * columnScale[i];
    }
    for (int i = 0; i < zeroCount; ++i) values[zeroColumns[i]] = 0.0F;
  }
};

}  // namespace vitrine::kernels

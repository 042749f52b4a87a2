#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cuda/cuda_weights.h"
#include "engine/model/weights.h"
#include "kernels/api/weight_change.h"

// Rows of weights on their way from the model file to the device, converted on the host.

namespace vitrine::engine::cuda {

/// A tensor of the file and what is done to it on its way.
struct WeightRows {
  TensorView file;
  kernels::WeightChange change;   ///< without columns that become zero
  std::span<const int> outliers;  // columns that go beside, ascending
  float tensorLargest = 0.0F;     ///< INT8 with one scale for all: largestOfRow() of all rows

  bool changesValues() const { return change.any() || !outliers.empty(); }
};

/// What converting found out.
struct RowReport {
  bool overflowsFp16 = false;  ///< a finite weight beyond 65504 for WeightFormat::kFp16
  float largestScale = 0.0F;   ///< kInt8: of the scales, before outputScale is taken out

  void add(const RowReport& other);
};

/// Bytes of one row's values, padding included, and of its scales (kInt8, else 0).
std::size_t rowValueBytes(const kernels::cuda::Matrix& matrix);
std::size_t rowScaleBytes(const kernels::cuda::Matrix& matrix);

/// Where a row goes.
struct RowPlace {
  std::byte* values = nullptr;        // [stride]
  std::uint16_t* scales = nullptr;    // kInt8: FP16 [groups()]
  std::uint16_t* outliers = nullptr;  // FP16 [stride of the outliers], where there are some
};

/// Row `row` of a tensor in the form of `to`, zeros beyond the tensor's columns. Equal types keep
/// their bits where nothing changes; so do Q8_0 blocks where groups of 32 are asked for and
/// outputScale allows it. `scratch` [stride] floats.
RowReport convertRow(const WeightRows& from, std::int64_t row, const CudaMatrix& to, float* scratch,
                     const RowPlace& place);

/// The largest magnitude of a row that INT8 has to hold. `scratch` [cols] floats.
float largestOfRow(const WeightRows& from, std::int64_t row, float* scratch);

}  // namespace vitrine::engine::cuda

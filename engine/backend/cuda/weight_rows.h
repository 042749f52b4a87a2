#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/weights.h"
#include "kernels/cuda/types.h"

// Rows of weights on their way from the model file to the device, converted on the host.

namespace vitrine::engine::cuda {

/// What converting found out.
struct RowReport {
  bool overflowsFp16 = false;  ///< a finite weight beyond 65504 for WeightFormat::kFp16
  float largestScale = 0.0F;   ///< kInt8: of the scales, before outputScale is taken out

  void add(const RowReport& other);
};

/// Bytes of one row's values, padding included, and of its scales (kInt8, else 0).
std::size_t rowValueBytes(const kernels::cuda::Matrix& matrix);
std::size_t rowScaleBytes(const kernels::cuda::Matrix& matrix);

/// Row `row` of a tensor in the form of `to`: values [stride] and FP16 scales [groups()], zeros
/// beyond the tensor's columns. Equal types keep their bits; so do Q8_0 blocks where groups of 32
/// are asked for and outputScale allows it. `scratch` [to.stride] floats.
RowReport convertRow(const TensorView& from, std::int64_t row, const kernels::cuda::Matrix& to,
                     float* scratch, std::byte* values, std::uint16_t* scales);

}  // namespace vitrine::engine::cuda

#pragma once

#include "kernels/cpu/kernels.h"
#include "tests/kernels/op_cases.h"

namespace vitrine::test {

/// The cpu kernels of one instruction set as rows of the operation test.
OpBackend cpuOps(kernels::cpu::Isa isa);

/// A matrix packed for the cpu kernels, with its memory.
struct PackedCopy {
  /// `groupSize` as planMatrix(); `oneScale`: INT8 with one scale a matrix.
  PackedCopy(const kernels::cpu::FileMatrix& from, kernels::cpu::WeightFormat format,
             int groupSize = 32, bool oneScale = false);
  kernels::cpu::PackedMatrix matrix;
  std::vector<std::byte> memory;
};

/// Prepared activations with their memory.
struct PreparedRows {
  /// `fixedScale` and `use` as in Activations.
  PreparedRows(const kernels::cpu::CpuKernels& kernels, kernels::cpu::ActivationFormat format,
               const float* x, int rows, int width, float fixedScale = 0.0F,
               kernels::Int8Use* use = nullptr);
  kernels::cpu::Activations view;
  std::vector<std::byte> data;
  std::vector<float> scales, sums;
  std::vector<std::int32_t> offsets;
};

/// y [rows, out] = x Wᵀ by one instruction set.
Floats multiply(const kernels::cpu::CpuKernels& kernels, const kernels::cpu::PackedMatrix& weights,
                const float* x, int rows, bool int8Activations, float fixedScale = 0.0F);

/// K and V of one layer in blocks as the cpu kernels lay them, unwritten bytes filled with NaN
/// patterns.
struct KvCopy {
  KvCopy(const kernels::cpu::CpuKernels& kernels, const AttentionInput& in);
  kernels::cpu::KvHead head(int kvHead) const;
  const AttentionInput& input;
  std::vector<std::byte> pool;
  std::size_t headBytes = 0;
};

}  // namespace vitrine::test

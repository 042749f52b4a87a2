#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/blas.h"
#include "kernels/cuda/linear.h"
#include "tests/kernels/cuda_ops.h"

// Matrices and products of the CUDA kernels for tests.

namespace vitrine::test {

/// A matrix on the device, and what it holds.
struct DeviceMatrix {
  /// W [out, in] FP32 into a format. INT8 as kernels/cuda/types.h draws it: `groupSize` 32,
  /// 64, 128, or 0 for a scale a row.
  DeviceMatrix(kernels::cuda::WeightFormat format, int groupSize, const Floats& w, int out, int in);

  kernels::cuda::Matrix view;
  Floats values;                    // [out, in] as stored
  std::vector<std::int8_t> q;       // kInt8: [paddedOut, stride]
  std::vector<std::uint16_t> bits;  // kInt8: scales FP16 [paddedOut, groups]; else the values
  kernels::cuda::DeviceBuffer<std::int8_t> qMemory;
  kernels::cuda::DeviceBuffer<std::uint16_t> bitsMemory;
};

/// The cuBLAS handle of the tests' stream.
kernels::cuda::Blas& testBlas();

/// y = x Wᵀ for rows on the device, into memory full of NaN, or added to `start` [rows, out].
Floats multiply(const DeviceMatrix& w, const DeviceRows& x, int rows, const Floats& start = {});

/// act(gate) · up in one pass: [rows, stride of y], as FP32.
Floats multiplyGated(const DeviceMatrix& w, const DeviceRows& x, int rows, bool gelu,
                     kernels::cuda::RowType type);

}  // namespace vitrine::test

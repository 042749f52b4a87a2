#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/backend/cuda/cuda_backend.h"
#include "kernels/cuda/handles.h"
#include "tests/device/shapes.h"

namespace vitrine::device {

/// A backend over random weights of a real model's shape, made on the device: what it says is
/// nonsense, how long it takes is not. Owns what the backend reads.
class SyntheticModel final {
 public:
  /// Throws kernels::cuda::CudaError.
  SyntheticModel(const Shape& shape, const engine::WeightPrecision& precision);

  engine::cuda::CudaBackend& backend() { return *m_backend; }
  const Shape& shape() const { return m_shape; }
  /// Bytes of weights that a decode step reads.
  std::uint64_t weightBytesPerToken() const { return m_bytesPerToken; }

 private:
  kernels::cuda::Matrix matrix(int out, int in, const engine::WeightPrecision& precision);
  const float* ones(int n);
  std::byte* random(std::size_t bytes, kernels::cuda::RowType type);

  Shape m_shape;
  kernels::cuda::Stream m_stream;
  std::vector<kernels::cuda::DeviceBuffer<std::byte>> m_memory;
  std::uint64_t m_bytesPerToken = 0;
  std::unique_ptr<engine::cuda::CudaBackend> m_backend;  // before what it reads in destruction
};

}  // namespace vitrine::device

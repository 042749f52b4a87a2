#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "kernels/cuda/handles.h"

namespace vitrine::engine::cuda {

/// Two page-locked buffers through which weights go to the device: while one is being copied, the
/// other is filled. Throws CudaError.
class WeightStaging final {
 public:
  WeightStaging(cudaStream_t stream, std::size_t bytes);
  /// Waits until no copy reads the buffers any more.
  ~WeightStaging();
  WeightStaging(const WeightStaging&) = delete;
  WeightStaging& operator=(const WeightStaging&) = delete;

  /// A buffer that nothing reads any more, to be filled.
  std::span<std::byte> next();
  /// Queues the copy of a part of that buffer; several calls a buffer are possible.
  void send(std::byte* to, const std::byte* from, std::size_t bytes);
  /// All of that buffer is sent.
  void sent();

 private:
  struct Buffer {
    kernels::cuda::PinnedBuffer<std::byte> memory;
    kernels::cuda::Event copied;
    bool busy = false;
  };
  cudaStream_t m_stream;
  std::array<Buffer, 2> m_buffers;
  std::size_t m_current = 0;
};

}  // namespace vitrine::engine::cuda

#include "engine/backend/cuda/weight_staging.h"

namespace vitrine::engine::cuda {

namespace gpu = kernels::cuda;

WeightStaging::WeightStaging(cudaStream_t stream, std::size_t bytes) : m_stream(stream) {
  for (Buffer& buffer : m_buffers) {
    buffer.memory = gpu::PinnedBuffer<std::byte>(bytes);
    buffer.copied = gpu::Event::make();
  }
}

WeightStaging::~WeightStaging() {
  if (cudaStreamSynchronize(m_stream) != cudaSuccess) cudaGetLastError();
}

std::span<std::byte> WeightStaging::next() {
  Buffer& buffer = m_buffers[m_current];
  if (buffer.busy) buffer.copied.synchronize();
  buffer.busy = false;
  return {buffer.memory.data(), buffer.memory.size()};
}

void WeightStaging::send(std::byte* to, const std::byte* from, std::size_t bytes) {
  gpu::copyToDevice(m_stream, to, from, bytes);
}

void WeightStaging::sent() {
  Buffer& buffer = m_buffers[m_current];
  buffer.copied.record(m_stream);
  buffer.busy = true;
  m_current = 1 - m_current;
}

}  // namespace vitrine::engine::cuda

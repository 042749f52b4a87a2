#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "kernels/cuda/check.h"

// Move-only owners of CUDA objects. Making one throws CudaError; destroying one never does.

namespace vitrine::kernels::cuda {

/// An owner of a CUDA handle that `Destroy` gives back.
template <typename T, auto Destroy>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T value) : m_value(value) {}
  Handle(Handle&& other) noexcept : m_value(std::exchange(other.m_value, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(m_value, other.m_value);
    return *this;
  }
  ~Handle() {
    if (m_value != nullptr) Destroy(m_value);
  }
  T get() const { return m_value; }
  explicit operator bool() const { return m_value != nullptr; }

 private:
  T m_value = nullptr;
};

class Stream final : public Handle<cudaStream_t, &cudaStreamDestroy> {
 public:
  using Handle::Handle;
  /// Does not wait for the legacy default stream.
  static Stream make();
  void synchronize() const { check(cudaStreamSynchronize(get()), "waiting for the device"); }
};

class Event final : public Handle<cudaEvent_t, &cudaEventDestroy> {
 public:
  using Handle::Handle;
  static Event make(bool timed = false);
  void record(cudaStream_t stream) { check(cudaEventRecord(get(), stream), "recording an event"); }
  void makeWait(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, get(), 0), "making a stream wait");
  }
  bool isDone() const;
  void synchronize() const { check(cudaEventSynchronize(get()), "waiting for an event"); }
};

/// An executable graph.
class Graph final : public Handle<cudaGraphExec_t, &cudaGraphExecDestroy> {
 public:
  using Handle::Handle;
  /// What `queue` queues on `stream` is recorded instead of run.
  template <typename Queue>
  static Graph capture(cudaStream_t stream, Queue&& queue);
  void launch(cudaStream_t stream) const {
    check(cudaGraphLaunch(get(), stream), "launching a graph");
  }

 private:
  static void begin(cudaStream_t stream);
  static Graph end(cudaStream_t stream);
  static void abandon(cudaStream_t stream) noexcept;
};

template <typename Queue>
Graph Graph::capture(cudaStream_t stream, Queue&& queue) {
  begin(stream);
  try {
    queue();
  } catch (...) {
    abandon(stream);
    throw;
  }
  return end(stream);
}

void* allocateDevice(std::size_t bytes);  // "cudaMalloc of N bytes: out of memory"
void* allocatePinned(std::size_t bytes);
void freeDevice(void* memory) noexcept;
void freePinned(void* memory) noexcept;

/// Device memory for `size` elements; not initialized.
template <typename T>
class DeviceBuffer final {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t size)
      : m_data(static_cast<T*>(allocateDevice(size * sizeof(T)))), m_size(size) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : m_data(std::exchange(other.m_data, nullptr)), m_size(std::exchange(other.m_size, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(m_data, other.m_data);
    std::swap(m_size, other.m_size);
    return *this;
  }
  ~DeviceBuffer() { freeDevice(m_data); }
  T* data() const { return m_data; }
  std::size_t size() const { return m_size; }
  std::size_t bytes() const { return m_size * sizeof(T); }

 private:
  T* m_data = nullptr;
  std::size_t m_size = 0;
};

/// Page-locked host memory, for copies that run beside the host.
template <typename T>
class PinnedBuffer final {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(std::size_t size)
      : m_data(static_cast<T*>(allocatePinned(size * sizeof(T)))), m_size(size) {}
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : m_data(std::exchange(other.m_data, nullptr)), m_size(std::exchange(other.m_size, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(m_data, other.m_data);
    std::swap(m_size, other.m_size);
    return *this;
  }
  ~PinnedBuffer() { freePinned(m_data); }
  T* data() const { return m_data; }
  T& operator[](std::size_t i) const { return m_data[i]; }
  std::size_t size() const { return m_size; }
  std::size_t bytes() const { return m_size * sizeof(T); }

 private:
  T* m_data = nullptr;
  std::size_t m_size = 0;
};

/// Queues a copy; the source must stay as it is until the stream has passed it.
void copyToDevice(cudaStream_t stream, void* to, const void* from, std::size_t bytes);
void copyToHost(cudaStream_t stream, void* to, const void* from, std::size_t bytes);

}  // namespace vitrine::kernels::cuda

#pragma once

#include <span>

#include "engine/quant/activation_observer.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/types.h"

namespace vitrine::engine::cuda {

/// Brings rows that a step computes to the host and shows them to an observer, one site after
/// another: slow, and right. While it is on, steps run launch by launch. Throws CudaError.
class ActivationTap final {
 public:
  explicit ActivationTap(cudaStream_t stream) : m_stream(stream) {}

  /// Null ends it, and gives the memory back.
  void observe(ActivationObserver* observer);
  bool isOn() const { return m_observer != nullptr; }

  /// Room for passes of `rows` rows of at most `width` values. Only where it is on.
  void reserve(int rows, int width);
  /// Bytes that reserve() would take.
  std::size_t missingBytes(int rows, int width) const;

  /// Where a step writes what is to be seen: FP32 rows, padded to `stride`.
  kernels::cuda::Rows rows(int stride) const;
  float* keys() const { return m_device.data(); }
  /// Waits for what was queued, and shows the first `width` values of each row.
  void showRows(int site, int rows, int stride, int width);
  void showKeys(int layer, int rows, int width);

 private:
  template <typename Show>
  void bring(int rows, int stride, int width, const Show& show);

  cudaStream_t m_stream;
  ActivationObserver* m_observer = nullptr;
  kernels::cuda::DeviceBuffer<float> m_device;
  kernels::cuda::PinnedBuffer<float> m_host;
};

}  // namespace vitrine::engine::cuda

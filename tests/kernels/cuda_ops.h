#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/cuda/handles.h"
#include "kernels/cuda/types.h"
#include "tests/kernels/op_cases.h"

// The CUDA kernels as rows of the operation test, and what tests of single kernels share. On top of
// the CUDA API alone, so that the same tests run in tests/cuda_on_cpu and on a device.

namespace vitrine::test {

/// The kernels with FP16 rows where an operation leaves the choice.
OpBackend cudaOps();
/// Attention alone, by the kernels of decode; cudaOps() has those of prefill.
OpBackend cudaDecodeOps();
/// What cudaOps() is made of; each part fills in its operations and their tolerances.
void addCudaRowOps(OpBackend& ops);        // cuda_row_ops.cpp
void addCudaLinearOps(OpBackend& ops);     // cuda_linear_ops.cpp
void addCudaAttentionOps(OpBackend& ops);  // cuda_attention_ops.cpp

/// The stream on which tests queue their kernels.
cudaStream_t testStream();

/// A copy on the device. An empty vector: a null pointer.
template <typename T>
kernels::cuda::DeviceBuffer<T> onDevice(const std::vector<T>& values) {
  if (values.empty()) return {};
  kernels::cuda::DeviceBuffer<T> buffer(values.size());
  kernels::cuda::copyToDevice(testStream(), buffer.data(), values.data(), buffer.bytes());
  kernels::cuda::check(cudaStreamSynchronize(testStream()), "copying a test's input");
  return buffer;
}

/// Device memory whose every byte is `fill`; 0xFF is NaN in FP32, FP16 and BF16.
template <typename T>
kernels::cuda::DeviceBuffer<T> filled(std::size_t size, int fill = 0xFF) {
  kernels::cuda::DeviceBuffer<T> buffer(std::max<std::size_t>(size, 1));
  kernels::cuda::check(cudaMemsetAsync(buffer.data(), fill, buffer.bytes(), testStream()),
                       "filling a test's output");
  return buffer;
}

/// What lies on the device after everything queued on the test's stream.
template <typename T>
std::vector<T> toHost(const T* data, std::size_t size) {
  std::vector<T> values(size);
  if (size == 0) return values;
  kernels::cuda::copyToHost(testStream(), values.data(), data, size * sizeof(T));
  kernels::cuda::check(cudaStreamSynchronize(testStream()), "running a test's kernels");
  return values;
}
template <typename T>
std::vector<T> toHost(const kernels::cuda::DeviceBuffer<T>& buffer) {
  return toHost(buffer.data(), buffer.size());
}

/// Columns of a row that share an INT8 scale.
constexpr int groupColumns(int stride, int groupSize) {
  return groupSize > 0 ? groupSize : stride;
}

/// Rows with their memory, full of NaN until a kernel writes them.
struct DeviceRows {
  DeviceRows(kernels::cuda::RowType type, int rows, int width, int groupSize = 0);
  /// All columns of all rows, padding too, as FP32 (INT8: scale · q).
  Floats values() const;
  std::vector<std::int8_t> quantized() const;  // kInt8: [rows, stride]
  Floats scales() const;                       // kInt8: [rows, groups]

  kernels::cuda::Rows view;
  int rows = 0;
  kernels::cuda::DeviceBuffer<std::byte> memory;
  kernels::cuda::DeviceBuffer<float> scaleMemory;
};

/// FP32 rows [rows, width] on the device in the form that a product reads.
DeviceRows deviceRows(kernels::cuda::RowType type, const Floats& x, int rows, int width,
                      int groupSize = 0);

/// One layer of a cache in blocks of device memory full of NaN, and the rows of a step.
class DeviceCache {
 public:
  DeviceCache(kernels::KvElement element, int blockSize, int nKvHeads, int headDim, int nBlocks);
  /// Row r of the step is at positions[r] of sequence sequences[r]; `tables` names each sequence's
  /// blocks. The memory stays this object's until the next call.
  kernels::cuda::StepRows step(const std::vector<std::int32_t>& positions,
                               const std::vector<std::int32_t>& sequences,
                               const std::vector<std::vector<std::int32_t>>& tables);
  /// All blocks at once.
  void fill(const std::vector<std::byte>& bytes);
  /// The bytes of all blocks, and the same blocks as kernels::reference sees them.
  std::vector<std::byte> bytes() const { return toHost(m_memory); }
  kernels::KvLayerView hostView(std::byte* base) const;

  kernels::cuda::KvLayer layer;
  std::size_t blockBytes = 0;

 private:
  kernels::cuda::DeviceBuffer<std::byte> m_memory;
  kernels::cuda::DeviceBuffer<std::int32_t> m_positions, m_sequences;
  kernels::cuda::DeviceBuffer<std::byte*> m_blocks;
};

}  // namespace vitrine::test

#include "tests/kernels/cuda_ops.h"

#include "kernels/api/half.h"
#include "kernels/cuda/rows.h"

namespace vitrine::test {

namespace cuda = kernels::cuda;

cudaStream_t testStream() {
  static const cuda::Stream stream = cuda::Stream::make();
  return stream.get();
}

OpBackend cudaOps() {
  OpBackend ops;
  ops.name = "cuda";
  addCudaRowOps(ops);
  addCudaLinearOps(ops);
  addCudaAttentionOps(ops);
  return ops;
}

DeviceRows::DeviceRows(cuda::RowType type, int rowCount, int width, int groupSize)
    : rows(rowCount) {
  view.type = type;
  view.stride = cuda::roundUp(width, cuda::kColumnPad);
  const auto values = static_cast<std::size_t>(rows) * view.stride;
  const std::size_t bytes = type == cuda::RowType::kFp32 ? 4 : type == cuda::RowType::kInt8 ? 1 : 2;
  memory = filled<std::byte>(values * bytes);
  view.values = memory.data();
  if (type == cuda::RowType::kInt8) {
    view.groupSize = groupSize;
    scaleMemory = filled<float>(static_cast<std::size_t>(rows) * view.groups());
    view.scales = scaleMemory.data();
  }
}

Floats DeviceRows::values() const {
  const std::size_t n = static_cast<std::size_t>(rows) * view.stride;
  if (view.type == cuda::RowType::kFp32) return toHost(static_cast<const float*>(view.values), n);
  Floats result(n);
  if (view.type == cuda::RowType::kInt8) {
    const auto q = quantized();
    const Floats s = scales();
    const auto stride = static_cast<std::size_t>(view.stride);
    const std::size_t group = groupColumns(view.stride, view.groupSize);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t scale = i / stride * view.groups() + i % stride / group;
      result[i] = s[scale] * static_cast<float>(q[i]);
    }
    return result;
  }
  const auto bits = toHost(static_cast<const std::uint16_t*>(view.values), n);
  const bool isHalf = view.type == cuda::RowType::kFp16;
  for (std::size_t i = 0; i < n; ++i) {
    result[i] = isHalf ? kernels::halfToFloat(bits[i]) : kernels::bfloat16ToFloat(bits[i]);
  }
  return result;
}

std::vector<std::int8_t> DeviceRows::quantized() const {
  return toHost(static_cast<const std::int8_t*>(view.values),
                static_cast<std::size_t>(rows) * view.stride);
}

Floats DeviceRows::scales() const {
  return toHost(view.scales, static_cast<std::size_t>(rows) * view.groups());
}

DeviceRows deviceRows(cuda::RowType type, const Floats& x, int rows, int width, int groupSize) {
  DeviceRows result(type, rows, width, groupSize);
  const auto input = onDevice(x);
  cuda::convertRows(testStream(), input.data(), width, width, rows, result.view);
  cuda::check(cudaStreamSynchronize(testStream()), "converting a test's rows");
  return result;
}

DeviceCache::DeviceCache(kernels::KvElement element, int blockSize, int nKvHeads, int headDim,
                         int nBlocks) {
  const std::size_t tokens = static_cast<std::size_t>(blockSize) * nKvHeads;
  const bool int8 = element == kernels::KvElement::kInt8;
  const auto align = [](std::size_t bytes) { return (bytes + 15) / 16 * 16; };
  const std::size_t run = align(tokens * headDim * (int8 ? 1 : 2));
  const std::size_t scaleRun = int8 ? align(tokens * sizeof(float)) : 0;
  layer.element = element;
  layer.blockSize = blockSize;
  layer.nKvHeads = nKvHeads;
  layer.headDim = headDim;
  layer.kOffset = 16;  // another layer's, say
  layer.vOffset = layer.kOffset + run;
  layer.kScaleOffset = layer.vOffset + run;
  layer.vScaleOffset = layer.kScaleOffset + scaleRun;
  blockBytes = layer.vScaleOffset + scaleRun;
  m_memory = filled<std::byte>(blockBytes * static_cast<std::size_t>(nBlocks));
}

cuda::StepRows DeviceCache::step(const std::vector<std::int32_t>& positions,
                                 const std::vector<std::int32_t>& sequences,
                                 const std::vector<std::vector<std::int32_t>>& tables) {
  std::size_t longest = 1;
  for (const auto& table : tables) longest = std::max(longest, table.size());
  std::vector<std::byte*> blocks(tables.size() * longest);
  for (std::size_t s = 0; s < tables.size(); ++s) {
    for (std::size_t b = 0; b < tables[s].size(); ++b) {
      blocks[s * longest + b] = m_memory.data() + blockBytes * tables[s][b];
    }
  }
  m_positions = onDevice(positions);
  m_sequences = onDevice(sequences);
  m_blocks = onDevice(blocks);
  return {static_cast<int>(positions.size()), m_positions.data(), m_sequences.data(),
          m_blocks.data(), static_cast<int>(longest)};
}

void DeviceCache::fill(const std::vector<std::byte>& bytes) {
  cuda::require(bytes.size() == m_memory.bytes(), "a test's blocks have another size");
  cuda::copyToDevice(testStream(), m_memory.data(), bytes.data(), bytes.size());
  cuda::check(cudaStreamSynchronize(testStream()), "filling a test's blocks");
}

kernels::KvLayerView DeviceCache::hostView(std::byte* base) const {
  return {base,          blockBytes,         layer.kOffset,
          layer.vOffset, layer.kScaleOffset, layer.vScaleOffset,
          layer.element, layer.blockSize,    layer.nKvHeads,
          layer.headDim};
}

}  // namespace vitrine::test

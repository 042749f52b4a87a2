#include "kernels/cuda/device.cuh"
#include "kernels/cuda/rows.h"

namespace vitrine::kernels::cuda {
namespace {

constexpr int kCopyThreads = 128;
constexpr int kLayersEach = 32;  ///< layers of one launch: kernel arguments hold 4 KiB

struct Layers {
  KvLayer layer[kLayersEach];
};

// to = from, the first `slots` positions of the four runs (K, V and their scales) of each layer
//
// grid (2 · most KV heads, layers), 128 threads: a block copies K or V of one head, and its scales.
// Words of 8 bytes: an INT8 head of 8 · odd elements has no more alignment than that.
// Moves 2 · slots / blockSize of a block's bytes: bandwidth bound, some microseconds.
__global__ void __launch_bounds__(kCopyThreads)
    copyBlockKernel(const std::byte* __restrict__ from, std::byte* __restrict__ to,
                    const Layers layers, const int slots) {
  const KvLayer& layer = layers.layer[blockIdx.y];
  const int head = static_cast<int>(blockIdx.x) / 2;
  const bool isValue = blockIdx.x % 2 != 0;
  if (head >= layer.nKvHeads) return;
  const bool isInt8 = layer.element == KvElement::kInt8;

  const std::size_t elementBytes = isInt8 ? 1 : 2;
  const std::size_t headBytes = static_cast<std::size_t>(layer.headDim) * elementBytes;
  const std::size_t run = (isValue ? layer.vOffset : layer.kOffset) +
                          static_cast<std::size_t>(head) * layer.blockSize * headBytes;
  const int words = static_cast<int>(static_cast<std::size_t>(slots) * headBytes / sizeof(uint2));
  const uint2* const source = reinterpret_cast<const uint2*>(from + run);
  uint2* const target = reinterpret_cast<uint2*>(to + run);
  for (int i = static_cast<int>(threadIdx.x); i < words; i += kCopyThreads) target[i] = source[i];

  if (!isInt8) return;
  const std::size_t scales = (isValue ? layer.vScaleOffset : layer.kScaleOffset) +
                             sizeof(float) * static_cast<std::size_t>(head) * layer.blockSize;
  const float* const sourceScales = reinterpret_cast<const float*>(from + scales);
  float* const targetScales = reinterpret_cast<float*>(to + scales);
  for (int i = static_cast<int>(threadIdx.x); i < slots; i += kCopyThreads) {
    targetScales[i] = sourceScales[i];
  }
}

}  // namespace

void copyBlock(cudaStream_t stream, const std::byte* from, std::byte* to, const KvLayer* layers,
               int nLayers, int slots) {
  require(
      from != nullptr && to != nullptr && from != to && isAligned(from, 16) && isAligned(to, 16),
      "copying a block: two aligned blocks");
  for (int first = 0; first < nLayers; first += kLayersEach) {
    const int count = nLayers - first < kLayersEach ? nLayers - first : kLayersEach;
    Layers some;
    int heads = 0;
    for (int i = 0; i < count; ++i) {
      const KvLayer& layer = layers[first + i];
      require(layer.kOffset % 16 == 0 && layer.vOffset % 16 == 0 && layer.headDim % 8 == 0 &&
                  slots >= 0 && slots <= layer.blockSize,
              "copying a block: aligned runs that have so many positions");
      some.layer[i] = layer;
      heads = layer.nKvHeads > heads ? layer.nKvHeads : heads;
    }
    if (slots == 0 || heads == 0) continue;
    Launch where;
    where.stream = stream;
    where.grid = dim3(static_cast<unsigned>(2 * heads), static_cast<unsigned>(count));
    where.block = kCopyThreads;
    launchKernel("copying a block", copyBlockKernel, where, from, to, some, slots);
  }
}

}  // namespace vitrine::kernels::cuda

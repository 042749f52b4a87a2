#include "engine/backend/cuda/kv_layout.h"

namespace vitrine::engine::cuda {

std::vector<kernels::cuda::KvLayer> kvLayers(const ModelConfig& config, const KvShape& shape) {
  const bool int8 = shape.type == KvType::kInt8;
  const std::size_t rows = static_cast<std::size_t>(shape.nKvHeads) * shape.blockSize;
  const std::size_t valueBytes = rows * static_cast<std::size_t>(config.headDim) * (int8 ? 1 : 2);
  const std::size_t scaleBytes = int8 ? rows * sizeof(float) : 0;
  std::vector<kernels::cuda::KvLayer> layers;
  for (int i = 0; i < config.nLayers; ++i) {
    const std::size_t first = static_cast<std::size_t>(i) * 2 * (valueBytes + scaleBytes);
    kernels::cuda::KvLayer layer;
    layer.kOffset = first;
    layer.vOffset = first + valueBytes;
    layer.kScaleOffset = first + 2 * valueBytes;
    layer.vScaleOffset = layer.kScaleOffset + scaleBytes;
    layer.element = int8 ? kernels::KvElement::kInt8 : kernels::KvElement::kFp16;
    layer.blockSize = shape.blockSize;
    layer.nKvHeads = shape.nKvHeads;
    layer.headDim = config.headDim;
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace vitrine::engine::cuda

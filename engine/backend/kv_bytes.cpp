#include "engine/backend/kv_bytes.h"
#include "engine/backend/backend.h"

namespace vitrine::engine {

std::uint64_t kvScaleBytesPerBlock(const ModelConfig& config, const KvShape& shape) {
  if (shape.type != KvType::kInt8) return 0;
  return std::uint64_t{2} * config.nLayers * shape.blockSize * shape.nKvHeads * sizeof(float);
}

std::uint64_t kvBytesPerBlock(const ModelConfig& config, const KvShape& shape) {
  const std::uint64_t elementBytes = shape.type == KvType::kInt8 ? 1 : 2;
  const std::uint64_t values =
      std::uint64_t{2} * config.nLayers * shape.blockSize * shape.nKvHeads * config.headDim;
  return values * elementBytes + kvScaleBytesPerBlock(config, shape);
}

}  // namespace vitrine::engine

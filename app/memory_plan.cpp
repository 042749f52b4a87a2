#include "app/memory_plan.h"

#include <algorithm>

#include "engine/backend/backend.h"
#include "engine/backend/kv_regroup.h"

namespace vitrine::app {

std::uint64_t MemoryPlan::kvBytes(std::int64_t tokens) const {
  const std::int64_t blocks = (std::max<std::int64_t>(tokens, 0) + blockSize - 1) / blockSize;
  return static_cast<std::uint64_t>(blocks) * static_cast<std::uint64_t>(blockSize) *
         kvBytesPerToken;
}

std::int64_t MemoryPlan::contextThatFits(std::uint64_t memoryBytes) const {
  if (kvBytesPerToken == 0 || memoryBytes <= fixedBytes()) return 0;
  const std::uint64_t perBlock = kvBytesPerToken * static_cast<std::uint64_t>(blockSize);
  const std::uint64_t blocks = (memoryBytes - fixedBytes()) / perBlock;
  const std::uint64_t most = static_cast<std::uint64_t>(std::max<std::int64_t>(modelContext, 0));
  return static_cast<std::int64_t>(std::min(blocks * static_cast<std::uint64_t>(blockSize), most));
}

std::int64_t MemoryPlan::chatsThatFit(std::uint64_t memoryBytes, std::int64_t tokens) const {
  const std::uint64_t each = kvBytes(tokens);
  if (each == 0 || memoryBytes <= fixedBytes()) return 0;
  return static_cast<std::int64_t>((memoryBytes - fixedBytes()) / each);
}

std::vector<int> kvHeadChoices(const ModelEntry& model) {
  if (model.config.nLayers == 0) return {};
  return engine::possibleKvHeads(model.config.nHeads, model.config.nKvHeads);
}

MemoryPlan planMemory(const ModelEntry& model, const MemoryChoice& choice) {
  MemoryPlan plan;
  const int heads = choice.kvHeads > 0 ? choice.kvHeads : model.config.nKvHeads;
  for (const auto& need : model.weightNeeds) {
    if (need.mode == choice.weights && need.kvHeads == heads) plan.weightBytes = need.bytes;
  }
  plan.mappedBytes = model.mappedBytes;
  plan.modelContext = model.contextLength;
  if (model.config.nLayers > 0) {
    const engine::KvShape shape{choice.kv, plan.blockSize, 1, heads};
    plan.kvBytesPerToken =
        engine::kvBytesPerBlock(model.config, shape) / static_cast<std::uint64_t>(plan.blockSize);
  }
  return plan;
}

}  // namespace vitrine::app

#include "engine/measure/memory_ledger.h"

#include <algorithm>
#include <filesystem>

#include "engine/backend/host_memory.h"
#include "engine/measure/process_memory.h"

namespace vitrine::engine {
namespace {

std::uint64_t less(std::uint64_t from, std::uint64_t take) {
  return from > take ? from - take : 0;
}

/// Splits what the pool has in RAM: written positions, the rest of held blocks, free blocks.
void countKv(const EngineSnapshot& snapshot, std::uint64_t resident, MemoryLedger& ledger) {
  std::uint64_t filled = 0;
  std::uint64_t held = 0;
  for (const BlockCell& cell : snapshot.blocks) {
    if (cell.state == BlockState::kFree) continue;
    filled += cell.filled;
    ++held;
  }
  const auto blockSize = static_cast<std::uint64_t>(std::max(1, snapshot.shape.blockSize));
  const std::uint64_t perBlock = snapshot.bytesPerBlock;
  const std::uint64_t written = std::min(filled * perBlock / blockSize, resident);
  ledger.kvReserved = perBlock * snapshot.blocks.size();
  ledger.kvScales = std::min(filled * snapshot.memory.kvScaleBytesPerBlock / blockSize, written);
  ledger.kvUsed = written - ledger.kvScales;
  // Pages of held blocks that no token has reached may not be in RAM yet.
  ledger.kvWaste = std::min(less(held * perBlock, written), resident - written);
  ledger.kvFree = resident - written - ledger.kvWaste;
}

}  // namespace

std::vector<MemoryLedger::Part> MemoryLedger::parts() const {
  return {{"weights", weights},    {"model_file", modelFile}, {"kv_used", kvUsed},
          {"kv_scales", kvScales}, {"kv_waste", kvWaste},     {"kv_free", kvFree},
          {"kv_moved", kvMoved},   {"workspace", workspace},  {"code", code},
          {"data", data},          {"heap_used", heapUsed},   {"heap_free", heapFree},
          {"stacks", stacks}};
}

std::vector<MemoryLedger::Part> MemoryLedger::deviceParts() const {
  if (!device) return {};
  return {{"weights", device->weights},     {"kv_used", less(device->kvBlocks, device->kvScales)},
          {"kv_scales", device->kvScales},  {"kv_free", device->kvFree},
          {"workspace", device->workspace}, {"context", device->context},
          {"others", device->others}};
}

std::uint64_t MemoryLedger::sum() const {
  std::uint64_t bytes = 0;
  for (const Part& part : parts()) bytes += part.bytes;
  return bytes;
}

std::int64_t MemoryLedger::residual() const {
  return static_cast<std::int64_t>(rss) - static_cast<std::int64_t>(sum());
}

MemoryLedger readMemoryLedger(const EngineSnapshot& snapshot, const std::string& modelPath) {
  // The kernel names the file itself where we opened a link to it.
  std::error_code ignored;
  const auto canonical = std::filesystem::weakly_canonical(modelPath, ignored);
  const ProcessMemory process =
      readProcessMemory(modelPath.empty() ? modelPath : canonical.string());
  const AllocatorUse allocator = allocatorUse();

  MemoryLedger ledger;
  ledger.known = process.known;
  ledger.rss = process.rss;
  ledger.threads = process.threads;
  ledger.modelFile = process.modelFile;
  ledger.code = process.otherFiles;
  ledger.data = process.programData;
  ledger.stacks = process.stacks;
  ledger.device = snapshot.memory.device;
  if (ledger.device) {
    const DeviceMemory& device = *ledger.device;
    ledger.gpu =
        device.weights + device.kvBlocks + device.kvFree + device.workspace + device.context;
  } else {
    ledger.workspace = snapshot.memory.workspaceBytes;
  }

  // Weights and pool lie apart from the heap, or (the reference backend) in it.
  const std::uint64_t weightsApart = HostMemory::residentBytes(MemoryUse::kWeights);
  const std::uint64_t kvApart = HostMemory::residentBytes(MemoryUse::kKvCache);
  ledger.weights = weightsApart;
  std::uint64_t kvResident = kvApart;
  if (ledger.device) {
    ledger.kvMoved = kvApart;
    ledger.kvReserved = snapshot.bytesPerBlock * snapshot.blocks.size();
  } else {
    ledger.weights = std::max<std::uint64_t>(weightsApart, snapshot.memory.weightBytes);
    if (kvApart == 0) kvResident = snapshot.memory.kvAllocatedBytes;
    countKv(snapshot, kvResident, ledger);
  }

  const std::uint64_t countedInHeap =
      ledger.workspace + (ledger.weights - weightsApart) + (kvResident - kvApart);
  ledger.heapUsed =
      less(std::min(allocator.inHeaps, process.heaps) + allocator.apart, countedInHeap);
  ledger.heapFree = less(process.heaps, allocator.inHeaps);
  return ledger;
}

}  // namespace vitrine::engine

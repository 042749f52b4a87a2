#include "harness.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "api.h"
#include "cublas.h"
#include "device_memory.h"
#include "grid.h"
#include "streams.h"

namespace cuda_on_cpu {
namespace {

/// "64M": a number with K, M or G.
std::size_t bytesOf(const char* text) {
  char* unit = nullptr;
  std::size_t bytes = std::strtoull(text, &unit, 10);
  switch (*unit) {
    case 'G':
      bytes <<= 10;
      [[fallthrough]];
    case 'M':
      bytes <<= 10;
      [[fallthrough]];
    case 'K':
      bytes <<= 10;
      break;
    default:
      break;
  }
  return bytes;
}

Settings settingsFromEnvironment() {
  Settings all;
  if (const char* seed = std::getenv("CUDA_ON_CPU_SEED"); seed != nullptr && *seed != '\0') {
    all.shuffle = true;
    all.seed = std::strtoull(seed, nullptr, 10);
  }
  const auto isOn = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && std::strcmp(value, "0") != 0 && *value != '\0';
  };
  all.lazy = isOn("CUDA_ON_CPU_LAZY");
  const auto number = [](const char* name, int fallback) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::atoi(value) : fallback;
  };
  all.workers = number("CUDA_ON_CPU_WORKERS", all.workers);
  all.devices = number("CUDA_ON_CPU_DEVICES", all.devices);
  all.architecture = number("CUDA_ON_CPU_ARCH", all.architecture);
  if (const char* memory = std::getenv("CUDA_ON_CPU_MEMORY"); memory != nullptr) {
    all.memoryBytes = bytesOf(memory);
  }
  return all;
}

std::string counted(int n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

}  // namespace

Settings& settings() {
  static Settings all = settingsFromEnvironment();
  return all;
}

void reset() {
  const std::lock_guard lock(runtimeLock());
  Queue::instance().runAll();
  Queue::instance().reset();
  streamHandles().clear();
  eventHandles().clear();
  graphHandles().clear();
  executableHandles().clear();
  cublasHandles().clear();
  DeviceMemory::instance().setClosed(false);
  DeviceMemory::instance().freeAll();
  PinnedMemory::instance().freeAll();
  resetFaults();
  gridCounts() = {};
  settings() = settingsFromEnvironment();
  lastError() = cudaSuccess;
}

Counts counts() {
  const std::lock_guard lock(runtimeLock());
  Counts now;
  now.deviceBytes = DeviceMemory::instance().usedBytes();
  now.deviceAllocations = DeviceMemory::instance().allocations();
  now.pinnedBytes = PinnedMemory::instance().bytes();
  now.streams = streamHandles().size();
  now.events = eventHandles().size();
  now.graphs = graphHandles().size();
  now.executableGraphs = executableHandles().size();
  now.cublasHandles = cublasHandles().size();
  now.calls = countedCalls();
  now.launches = gridCounts().launches;
  now.blocks = gridCounts().blocks;
  now.switches = gridCounts().switches;
  return now;
}

std::string describeHeld() {
  const Counts now = counts();
  std::string text;
  const auto append = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (now.deviceAllocations > 0) {
    append(counted(now.deviceAllocations, "device allocation") + " of " +
           std::to_string(now.deviceBytes) + " bytes");
  }
  if (now.pinnedBytes > 0) append(std::to_string(now.pinnedBytes) + " page-locked bytes");
  if (now.streams > 0) append(counted(now.streams, "stream"));
  if (now.events > 0) append(counted(now.events, "event"));
  if (now.graphs > 0) append(counted(now.graphs, "graph"));
  if (now.executableGraphs > 0) append(counted(now.executableGraphs, "executable graph"));
  if (now.cublasHandles > 0) append(counted(now.cublasHandles, "cuBLAS handle"));
  return text.empty() ? "nothing" : text;
}

std::string brokenGuards() {
  const std::lock_guard lock(runtimeLock());
  return DeviceMemory::instance().brokenGuards();
}

}  // namespace cuda_on_cpu

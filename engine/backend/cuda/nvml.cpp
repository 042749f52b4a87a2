#include "engine/backend/cuda/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <vector>

namespace vitrine::engine::cuda {
namespace {

// As documented in NVIDIA's NVML reference manual; all functions return 0 for success.
using Device = void*;
struct MemoryFigures {
  unsigned long long total, free, used;
};
struct ProcessFigures {  // of the functions that end in _v3
  unsigned int pid;
  unsigned long long usedBytes;  // all bits set: not told
  unsigned int gpuInstance, computeInstance;
};
constexpr int kInsufficientSize = 7;
constexpr int kProhibited = 2, kExclusiveProcess = 3;

}  // namespace

struct Nvml::Functions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*deviceByBusId)(const char*, Device*) = nullptr;
  int (*memory)(Device, MemoryFigures*) = nullptr;
  int (*computeProcesses)(Device, unsigned int*, ProcessFigures*) = nullptr;
  int (*graphicsProcesses)(Device, unsigned int*, ProcessFigures*) = nullptr;
  int (*computeMode)(Device, int*) = nullptr;

  /// Null if there is none.
  Device find(const std::string& busId) const {
    Device device = nullptr;
    return deviceByBusId(busId.c_str(), &device) == 0 ? device : nullptr;
  }
};

namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// Adds the processes that `list` knows to those that are there. False: it does not say.
template <typename List>
bool addProcesses(List list, Device device, std::vector<ProcessFigures>& all) {
  if (list == nullptr) return false;
  unsigned int count = 0;
  int code = list(device, &count, nullptr);
  std::vector<ProcessFigures> some;
  // Others may start meanwhile.
  for (int tries = 0; code == kInsufficientSize && tries < 4; ++tries) {
    count += 8;
    some.resize(count);
    code = list(device, &count, some.data());
  }
  if (code != 0) return false;
  some.resize(count);
  for (const ProcessFigures& one : some) {
    bool known = false;
    for (const ProcessFigures& other : all) known |= other.pid == one.pid;
    if (!known) all.push_back(one);  // a process may compute and draw: it is listed twice
  }
  return true;
}

}  // namespace

std::unique_ptr<Nvml> Nvml::open(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  auto functions = std::make_unique<Functions>();
  Functions& f = *functions;
  const bool complete = find(handle, "nvmlInit_v2", f.init) &&
                        find(handle, "nvmlShutdown", f.shutdown) &&
                        find(handle, "nvmlDeviceGetHandleByPciBusId_v2", f.deviceByBusId) &&
                        find(handle, "nvmlDeviceGetMemoryInfo", f.memory);
  if (!complete || f.init() != 0) {
    dlclose(handle);
    return nullptr;
  }
  find(handle, "nvmlDeviceGetComputeRunningProcesses_v3", f.computeProcesses);
  find(handle, "nvmlDeviceGetGraphicsRunningProcesses_v3", f.graphicsProcesses);
  find(handle, "nvmlDeviceGetComputeMode", f.computeMode);
  return std::unique_ptr<Nvml>(new Nvml(handle, std::move(functions)));
}

Nvml::Nvml(void* library, std::unique_ptr<const Functions> functions)
    : m_library(library), m_functions(std::move(functions)) {}

Nvml::~Nvml() {
  m_functions->shutdown();
  dlclose(m_library);
}

std::optional<Nvml::Memory> Nvml::memory(const std::string& busId) const {
  const Device device = m_functions->find(busId);
  MemoryFigures figures{};
  if (device == nullptr || m_functions->memory(device, &figures) != 0) return std::nullopt;
  return Memory{figures.total, figures.free, figures.used};
}

std::optional<std::uint64_t> Nvml::othersBytes(const std::string& busId) const {
  const Device device = m_functions->find(busId);
  if (device == nullptr) return std::nullopt;
  std::vector<ProcessFigures> processes;
  if (!addProcesses(m_functions->computeProcesses, device, processes)) return std::nullopt;
  addProcesses(m_functions->graphicsProcesses, device, processes);
  std::uint64_t bytes = 0;
  for (const ProcessFigures& one : processes) {
    if (one.pid == static_cast<unsigned int>(getpid())) continue;
    if (one.usedBytes == ~0ULL) return std::nullopt;
    bytes += one.usedBytes;
  }
  return bytes;
}

std::string Nvml::restriction(const std::string& busId) const {
  const Device device = m_functions->find(busId);
  int mode = 0;
  if (device == nullptr || m_functions->computeMode == nullptr ||
      m_functions->computeMode(device, &mode) != 0) {
    return {};
  }
  if (mode == kProhibited) return "prohibited";
  return mode == kExclusiveProcess ? "exclusive process" : std::string();
}

}  // namespace vitrine::engine::cuda

#include "engine/backend/cuda/device_memory.h"

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>

#include "kernels/cuda/check.h"

namespace vitrine::engine::cuda {
namespace {

// One context a device lives as long as the process, whichever backend made it.
std::mutex contextsMutex;
std::map<int, std::uint64_t> contexts;

std::string busIdOf(int device) {
  char id[32] = {};
  if (cudaDeviceGetPCIBusId(id, sizeof id, device) == cudaSuccess) return id;
  cudaGetLastError();
  return {};
}

}  // namespace

std::shared_ptr<const Nvml> DeviceFigures::sharedNvml() {
  // Never destroyed: a probe that hangs may still be there when the program ends.
  static const auto& nvml = *new std::shared_ptr<const Nvml>(Nvml::open());
  return nvml;
}

DeviceFigures::DeviceFigures(int device, std::shared_ptr<const Nvml> nvml)
    : m_device(device), m_busId(busIdOf(device)), m_nvml(std::move(nvml)) {
  if (!m_nvml) return;
  if (const auto memory = m_nvml->memory(m_busId)) {
    m_usedBefore = memory->used;
  } else {
    m_nvml.reset();
  }
}

void DeviceFigures::contextMade() {
  const std::lock_guard lock(contextsMutex);
  const auto known = contexts.find(m_device);
  if (known != contexts.end()) {
    m_context = known->second;
    return;
  }
  std::size_t free = 0, total = 0;
  kernels::cuda::check(cudaSetDevice(m_device), "choosing the GPU");
  kernels::cuda::check(cudaMemGetInfo(&free, &total), "asking for the GPU's memory");
  std::uint64_t context = total - free;
  if (m_nvml) {
    const auto memory = m_nvml->memory(m_busId);
    const std::uint64_t after = memory ? memory->used : m_usedBefore;
    context = after > m_usedBefore ? after - m_usedBefore : 0;
  }
  m_context = contexts[m_device] = context;
}

DeviceMemory DeviceFigures::read() const {
  DeviceMemory figures;
  std::size_t free = 0, total = 0;
  if (cudaSetDevice(m_device) != cudaSuccess || cudaMemGetInfo(&free, &total) != cudaSuccess) {
    cudaGetLastError();
    return figures;
  }
  figures.total = total;
  figures.free = free;
  figures.context = m_context;
  if (!m_nvml) return figures;
  if (const auto others = m_nvml->othersBytes(m_busId)) {
    figures.others = *others;
  } else {
    figures.others = m_usedBefore;  // before this process came
  }
  return figures;
}

}  // namespace vitrine::engine::cuda

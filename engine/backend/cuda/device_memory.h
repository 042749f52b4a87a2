#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/nvml.h"

namespace vitrine::engine::cuda {

/// The driver's figures of one device: what it has, what others take, what the process's own
/// context takes beside what we allocate. The context is measured once in a process, between
/// begin() and contextMade(); a later backend on the same device finds it there.
///
///   with NVML      context = used after − used before; others = what the driver lists by process
///   without NVML   context = all that is used right after, others' share included; others = 0
///
/// One is made before anything else touches the device. Any thread may read.
class DeviceFigures final {
 public:
  /// `nvml`: null where there is none.
  explicit DeviceFigures(int device, std::shared_ptr<const Nvml> nvml = sharedNvml());
  /// The context is there, and nothing of ours is allocated yet. Throws CudaError.
  void contextMade();
  /// Total, free, context and others; what is ours is for the caller to fill in. Zeros where the
  /// device does not answer.
  DeviceMemory read() const;

  /// The management library, opened once in a process; null where there is none.
  static std::shared_ptr<const Nvml> sharedNvml();

 private:
  int m_device;
  std::string m_busId;  // "" if unknown
  std::shared_ptr<const Nvml> m_nvml;
  std::uint64_t m_usedBefore = 0;  // by NVML
  std::uint64_t m_context = 0;
};

}  // namespace vitrine::engine::cuda

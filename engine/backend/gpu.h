#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/backend/backend.h"

// GPUs, for code that is built with and without CUDA. The CUDA backend is a library of its own; a
// program that links it has it registered here, any other has a build "without CUDA".

namespace vitrine::engine {

struct GpuDevice {
  int index = 0;
  std::string name;          ///< "NVIDIA GeForce RTX 4090"
  std::string architecture;  ///< "sm_89"
  std::uint64_t totalBytes = 0;
  std::uint64_t freeBytes = 0;
};

/// What was found. Without a usable device `problem` says why, as a phrase that can follow "CPU: ":
/// "no GPU driver is installed", "the GPU driver is too old (11.4; 13.0 is needed)", …
struct GpuProbe {
  std::vector<GpuDevice> devices;  ///< usable ones
  std::string problem;
  std::string driverVersion;  ///< "13.0"; "" if unknown
  bool broken = false;        ///< a driver is there, and yet no GPU can be used
};

/// The CUDA backend of this program.
struct CudaSupport {
  Result<std::unique_ptr<Backend>> (*make)(std::shared_ptr<const Model> model,
                                           const BackendOptions& options, const Progress& progress,
                                           std::stop_token stop) = nullptr;
  /// Asks the driver. May block as long as a broken driver does.
  GpuProbe (*probe)() = nullptr;
  std::string toolkit;        ///< "13.0"
  std::string architectures;  ///< "sm_80, sm_90"
};

/// Called once, before main(), by the library that has the backend.
bool registerCuda(CudaSupport support);
/// Null in a build without CUDA.
const CudaSupport* cudaSupport();

/// The GPUs, asked for once in a process, in a thread of its own: a driver that hangs is given up
/// after some seconds and reported as the problem. Any thread.
const GpuProbe& probeGpus();
/// The same without waiting: null while the driver is still being asked.
const GpuProbe* knownGpus();
/// What the environment asks for in place of kAuto (VITRINE_BACKEND), or kAuto.
Result<BackendKind> forcedBackend();
/// Whether people are to be told why a model was put on the CPU: where there is a GPU or its
/// driver, and yet it does not serve. None at all is no news.
bool shouldTellWhyNoGpu(const BackendInfo& info);
/// "CUDA 13.0: sm_80, sm_90" or "without CUDA", for --version.
std::string describeGpuSupport();

}  // namespace vitrine::engine

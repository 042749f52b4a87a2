#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

// What tests ask of the stand-in for CUDA (see README.md): how it behaves, what it counted, which
// call shall fail. Nothing of this is known to the code under test. Host threads may call anything
// at any time; reset() only while no work is queued and nothing is held.

namespace cuda_on_cpu {

struct Settings {
  /// Blocks and threads run in random order, streams and graphs overtake each other.
  bool shuffle = false;  // CUDA_ON_CPU_SEED=n sets it, and the seed
  std::uint64_t seed = 0;
  /// Queued work runs only when the host waits for it, and device memory cannot be touched by the
  /// host at all.
  bool lazy = false;  // CUDA_ON_CPU_LAZY=1
  int workers = 0;    // CUDA_ON_CPU_WORKERS; 0: two, or as many as there are cores if fewer

  int devices = 1;                                 // CUDA_ON_CPU_DEVICES
  std::size_t memoryBytes = std::size_t{2} << 30;  // CUDA_ON_CPU_MEMORY, with K, M or G; per device
  std::size_t othersBytes = 0;                     ///< of those, taken by other programs
  int architecture = 80;                           // CUDA_ON_CPU_ARCH: 75 is Turing
  int multiprocessors = 16;
  /// Shared memory of a block that a kernel may ask for: what every supported GPU has (sm_75).
  std::size_t sharedOptinBytes = 64 * 1024;
  int driverVersion = 13000;  ///< 0: no driver; below CUDART_VERSION: too old
  /// Why cuBLAS cannot be loaded; "": it can.
  std::string cublasProblem{};
};
Settings& settings();
/// As in a new process: settings from the environment, no faults, no report, counters at zero.
/// What is still allocated on devices is dropped.
void reset();

/// What went wrong on the device, in words: kernel, block, thread, file and line. "" if nothing.
std::string report();

/// What is held and what was done.
struct Counts {
  std::size_t deviceBytes = 0;
  int deviceAllocations = 0;
  std::size_t pinnedBytes = 0;
  int streams = 0, events = 0, graphs = 0, executableGraphs = 0, cublasHandles = 0;

  std::uint64_t calls = 0;  ///< of CUDA and cuBLAS functions that can fail
  std::uint64_t launches = 0, blocks = 0, switches = 0;

  bool holdsNothing() const {
    return deviceAllocations == 0 && pinnedBytes == 0 && streams == 0 && events == 0 &&
           graphs == 0 && executableGraphs == 0 && cublasHandles == 0;
  }
};
Counts counts();
/// "3 allocations of 4096 bytes, 1 stream": what is held.
std::string describeHeld();

/// The n-th call from now (1: the next) that can fail returns `code` and does nothing, except that
/// what gives something back gives it back. `function`: count calls of this one alone
/// ("cudaMalloc"). cuBLAS calls fail with the status that fits.
void failCall(std::uint64_t n, cudaError_t code, const std::string& function = {});
/// From the n-th call on the device is lost: each call returns `code`, and so does all work.
void loseDeviceAt(std::uint64_t n, cudaError_t code = cudaErrorLaunchFailure);
void clearFaults();
/// The name of the function that failed by plan; "" if none has yet.
std::string failedFunction();

/// Writes next to device memory, found by looking at the zones around every allocation. Empty:
/// none. (AddressSanitizer finds them at once; this works without.)
std::string brokenGuards();

}  // namespace cuda_on_cpu

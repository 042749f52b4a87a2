#pragma once

#include <cstdint>
#include <functional>

#include "multiprocessor.h"

// The host threads that stand for the multiprocessors of a device. The caller is one of them. One
// call at a time (the lock of the runtime is held).

namespace cuda_on_cpu {

/// Runs all blocks of a launch. Stops early at a fault, which has been reported.
void runGrid(const KernelCall& kernel, dim3 grid, dim3 block, std::size_t dynamicBytes);
/// Calls work(0) … work(n − 1) on all workers.
void parallelFor(int n, const std::function<void(int)>& work);

struct GridCounts {
  std::uint64_t launches = 0, blocks = 0, switches = 0;
};
GridCounts& gridCounts();

}  // namespace cuda_on_cpu

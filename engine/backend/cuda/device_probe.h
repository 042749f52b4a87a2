#pragma once

#include "engine/backend/gpu.h"

namespace vitrine::engine::cuda {

/// The oldest GPUs that the kernels are built for: Turing.
inline constexpr int kOldestMajor = 7;
inline constexpr int kOldestMinor = 5;

/// Asks the driver for its devices and says why there is none that can be used. Leaves no context
/// behind on devices that are not used.
GpuProbe probeDevices();

}  // namespace vitrine::engine::cuda

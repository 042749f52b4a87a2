#pragma once

#include <cuda_runtime.h>

namespace cuda_on_cpu {

/// The device of the calling host thread.
int currentDevice();
/// What cudaGetDeviceCount() answers: no driver, one that is too old, no device.
cudaError_t driverProblem();

}  // namespace cuda_on_cpu

#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

// What goes wrong: by the code under test (reported in words, and as an error that sticks), and by
// plan (harness.h). Any thread, fibers too: no lock that host code holds is taken.

namespace cuda_on_cpu {

/// A fault of the device: noted in the report; from now on every call returns the first code.
void reportFault(const std::string& what, cudaError_t code);
/// A mistake of the host that CUDA answers with an error alone: noted in the report.
void note(const std::string& what);
/// The error that sticks, or cudaSuccess.
cudaError_t stickyError();
/// "vitrine::kernels::cuda::rmsNormKernel<…>", or where it cannot be known "a kernel".
std::string kernelName(const void* function);

/// Counts a call of `function`. The code that it shall fail with, by plan or since the device is
/// lost, or cudaSuccess.
cudaError_t countCall(const char* function);
std::uint64_t countedCalls();
void resetFaults();

}  // namespace cuda_on_cpu

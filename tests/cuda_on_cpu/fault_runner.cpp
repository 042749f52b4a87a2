#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cuda_on_cpu/fault_kernels.h"
#include "cuda_on_cpu/harness.h"

// fault_runner NAME faulty|correct [seed]: runs one of the kernels of fault_kernels.h in a process
// of its own, since a sanitizer that finds something ends the process. Says what it saw; the exit
// status is 0 if nothing, 3 if something.

int main(int argc, char** argv) {
  using namespace cuda_on_cpu;
  if (argc < 3) return 2;
  const bool isFaulty = std::strcmp(argv[2], "faulty") == 0;
  settings().workers = 2;
  if (argc > 3) {
    settings().shuffle = true;
    settings().seed = std::strtoull(argv[3], nullptr, 10);
  }
  for (const FaultKernel& kernel : faultKernels()) {
    if (std::strcmp(kernel.name, argv[1]) != 0) continue;
    constexpr std::size_t kBytes = kFaultValues * sizeof(float);
    std::vector<float> in(kFaultValues), out(kFaultValues);
    for (int i = 0; i < kFaultValues; ++i) in[i] = static_cast<float>(i + 1);
    float *deviceIn = nullptr, *deviceOut = nullptr;
    unsigned* counter = nullptr;
    cudaMalloc(&deviceIn, kBytes);
    cudaMalloc(&deviceOut, kBytes);
    cudaMalloc(&counter, sizeof *counter);
    cudaMemcpy(deviceIn, in.data(), kBytes, cudaMemcpyHostToDevice);
    cudaMemset(counter, 0, sizeof *counter);
    kernel.launch(nullptr, isFaulty, deviceIn, deviceOut, counter);
    const cudaError_t code = cudaDeviceSynchronize();
    if (!report().empty() || code != cudaSuccess) {
      std::printf("report: %s: %s\n", cudaGetErrorName(code), report().c_str());
      return 3;
    }
    if (const std::string guards = brokenGuards(); !guards.empty()) {
      std::printf("guard: %s\n", guards.c_str());
      return 3;
    }
    cudaMemcpy(out.data(), deviceOut, kBytes, cudaMemcpyDeviceToHost);
    for (int i = 0; i < kFaultValues; ++i) {
      if (out[i] == kernel.expected(in.data(), i)) continue;
      std::printf("result: out[%d] is %g, not %g\n", i, out[i], kernel.expected(in.data(), i));
      return 3;
    }
    cudaFree(deviceIn);
    cudaFree(deviceOut);
    cudaFree(counter);
    std::printf("nothing\n");
    return 0;
  }
  std::fprintf(stderr, "fault_runner: no kernel is called %s\n", argv[1]);
  return 2;
}

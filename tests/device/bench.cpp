// device_bench: what the CUDA backend reaches on this device, beside its goals.
//   device_bench [--tiny]
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <exception>

#include "tests/device/measures.h"

int main(int argc, char** argv) {
  using namespace vitrine::device;
  BenchOptions options;
  options.tiny = argc > 1 && std::strcmp(argv[1], "--tiny") == 0;
  if (options.tiny) options.repeats = 1;
  try {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) {
      std::fprintf(stderr, "no GPU can be used here\n");
      return 1;
    }
    std::printf("%s, sm_%d%d, %d multiprocessors, %.1f GB\n", properties.name, properties.major,
                properties.minor, properties.multiProcessorCount,
                static_cast<double>(properties.totalGlobalMem) / 1e9);
    const Limits limits = measureLimits(options);
    std::printf("probe: reads %.0f GB/s, cuBLAS FP16 %.0f TFLOP/s\n\n",
                limits.readBytesPerSecond / 1e9, limits.fp16FlopsPerSecond / 1e12);
    std::printf("%-4s %-58s %10s %-10s %8s  %s\n", "", "", "measured", "", "goal", "");
    const auto print = [](const std::vector<Measure>& measures) {
      for (const Measure& m : measures) {
        std::printf("%-4s %-58s %10.3f %-10s %s%6.2f %s  %s\n", m.id.c_str(), m.what.c_str(),
                    m.value, m.unit.c_str(), m.atLeast ? ">=" : "<=", m.goal,
                    m.isMet() ? "met " : "miss", m.detail.c_str());
      }
      std::fflush(stdout);
    };
    print(measureKernels(options, limits));
    print(measureModels(options, limits));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}

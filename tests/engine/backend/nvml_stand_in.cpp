// A stand-in for NVIDIA's management library, for tests: one device with what its environment says.
//   NVML_USED, NVML_TOTAL   bytes
//   NVML_OTHERS             bytes of another process; "unknown": not told
//   NVML_MODE               compute mode: 0 default, 2 prohibited, 3 exclusive process
//   NVML_FAILS              the library does not start
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

unsigned long long number(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? 0 : std::strtoull(value, nullptr, 10);
}

int device;  // its address is the handle

}  // namespace

extern "C" {

struct MemoryFigures {
  unsigned long long total, free, used;
};
struct ProcessFigures {
  unsigned int pid;
  unsigned long long usedBytes;
  unsigned int gpuInstance, computeInstance;
};

int nvmlInit_v2() {
  return std::getenv("NVML_FAILS") != nullptr ? 9 : 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* busId, void** handle) {
  if (std::strlen(busId) < 7) return 6;
  *handle = &device;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, MemoryFigures* figures) {
  *figures = {number("NVML_TOTAL"), number("NVML_TOTAL") - number("NVML_USED"),
              number("NVML_USED")};
  return 0;
}
// This process and another one.
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned int* count, ProcessFigures* processes) {
  if (*count < 2) {
    *count = 2;
    return 7;
  }
  const char* others = std::getenv("NVML_OTHERS");
  const bool unknown = others != nullptr && std::string(others) == "unknown";
  processes[0] = {static_cast<unsigned>(getpid()), 1ULL << 30, 0, 0};
  processes[1] = {1, unknown ? ~0ULL : number("NVML_OTHERS"), 0, 0};
  *count = 2;
  return 0;
}
// The other process draws, too, and a third one does nothing else.
int nvmlDeviceGetGraphicsRunningProcesses_v3(void*, unsigned int* count,
                                             ProcessFigures* processes) {
  if (*count < 2) {
    *count = 2;
    return 7;
  }
  processes[0] = {1, number("NVML_OTHERS"), 0, 0};
  processes[1] = {2, 1000, 0, 0};
  *count = 2;
  return 0;
}
int nvmlDeviceGetComputeMode(void*, int* mode) {
  *mode = static_cast<int>(number("NVML_MODE"));
  return 0;
}

}  // extern "C"

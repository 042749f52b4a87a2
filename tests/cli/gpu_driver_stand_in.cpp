// A GPU driver that is installed and of no use: every question gets the same answer.
//   DRIVER_RESULT   the answer, a CUresult or what old drivers say; default 0
//   DRIVER_VERSION  the CUDA version that it knows, as 1000 · major + 10 · minor; default 13000
//   DRIVER_COUNT    devices that it claims to have
//   DRIVER_HANGS    questions are not answered for an hour
#include <unistd.h>

#include <cstdlib>

namespace {

int number(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

int answer() {
  if (std::getenv("DRIVER_HANGS") != nullptr) sleep(3600);
  return number("DRIVER_RESULT", 0);
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  return answer();
}
int cuDriverGetVersion(int* version) {
  if (version != nullptr) *version = number("DRIVER_VERSION", 13000);
  return 0;
}
int cuDeviceGetCount(int* count) {
  if (count != nullptr) *count = number("DRIVER_COUNT", 0);
  return answer();
}
int cuDeviceGet(int* device, int index) {
  if (device != nullptr) *device = index;
  return answer();
}
int cuGetProcAddress(const char*, void** function, int, unsigned long long) {
  if (function != nullptr) *function = nullptr;
  return answer();
}
int cuGetProcAddress_v2(const char*, void** function, int, unsigned long long, void*) {
  if (function != nullptr) *function = nullptr;
  return answer();
}
int cuGetErrorString(int, const char** text) {
  if (text != nullptr) *text = "stand-in driver";
  return 0;
}
int cuGetErrorName(int, const char** text) {
  if (text != nullptr) *text = "STAND_IN";
  return 0;
}

}  // extern "C"

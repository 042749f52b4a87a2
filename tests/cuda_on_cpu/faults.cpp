#include "faults.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "harness.h"

namespace cuda_on_cpu {
namespace {

/// A lock that ThreadSanitizer does not see (this library is not instrumented): fibers take it,
/// which look like threads of their own to the sanitizer.
class SpinLock final {
 public:
  void lock() {
    while (m_isTaken.test_and_set(std::memory_order_acquire)) __builtin_ia32_pause();
  }
  void unlock() { m_isTaken.clear(std::memory_order_release); }

 private:
  std::atomic_flag m_isTaken = ATOMIC_FLAG_INIT;
};
struct Locked {
  explicit Locked(SpinLock& spinLock) : lock(spinLock) { lock.lock(); }
  ~Locked() { lock.unlock(); }
  SpinLock& lock;
};

struct Plan {
  std::uint64_t left = 0;  // calls until it happens; 0: none is planned
  cudaError_t code = cudaSuccess;
  std::string function;
  bool losesDevice = false;
};

struct Faults {
  SpinLock lock;
  std::string report;
  cudaError_t sticky = cudaSuccess;
  Plan plan;
  std::string failed;
  std::atomic<std::uint64_t> calls{0};
};
Faults& faults() {
  static Faults* all = new Faults;  // lives as long as the last thread
  return *all;
}

constexpr std::size_t kMostReport = 16 * 1024;

}  // namespace

void note(const std::string& what) {
  Faults& all = faults();
  const Locked locked(all.lock);
  if (all.report.size() < kMostReport) all.report += what + "\n";
}

void reportFault(const std::string& what, cudaError_t code) {
  note(what);
  Faults& all = faults();
  const Locked locked(all.lock);
  if (all.sticky == cudaSuccess) all.sticky = code;
}

cudaError_t stickyError() {
  Faults& all = faults();
  const Locked locked(all.lock);
  return all.sticky;
}

std::string kernelName(const void* function) {
  Dl_info info{};
  if (dladdr(function, &info) == 0 || info.dli_sname == nullptr) return "a kernel";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : info.dli_sname;
}

cudaError_t countCall(const char* function) {
  Faults& all = faults();
  ++all.calls;
  const Locked locked(all.lock);
  Plan& plan = all.plan;
  if (plan.left > 0 && (plan.function.empty() || plan.function == function) && --plan.left == 0) {
    all.failed = function;
    if (plan.losesDevice && all.sticky == cudaSuccess) all.sticky = plan.code;
    return plan.code;
  }
  return all.sticky;
}

std::uint64_t countedCalls() {
  return faults().calls;
}

void resetFaults() {
  Faults& all = faults();
  const Locked locked(all.lock);
  all.report.clear();
  all.sticky = cudaSuccess;
  all.plan = {};
  all.failed.clear();
  all.calls = 0;
}

std::string report() {
  Faults& all = faults();
  const Locked locked(all.lock);
  return all.report;
}

void failCall(std::uint64_t n, cudaError_t code, const std::string& function) {
  Faults& all = faults();
  const Locked locked(all.lock);
  all.plan = {n, code, function, false};
  all.failed.clear();
}

void loseDeviceAt(std::uint64_t n, cudaError_t code) {
  Faults& all = faults();
  const Locked locked(all.lock);
  all.plan = {n, code, {}, true};
  all.failed.clear();
}

void clearFaults() {
  Faults& all = faults();
  const Locked locked(all.lock);
  all.plan = {};
  all.failed.clear();
}

std::string failedFunction() {
  Faults& all = faults();
  const Locked locked(all.lock);
  return all.failed;
}

}  // namespace cuda_on_cpu

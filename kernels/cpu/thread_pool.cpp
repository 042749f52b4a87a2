#include "kernels/cpu/thread_pool.h"

#include <fstream>
#include <set>
#include <string>

#ifdef __linux__
#include <sched.h>
#endif

namespace vitrine::kernels::cpu {
namespace {

// About 40 ns to 60 ns a turn on current processors.
inline void spinPause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

constexpr int kBarrierSpins = 2000;  // about 0.1 ms: longer than the parts of a step differ
constexpr int kIdleSpins = 20000;    // about 1 ms: what sampling and bookkeeping take between steps

/// Waits until `value` is no longer `old`.
void waitWhile(const std::atomic<std::uint32_t>& value, std::uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    spinPause();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) : m_count(threads < 1 ? 1 : threads) {
  m_workers.reserve(static_cast<std::size_t>(m_count - 1));
  for (int i = 1; i < m_count; ++i) m_workers.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  m_stop.store(true, std::memory_order_relaxed);
  m_epoch.fetch_add(1, std::memory_order_release);
  m_epoch.notify_all();
  for (std::thread& t : m_workers) t.join();
}

void ThreadPool::setActive(bool active) {
  m_active.store(active, std::memory_order_relaxed);
}

void ThreadPool::runErased(Erased function, void* task) {
  m_next.store(0, std::memory_order_relaxed);
  if (m_count == 1) {
    function(task, 0);
    return;
  }
  m_function = function;
  m_task = task;
  m_epoch.fetch_add(1, std::memory_order_release);
  m_epoch.notify_all();
  function(task, 0);
  barrier();  // all are done with the task, which lives on the caller's stack
}

void ThreadPool::barrier() {
  if (m_count == 1) {
    m_next.store(0, std::memory_order_relaxed);
    return;
  }
  const std::uint32_t phase = m_phase.load(std::memory_order_relaxed);
  if (m_arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<unsigned>(m_count)) {
    m_arrived.store(0, std::memory_order_relaxed);
    m_next.store(0, std::memory_order_relaxed);
    m_phase.fetch_add(1, std::memory_order_release);
    m_phase.notify_all();
    return;
  }
  waitWhile(m_phase, phase, kBarrierSpins);
}

void ThreadPool::work(int thread) {
  std::uint32_t epoch = 0;
  for (;;) {
    waitWhile(m_epoch, epoch, m_active.load(std::memory_order_relaxed) ? kIdleSpins : 0);
    ++epoch;  // tasks come one at a time, so none was missed
    if (m_stop.load(std::memory_order_relaxed)) return;
    m_function(m_task, thread);
    barrier();
  }
}

int usableCores() {
#ifdef __linux__
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    std::set<std::string> cores;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) continue;
      const std::string dir = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      std::ifstream siblings(dir + "thread_siblings_list");
      std::string name;
      if (!std::getline(siblings, name)) name = "cpu" + std::to_string(cpu);
      cores.insert(name);
    }
    if (!cores.empty()) return static_cast<int>(cores.size());
  }
#endif
  const unsigned n = std::thread::hardware_concurrency();
  return n == 0 ? 1 : static_cast<int>(n);
}

}  // namespace vitrine::kernels::cpu

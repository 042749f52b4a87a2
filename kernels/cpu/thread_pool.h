#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace vitrine::kernels::cpu {

/// Threads that compute one step together. The thread that calls run() is one of them, so a pool
/// of one has no other thread. One task at a time; run() is called by one thread only.
///
/// Inside a task the threads meet at barrier() and share out work with claim(). Who waits spins for
/// some tens of microseconds and then sleeps. Between tasks the threads spin while the pool is
/// active (a turn runs, the next step comes at once) and sleep otherwise: an idle pool uses no CPU.
///
/// No thread is pinned: pinning two processes to the same cores is worse than what it cures.
class ThreadPool final {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return m_count; }
  /// Between tasks: spin for a while (true) or sleep at once (false).
  void setActive(bool active);

  /// Runs task(thread) on every thread, thread in 0 … threads() − 1; returns when all are done.
  template <typename Task>
  void run(Task&& task) {
    runErased(
        [](void* t, int thread) { (*static_cast<std::remove_reference_t<Task>*>(t))(thread); },
        &task);
  }

  /// Inside a task: waits until every thread is here; afterwards claim() starts at 0 again.
  void barrier();
  /// Inside a task: the next number of 0, n, 2n, …; each is given to one thread.
  std::int64_t claim(std::int64_t n) { return m_next.fetch_add(n, std::memory_order_relaxed); }

 private:
  using Erased = void (*)(void*, int);
  void runErased(Erased function, void* task);
  void work(int thread);

  int m_count;
  std::vector<std::thread> m_workers;
  Erased m_function = nullptr;
  void* m_task = nullptr;
  alignas(64) std::atomic<std::uint32_t> m_epoch{0};    // counts tasks
  alignas(64) std::atomic<std::uint32_t> m_arrived{0};  // at the barrier
  alignas(64) std::atomic<std::uint32_t> m_phase{0};    // counts barriers passed
  alignas(64) std::atomic<std::int64_t> m_next{0};      // claim()
  alignas(64) std::atomic<bool> m_active{false};
  std::atomic<bool> m_stop{false};
};

/// Physical cores that this process may run on (its affinity mask, hardware threads of one core
/// counted once); at least 1.
int usableCores();

}  // namespace vitrine::kernels::cpu

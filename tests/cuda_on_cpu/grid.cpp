#include "grid.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "harness.h"
#include "sanitizers.h"

namespace cuda_on_cpu {
namespace {

/// Threads that wait for work. Each has a multiprocessor; the first belongs to whoever calls run().
class Workers final {
 public:
  ~Workers() {
    {
      const std::lock_guard lock(m_mutex);
      m_isStopped = true;
    }
    m_wake.notify_all();
    for (std::thread& thread : m_threads) thread.join();
  }

  /// Calls job(0) here and job(1) … job(n − 1) on other threads; returns when all have.
  void run(int n, const std::function<void(int)>& job) {
    if (n <= 1) return job(0);
    {
      const std::lock_guard lock(m_mutex);
      while (static_cast<int>(m_threads.size()) < n - 1) {
        const int id = static_cast<int>(m_threads.size()) + 1;
        m_threads.emplace_back([this, id, seen = m_round] { work(id, seen); });
      }
      m_job = &job;
      m_wanted = n;
      m_left = n - 1;
      ++m_round;
    }
    m_wake.notify_all();
    job(0);
    std::unique_lock lock(m_mutex);
    m_finished.wait(lock, [this] { return m_left == 0; });
    m_job = nullptr;
  }

  Multiprocessor& multiprocessor(int id) {
    while (static_cast<int>(m_multiprocessors.size()) <= id) {
      m_multiprocessors.push_back(std::make_unique<Multiprocessor>());
    }
    return *m_multiprocessors[static_cast<std::size_t>(id)];
  }

 private:
  void work(int id, std::uint64_t seen) {
    std::unique_lock lock(m_mutex);
    for (;;) {
      m_wake.wait(lock, [&] { return m_isStopped || m_round != seen; });
      if (m_isStopped) return;
      seen = m_round;
      if (id >= m_wanted) continue;
      const std::function<void(int)>* job = m_job;
      lock.unlock();
      (*job)(id);
      lock.lock();
      if (--m_left == 0) m_finished.notify_one();
    }
  }

  std::mutex m_mutex;
  std::condition_variable m_wake, m_finished;
  std::vector<std::thread> m_threads;
  std::vector<std::unique_ptr<Multiprocessor>> m_multiprocessors;
  const std::function<void(int)>* m_job = nullptr;
  int m_wanted = 0, m_left = 0;
  std::uint64_t m_round = 0;
  bool m_isStopped = false;
};

Workers& workers() {
  static Workers all;
  return all;
}

int workerCount() {
  if (settings().workers > 0) return settings().workers;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 2U));
}

}  // namespace

GridCounts& gridCounts() {
  static GridCounts counts;
  return counts;
}

void parallelFor(int n, const std::function<void(int)>& work) {
  std::atomic<int> next{0};
  workers().run(std::min(n, workerCount()), [&](int) {
    for (int i = next++; i < n; i = next++) work(i);
  });
}

void runGrid(const KernelCall& kernel, dim3 grid, dim3 block, std::size_t dynamicBytes) {
  GridCounts& counts = gridCounts();
  static char order[2];
  const GridLaunch launch{
      kernel,          grid, block, dynamicBytes, counts.launches, settings().shuffle,
      settings().seed, order};
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  std::vector<std::uint64_t> places;
  if (launch.shuffle) {
    places.resize(blocks);
    std::iota(places.begin(), places.end(), 0);
    Random random(launch.seed * 31 + launch.serial);
    for (std::size_t i = blocks; i > 1; --i) {
      std::swap(places[i - 1], places[random.below(static_cast<unsigned>(i))]);
    }
  }
  const int n = static_cast<int>(std::min<std::uint64_t>(blocks, workerCount()));
  for (int i = 0; i < n; ++i) workers().multiprocessor(i);
  std::atomic<std::uint64_t> next{0}, done{0}, switches{0};
  std::atomic<bool> hasFailed{false};
  announce(&order[0]);
  workers().run(n, [&](int id) {
    Multiprocessor& multiprocessor = workers().multiprocessor(id);
    const std::uint64_t before = multiprocessor.switches();
    multiprocessor.begin(launch);
#if defined(CUDA_ON_CPU_TSAN)
    // Neighbours on different workers, always: ThreadSanitizer takes what one worker does for
    // ordered.
    for (std::uint64_t i = static_cast<std::uint64_t>(id); i < blocks && !hasFailed;
         i += static_cast<std::uint64_t>(n)) {
#else
    for (std::uint64_t i = next++; i < blocks && !hasFailed; i = next++) {
#endif
      if (!multiprocessor.run(launch.shuffle ? places[i] : i)) hasFailed = true;
      ++done;
    }
    switches += multiprocessor.switches() - before;
  });
  heed(&order[1]);
  ++counts.launches;
  counts.blocks += done;
  counts.switches += switches;
}

}  // namespace cuda_on_cpu

#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace vitrine::engine {

/// One thread that does jobs in the order in which they come and sleeps in between. Jobs that have
/// not begun when it is destroyed are dropped; the one that runs is waited for.
class Worker final {
 public:
  Worker();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Any thread.
  void post(std::function<void()> job);

 private:
  void run();

  std::mutex m_mutex;
  std::condition_variable m_wake;
  std::deque<std::function<void()>> m_jobs;
  bool m_quit = false;
  std::thread m_thread;  // last: it uses the others
};

}  // namespace vitrine::engine

#pragma once

#include <httplib.h>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace vitrine::app {

/// One thread a connection, made when needed and gone when idle: a client that holds connections
/// open without a word does not keep others out.
class ConnectionThreads final : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(std::size_t most) : m_most(most) {}
  ~ConnectionThreads() override;
  void enqueue(std::function<void()> task) override;
  /// Waits for all of them.
  void shutdown() override;

 private:
  void run();

  const std::size_t m_most;
  std::mutex m_mutex;
  std::condition_variable m_changed;
  std::deque<std::function<void()>> m_tasks;
  std::size_t m_threads = 0, m_idle = 0;
  bool m_stopping = false;
};

}  // namespace vitrine::app

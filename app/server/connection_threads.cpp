#include "app/server/connection_threads.h"

#include <chrono>
#include <thread>

namespace vitrine::app {

ConnectionThreads::~ConnectionThreads() {
  ConnectionThreads::shutdown();
}

void ConnectionThreads::enqueue(std::function<void()> task) {
  const std::lock_guard lock(m_mutex);
  m_tasks.push_back(std::move(task));
  if (m_idle < m_tasks.size() && m_threads < m_most) {
    try {
      std::thread([this] { run(); }).detach();
      ++m_threads;
    } catch (const std::system_error&) {
      // No more threads from the system; the task waits for one that is there.
    }
  }
  m_changed.notify_one();
}

void ConnectionThreads::run() {
  std::unique_lock lock(m_mutex);
  while (true) {
    ++m_idle;
    const bool woken = m_changed.wait_for(lock, std::chrono::seconds(10),
                                          [&] { return !m_tasks.empty() || m_stopping; });
    --m_idle;
    if (m_tasks.empty()) {
      if (woken || m_threads > 1) break;  // stopping, or idle for long
      continue;
    }
    auto task = std::move(m_tasks.front());
    m_tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
  --m_threads;
  m_changed.notify_all();
}

void ConnectionThreads::shutdown() {
  std::unique_lock lock(m_mutex);
  m_stopping = true;
  m_changed.notify_all();
  m_changed.wait(lock, [&] { return m_threads == 0; });
}

}  // namespace vitrine::app

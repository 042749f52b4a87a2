#include "engine/schedule/worker.h"

#include <utility>

namespace vitrine::engine {

Worker::Worker() : m_thread([this] { run(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(m_mutex);
    m_quit = true;
    m_jobs.clear();
  }
  m_wake.notify_one();
  m_thread.join();
}

void Worker::post(std::function<void()> job) {
  {
    const std::lock_guard lock(m_mutex);
    m_jobs.push_back(std::move(job));
  }
  m_wake.notify_one();
}

void Worker::run() {
  std::unique_lock lock(m_mutex);
  while (true) {
    m_wake.wait(lock, [this] { return m_quit || !m_jobs.empty(); });
    if (m_quit) return;
    {
      const auto job = std::move(m_jobs.front());
      m_jobs.pop_front();
      lock.unlock();
      job();
    }  // what the job holds is let go outside the lock
    lock.lock();
  }
}

}  // namespace vitrine::engine

// What the engine's loop does to keep conversations on disk.
#include <utility>

#include "engine/schedule/engine_loop.h"

namespace vitrine::engine {

/// The archive that the configuration asks for, for the pool and the scheduler in force.
void EngineLoop::useArchive() {
  const ArchiveOptions& wanted = m_config.archive;
  if (m_archive && m_archive->options().folder == wanted.folder && m_archive->isAttached()) {
    m_archive->setLimit(wanted.limitBytes);
    return;
  }
  m_scheduler->setArchive(nullptr);
  m_archive.reset();
  if (wanted.folder.empty()) return;
  m_archive = std::make_unique<KvArchive>(wanted, [this] { post(Wake{}); });
  m_archive->attach(m_scheduler->cache(), *m_backend,
                    archiveSettings(m_model->fingerprint(), *m_backend));
  m_scheduler->setArchive(m_archive.get());
}

/// Before the pool goes: what is not on disk yet.
void EngineLoop::saveArchive() {
  constexpr auto kMost = std::chrono::seconds(3);
  if (!m_archive) return;
  const bool canRead = m_scheduler && !m_scheduler->isDeviceLost();
  m_archive->detach(canRead ? kMost : std::chrono::seconds(0));
  if (m_scheduler) m_scheduler->setArchive(nullptr);
  m_archive.reset();
}

/// What is to be forgotten must not be saved at the end.
void EngineLoop::forgetAtEnd() {
  std::deque<Command> commands;
  {
    const std::lock_guard lock(m_mutex);
    commands.swap(m_commands);
  }
  for (Command& command : commands) {
    if (auto* forget = std::get_if<Forget>(&command)) handle(*forget);
    if (auto* clear = std::get_if<ClearArchive>(&command)) handle(*clear);
  }
}

/// Sleeps until there is a command; KV that is to be saved until then is one reason to wake up.
void EngineLoop::waitForCommand(std::unique_lock<std::mutex>& lock) {
  const auto called = [this] { return m_quit || !m_commands.empty(); };
  const auto due = m_archive ? m_archive->due() : std::nullopt;
  if (!due) {
    m_wake.wait(lock, called);
  } else if (!m_wake.wait_until(lock, *due, called)) {
    lock.unlock();
    m_archive->work();
    lock.lock();
  }
}

void EngineLoop::handle(ClearArchive&) {
  if (m_archive) m_archive->removeAll();
}

}  // namespace vitrine::engine

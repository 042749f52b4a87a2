// Cache checks beside the turns: one step of the first one after each batch.
#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/schedule/scheduler.h"

namespace vitrine::engine {

void Scheduler::stepCheck() {
  std::erase_if(m_checks, [this](const std::unique_ptr<CacheCheck>& check) {
    if (!check->stopRequested() || (m_checkBegun && check == m_checks.front())) return false;
    m_listener(TurnFailed{check->id(), Error{ErrorCode::kCancelled, "stopped on request"}});
    return true;
  });
  if (m_checks.empty()) return;
  CacheCheck& check = *m_checks.front();
  if (check.stopRequested()) {
    endCheck(Error{ErrorCode::kCancelled, "stopped on request"});
    return;
  }
  if (!m_checkBegun) {
    if (auto begun = check.begin(m_cache, m_backend, m_options.contextTokens); !begun) {
      endCheck(begun.error());
      return;
    }
    m_checkBegun = true;
  }
  // Answers that run should not wait long for each of its steps.
  const int whole = std::max(1, m_options.prefillChunk);
  const int chunk = m_running.empty() ? whole : std::min(whole, std::max(16, whole / 4));
  const auto start = Turn::Clock::now();
  auto done = check.step(m_cache, chunk);
  m_checkedMs += std::chrono::duration<double, std::milli>(Turn::Clock::now() - start).count();
  m_checkedTokens += check.lastTokens();
  if (!done) {
    endCheck(done.error());
  } else if (*done) {
    const CacheVerified verified{check.id(), check.proof()};
    check.end(m_cache);
    m_checks.pop_front();
    m_checkBegun = false;
    m_listener(verified);
  }
}

/// Requires: there is a check.
void Scheduler::endCheck(const Error& error) {
  const auto check = std::move(m_checks.front());
  m_checks.pop_front();
  if (std::exchange(m_checkBegun, false)) check->end(m_cache);
  m_listener(TurnFailed{check->id(), error});
}

}  // namespace vitrine::engine

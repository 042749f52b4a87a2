#include "app/cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "app/cli/command.h"

namespace vitrine::app::cli {
namespace {

std::atomic<int> g_interrupts{0};  // a signal handler can reach nothing but a global

void onInterrupt(int) {
  if (g_interrupts.fetch_add(1) > 0) _exit(130);
}

bool isTerminal() {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  return terminal;
}

}  // namespace

StopOnInterrupt::StopOnInterrupt() {
  g_interrupts = 0;
  std::signal(SIGINT, onInterrupt);
  m_watcher = std::jthread([this](std::stop_token ended) {
    while (!ended.stop_requested() && g_interrupts == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    if (g_interrupts > 0) m_source.request_stop();
  });
}

StopOnInterrupt::~StopOnInterrupt() {
  std::signal(SIGINT, SIG_DFL);
}

int runStoppable(const std::function<engine::Result<void>(std::stop_token)>& work) {
  const StopOnInterrupt interrupt;
  const auto done = work(interrupt.token());
  clearProgress();
  return done ? 0 : report(done.error());
}

void showProgress(const std::string& stage, double fraction) {
  if (!isTerminal()) return;
  std::fprintf(stderr, "\r\033[K%s %3.0f %%%s", stage.c_str(), fraction * 100,
               fraction >= 1 ? "\r\033[K" : "");
}

void clearProgress() {
  if (isTerminal()) std::fputs("\r\033[K", stderr);
}

}  // namespace vitrine::app::cli

#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "engine/base/result.h"

namespace vitrine::app::cli {

/// Asks long work to stop when Ctrl+C comes; a second one ends the program. One at a time.
class StopOnInterrupt final {
 public:
  StopOnInterrupt();
  ~StopOnInterrupt();
  std::stop_token token() const { return m_source.get_token(); }

 private:
  std::stop_source m_source;
  std::jthread m_watcher;
};

/// Runs the long work of a command with the token of a StopOnInterrupt, then takes away its line of
/// progress; the exit code, the error reported.
int runStoppable(const std::function<engine::Result<void>(std::stop_token)>& work);

/// "Evaluating 40 %" on one line of standard error that is written over, where that is a terminal.
void showProgress(const std::string& stage, double fraction);
/// Takes that line away.
void clearProgress();

}  // namespace vitrine::app::cli

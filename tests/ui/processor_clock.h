#pragma once

#include <QElapsedTimer>
#include <fstream>

namespace vitrine::test {

/// How long something took on the thread that asks, without the time for which the machine left it
/// ready to run but without a processor (which Linux counts; elsewhere nothing is taken off). So a
/// bound on what a window may take holds on a machine that does other things, too; sleeping, as on
/// a lock, counts. Begins when it is made.
class ProcessorClock final {
 public:
  ProcessorClock() { restart(); }
  void restart() {
    m_since.start();
    m_waited = waited();
  }
  double milliseconds() const { return wallMilliseconds() - (waited() - m_waited); }
  double wallMilliseconds() const { return static_cast<double>(m_since.nsecsElapsed()) / 1e6; }

 private:
  static double waited() {
    std::ifstream file("/proc/thread-self/schedstat");
    double onProcessor = 0, ready = 0;  // nanoseconds
    return file >> onProcessor >> ready ? ready / 1e6 : 0;
  }

  QElapsedTimer m_since;
  double m_waited = 0;
};

}  // namespace vitrine::test

#include <QtTest>

#include <time.h>

#include <atomic>
#include <numeric>
#include <vector>

#include "kernels/cpu/thread_pool.h"

using vitrine::kernels::cpu::ThreadPool;
using vitrine::kernels::cpu::usableCores;

namespace {

double processSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

class TestThreadPool : public QObject {
  Q_OBJECT

 private slots:
  void everyThreadRunsTheTask() {
    for (int threads : {1, 2, 5}) {
      ThreadPool pool(threads);
      QCOMPARE(pool.threads(), threads);
      for (int round = 0; round < 50; ++round) {
        pool.setActive(round % 3 != 0);
        std::vector<int> runs(static_cast<std::size_t>(threads), 0);
        pool.run([&](int thread) { ++runs[static_cast<std::size_t>(thread)]; });
        for (int count : runs) QCOMPARE(count, 1);
      }
    }
  }

  void workIsSharedOutOnce() {
    ThreadPool pool(3);
    std::vector<int> owner(1000, 0);
    pool.run([&](int) {
      for (std::int64_t first; (first = pool.claim(7)) < 1000;) {
        for (std::int64_t i = first; i < std::min<std::int64_t>(first + 7, 1000); ++i) {
          ++owner[static_cast<std::size_t>(i)];
        }
      }
    });
    for (int count : owner) QCOMPARE(count, 1);
  }

  // Plain memory, no atomics: only the barriers order it, which ThreadSanitizer checks.
  void barriersOrderPhases() {
    ThreadPool pool(4);
    std::vector<long> values(256, 1), sums(256, 0);
    pool.setActive(true);
    pool.run([&](int) {
      for (int phase = 0; phase < 100; ++phase) {
        for (std::int64_t i; (i = pool.claim(1)) < 256;) {
          sums[static_cast<std::size_t>(i)] =
              values[static_cast<std::size_t>(i)] + values[static_cast<std::size_t>((i + 1) % 256)];
        }
        pool.barrier();
        for (std::int64_t i; (i = pool.claim(16)) < 256;) {
          for (std::int64_t j = i; j < i + 16; ++j) {
            values[static_cast<std::size_t>(j)] = sums[static_cast<std::size_t>(j)] % 1000;
          }
        }
        pool.barrier();
      }
    });
    long expected = 1;
    for (int phase = 0; phase < 100; ++phase) expected = 2 * expected % 1000;
    for (long v : values) QCOMPARE(v, expected);
  }

  void idleThreadsSleep() {
    ThreadPool pool(4);
    pool.setActive(true);
    pool.run([](int) {});
    pool.setActive(false);
    QTest::qSleep(50);  // what still spins gives up within this
    const double before = processSeconds();
    QTest::qSleep(500);
    const double used = processSeconds() - before;
    QVERIFY2(used < 0.0025, qPrintable(QString("%1 s of processor time in 0.5 s").arg(used)));
  }

  void usableCoresIsSensible() {
    QVERIFY(usableCores() >= 1);
    QVERIFY(usableCores() <= static_cast<int>(std::thread::hardware_concurrency()));
  }
};

QTEST_APPLESS_MAIN(TestThreadPool)
#include "tst_thread_pool.moc"

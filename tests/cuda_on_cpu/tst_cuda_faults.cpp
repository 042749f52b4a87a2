#include <QProcess>
#include <QtTest>

#include "cuda_on_cpu/fault_kernels.h"

using namespace cuda_on_cpu;

// Kernels with one fault are found in the builds in which they can be, and their correct twins pass
// everywhere. What a sanitizer finds ends the process, so each runs in one of its own.

class TestCudaFaults : public QObject {
  Q_OBJECT

 private:
  struct Outcome {
    int status;
    QString output;
  };
  static Outcome run(const QString& name, const char* kind, int seed = -1) {
    QProcess process;
    QStringList arguments{name, kind};
    if (seed >= 0) arguments << QString::number(seed);
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(QCoreApplication::applicationDirPath() + "/cuda_fault_runner", arguments);
    if (!process.waitForFinished(120000)) return {-1, "it did not end"};
    return {process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -2,
            QString::fromUtf8(process.readAll())};
  }
  static constexpr int kSeeds = 8;
#if defined(__SANITIZE_ADDRESS__)
  static constexpr unsigned kFinders = kByReport | kByResult | kByAddress;
#elif defined(__SANITIZE_THREAD__)
  static constexpr unsigned kFinders = kByReport | kByThread;
#else
  static constexpr unsigned kFinders = kByReport | kByResult | kByGuard;
#endif

  static void addKernels() {
    QTest::addColumn<int>("index");
    for (std::size_t i = 0; i < faultKernels().size(); ++i) {
      QTest::newRow(faultKernels()[i].name) << static_cast<int>(i);
    }
  }

 private slots:
  void faultIsFound_data() {
    addKernels();
  }
  void faultIsFound() {
    QFETCH(int, index);
    const FaultKernel& kernel = faultKernels()[static_cast<std::size_t>(index)];
    if ((kernel.foundBy & kFinders) == 0) QSKIP("cannot be seen in this build");
    Outcome outcome = run(kernel.name, "faulty");
    for (int seed = 0; seed < kSeeds && outcome.status == 0; ++seed) {
      outcome = run(kernel.name, "faulty", seed);
    }
    QVERIFY2(outcome.status != 0 && outcome.status != 2, qPrintable(outcome.output));
    if ((kernel.foundBy & kByReport) != 0) {
      QVERIFY2(outcome.output.contains("fault_kernels.cu:"), qPrintable(outcome.output));
      QVERIFY2(outcome.output.contains("block ("), qPrintable(outcome.output));
    }
#if defined(__SANITIZE_ADDRESS__)
    if ((kernel.foundBy & (kByAddress | kByReport | kByResult)) == kByAddress) {
      QVERIFY2(
          outcome.output.contains("AddressSanitizer") || outcome.output.contains("runtime error"),
          qPrintable(outcome.output));
    }
#endif
#if defined(__SANITIZE_THREAD__)
    if ((kernel.foundBy & kByThread) != 0) {
      QVERIFY2(outcome.output.contains("ThreadSanitizer: data race"), qPrintable(outcome.output));
    }
#endif
  }

  void correctTwinPasses_data() {
    addKernels();
  }
  void correctTwinPasses() {
    QFETCH(int, index);
    const char* name = faultKernels()[static_cast<std::size_t>(index)].name;
    for (int seed = -1; seed < 3; ++seed) {
      const Outcome outcome = run(name, "correct", seed);
      QVERIFY2(outcome.status == 0, qPrintable(outcome.output));
    }
  }
};

QTEST_GUILESS_MAIN(TestCudaFaults)
#include "tst_cuda_faults.moc"

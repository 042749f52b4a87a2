// Distributions, what the machine has, and what it can do at most.
#include <QtTest>

#include <cmath>
#include <memory>

#include "engine/measure/distribution.h"
#include "engine/measure/machine.h"
#include "engine/measure/probes.h"

using namespace vitrine::engine;

class TestMeasure : public QObject {
  Q_OBJECT

 private slots:
  void topTokensAreSortedAndNormalized() {
    // Shares 1/10, 4/10, 1/10, 4/10: equal ones go to the smaller id.
    std::vector<float> logits;
    for (double share : {0.1, 0.4, 0.1, 0.4}) {
      logits.push_back(static_cast<float>(std::log(share)) + 50.0F);
    }
    const auto top = topTokens(logits, 3);
    QCOMPARE(top.size(), std::size_t{3});
    QCOMPARE(top[0].id, 1);
    QCOMPARE(top[1].id, 3);
    QCOMPARE(top[2].id, 0);
    QVERIFY(std::fabs(top[0].logprob - std::log(0.4)) < 1e-5);
    QVERIFY(std::fabs(top[2].logprob - std::log(0.1)) < 1e-5);
    QCOMPARE(topTokens(logits, 9).size(), std::size_t{4});
    QVERIFY(topTokens(logits, 0).empty());
    QCOMPARE(bestToken(logits), 1);
  }

  void divergenceIsTheFormula() {
    const std::vector<double> p{0.5, 0.25, 0.25};
    const std::vector<double> q{0.25, 0.25, 0.5};
    std::vector<float> a, b;
    double wanted = 0.0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      a.push_back(static_cast<float>(std::log(p[i])) + 3.0F);
      b.push_back(static_cast<float>(std::log(q[i])) - 7.0F);
      wanted += p[i] * std::log(p[i] / q[i]);
    }
    const RowComparison row = compareRows(a, b);
    QVERIFY2(std::fabs(row.divergence - wanted) < 1e-6,
             qPrintable(QString::number(row.divergence)));
    QVERIFY(!row.sameBest);
    const RowComparison same = compareRows(a, a);
    QCOMPARE(same.divergence, 0.0);
    QVERIFY(same.sameBest);
  }

  void largeLogitsDoNotOverflow() {
    const std::vector<float> logits{3e4F, 3e4F, -3e4F};
    QVERIFY(std::fabs(logSumExp(logits) - (3e4 + std::log(2.0))) < 1e-6);
  }

  void residentMemoryGrowsWithWhatIsWritten() {
    const std::uint64_t before = residentBytes();
    QVERIFY(before > 1U << 20);
    constexpr std::size_t kBytes = std::size_t{64} << 20;
    const auto block = std::make_unique<char[]>(kBytes);  // written: zeros
    const std::uint64_t after = residentBytes();
    QVERIFY(after >= before + kBytes * 9 / 10);
    QVERIFY(peakResidentBytes() >= after);  // asked later, so never less
    QCOMPARE(block[kBytes - 1], '\0');
  }

  void machineIsDescribed() {
    QVERIFY(!processorName().empty());
    QVERIFY(totalMemoryBytes() >= availableMemoryBytes());
    QVERIFY(availableMemoryBytes() > 0);
  }

  void probesGivePossibleNumbers() {
    const double bandwidth = probeReadBandwidth(2, std::uint64_t{64} << 20, 2);
    QVERIFY2(bandwidth > 1e8 && bandwidth < 1e13, qPrintable(QString::number(bandwidth)));
    for (const PeakRate& peak : {probeInt8Peak(1), probeBf16Peak(1)}) {
      const double rate = peak.operationsPerSecond;
      QVERIFY2(rate > 1e8 && rate < 1e13, qPrintable(QString::number(rate)));
      QVERIFY(!peak.instruction.empty());
      qInfo("%s: %.1f G operations/s", peak.instruction.c_str(), rate / 1e9);
    }
    qInfo("read bandwidth of a 64 MiB buffer: %.1f GB/s", bandwidth / 1e9);
  }
};

QTEST_APPLESS_MAIN(TestMeasure)
#include "tst_measure.moc"

// The best tokens of a row, as a sort would give them; soft caps.
#include <QtTest>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/cuda/logits.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/cuda_ops.h"
#include "tests/kernels/random_data.h"

using namespace vitrine::test;
namespace cuda = vitrine::kernels::cuda;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<cuda::Candidate> bestOnDevice(const Floats& logits, int rows, int vocab, int k) {
  const auto input = onDevice(logits);
  const auto out = filled<cuda::Candidate>(static_cast<std::size_t>(rows) * k);
  const auto scratch = filled<std::byte>(cuda::bestTokensScratchBytes(rows, vocab, k));
  cuda::bestTokens(testStream(), input.data(), rows, vocab, k, out.data(), scratch.data());
  return toHost(out);
}

std::vector<cuda::Candidate> bestBySorting(const Floats& logits, int rows, int vocab, int k) {
  std::vector<cuda::Candidate> result;
  for (int r = 0; r < rows; ++r) {
    std::vector<cuda::Candidate> all;
    for (int i = 0; i < vocab; ++i) {
      const float logit = logits[static_cast<std::size_t>(r) * vocab + i];
      all.push_back({std::isnan(logit) ? -kInfinity : logit, i});
    }
    std::partial_sort(all.begin(), all.begin() + k, all.end(), [](const auto& a, const auto& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    });
    result.insert(result.end(), all.begin(), all.begin() + k);
  }
  return result;
}

void checkBest(const Floats& logits, int rows, int vocab, int k) {
  const auto got = bestOnDevice(logits, rows, vocab, k);
  const auto wanted = bestBySorting(logits, rows, vocab, k);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    QVERIFY2(got[i].id == wanted[i].id && got[i].logit == wanted[i].logit,
             qPrintable(QString("k %1, place %2: got token %3 (%4), wanted %5 (%6)")
                            .arg(k)
                            .arg(i)
                            .arg(got[i].id)
                            .arg(got[i].logit)
                            .arg(wanted[i].id)
                            .arg(wanted[i].logit)));
  }
}

enum Kind { kNormal, kTies, kRising, kFalling, kEqual, kMasked, kBroken, kZeros };
constexpr const char* kKinds[] = {"normal", "ties",   "rising", "falling",
                                  "equal",  "masked", "broken", "zeros"};

Floats logitsOf(Kind kind, int rows, int vocab) {
  Random random(static_cast<std::uint64_t>(vocab));
  Floats x = random.normals(static_cast<std::size_t>(rows) * vocab, 8.0F);
  for (std::size_t i = 0; i < x.size(); ++i) {
    switch (kind) {
      case kNormal:
        break;
      case kTies:
        x[i] = std::round(x[i]);
        break;
      case kRising:
        x[i] = static_cast<float>(i);
        break;
      case kFalling:
        x[i] = -static_cast<float>(i);
        break;
      case kEqual:
        x[i] = -1.5F;
        break;
      case kMasked:
        x[i] = random.below(200) == 0 ? x[i] : -kInfinity;
        break;
      case kBroken:
        x[i] = random.below(3) == 0 ? kNan : random.below(99) == 0 ? kInfinity : x[i];
        break;
      case kZeros:
        x[i] = random.below(2) == 0 ? -0.0F : 0.0F;
        break;
    }
  }
  return x;
}

}  // namespace

class TestCudaLogits : public QObject {
  Q_OBJECT

 private slots:
  void bestTokens_data() {
    QTest::addColumn<int>("kind");
    QTest::addColumn<int>("vocab");
    for (int kind = kNormal; kind <= kZeros; ++kind) {
      for (int vocab : {1, 3, 64, 65, 1000, 4096, 4097, 12289}) {
        QTest::addRow("%s %d", kKinds[kind], vocab) << kind << vocab;
      }
    }
  }
  void bestTokens() {
    QFETCH(int, kind);
    QFETCH(int, vocab);
    const int rows = vocab > 5000 ? 2 : 3;
    const Floats logits = logitsOf(static_cast<Kind>(kind), rows, vocab);
    for (int k : {1, 2, 7, 63, 64}) {
      const bool small = vocab <= 65;
      if (k <= vocab && (small || (k != 2 && k != 63))) checkBest(logits, rows, vocab, k);
    }
  }

  void bigVocabularies_data() {
    QTest::addColumn<int>("vocab");
    // The last needs a third level for 64 candidates.
    for (int vocab : {49152, 151936, 262209, 300001}) {
      QTest::addRow("%d", vocab) << vocab;
    }
  }
  void bigVocabularies() {
    QFETCH(int, vocab);
    const Floats logits = logitsOf(kNormal, 1, vocab);
    for (int k : {1, 64}) checkBest(logits, 1, vocab, k);
    Floats ends(static_cast<std::size_t>(vocab), kNan);
    ends.back() = -7.0F;
    checkBest(ends, 1, vocab, 1);
    if (vocab < 50000) checkBest(ends, 1, vocab, 20);
  }

  void nothingButNan() {
    const Floats logits(5000, kNan);
    const auto best = bestOnDevice(logits, 1, 5000, 3);
    for (int i = 0; i < 3; ++i) {
      QCOMPARE(best[i].id, i);
      QCOMPARE(best[i].logit, -kInfinity);
    }
    QCOMPARE(bestOnDevice(logits, 1, 5000, 1).front().id, 0);
  }

  void tooManyCandidatesAreRefused() {
    const Floats logits(100, 0.0F);
    QVERIFY_EXCEPTION_THROWN(bestOnDevice(logits, 1, 100, 65), cuda::CudaError);
    QVERIFY_EXCEPTION_THROWN(bestOnDevice(logits, 2, 50, 51), cuda::CudaError);
    QVERIFY_EXCEPTION_THROWN(bestOnDevice(logits, 2, 50, 0), cuda::CudaError);
  }

  void softcap() {
    Random random(4);
    for (std::size_t n : {1U, 3U, 4U, 1023U, 1024U, 4099U}) {
      Floats x = random.normals(n, 60.0F);
      x[0] = 1e30F;
      const auto device = onDevice(x);
      cuda::softcap(testStream(), device.data(), n, 30.0F);
      const Floats got = toHost(device);
      vitrine::kernels::reference::softcap(x.data(), 30.0F, n);
      for (std::size_t i = 0; i < n; ++i) {
        QVERIFY(std::fabs(got[i] - x[i]) <= 1e-6F * (1.0F + std::fabs(x[i])));
      }
    }
  }
};

QTEST_APPLESS_MAIN(TestCudaLogits)
#include "tst_cuda_logits.moc"

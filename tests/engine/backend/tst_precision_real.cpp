// INT8 forms on the real model: the cpu backend against the reference in the same form, and
// against itself on every way to an answer.
#include <QtTest>

#include <cstring>

#include "engine/measure/distribution.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/cpu/isa.h"
#include "tests/engine/backend/precision_modes.h"
#include "tests/test_model.h"

using namespace vitrine::engine;
using namespace vitrine::test;
namespace cpu = vitrine::kernels::cpu;

namespace {

constexpr const char* kCalibrationText =
    "A kettle, a map and three wool blankets were all they carried over the pass. By noon the snow "
    "had turned to rain; the guide said that the bridge below the mill would not last until "
    "evening. They walked faster. In the valley somebody had lit a fire, and the smoke stood "
    "straight up in the still air like a pillar in an empty hall.";
constexpr const char* kText =
    "The history of the lighthouse begins long before electric lamps. Keepers climbed the stairs "
    "every evening, trimmed the wicks and wrote down the weather: wind, fog, passing ships.";
constexpr int kTokens = 32;
constexpr float kThreshold = 6.0F;

struct Distance {
  double mean = 0.0;
  int sameBest = 0;
};
Distance distance(std::span<const float> a, std::span<const float> b) {
  Distance d;
  const std::size_t vocab = a.size() / kTokens;
  for (std::size_t r = 0; r < kTokens; ++r) {
    const RowComparison c = compareRows(a.subspan(r * vocab, vocab), b.subspan(r * vocab, vocab));
    d.mean += c.divergence / kTokens;
    d.sameBest += c.sameBest ? 1 : 0;
  }
  return d;
}

}  // namespace

class TestPrecisionReal : public QObject {
  Q_OBJECT

  std::shared_ptr<const Model> m_model;
  std::vector<TokenId> m_tokens;
  CalibrationPtr m_profile;
  std::vector<float> m_exact;

  WeightPrecision find(const char* name) const {
    for (PrecisionMode& mode : precisionModes(m_profile, kThreshold)) {
      if (mode.name == name) return mode.precision;
    }
    qFatal("there is no mode %s", name);
  }
  std::vector<float> answer(BackendKind kind, const WeightPrecision& precision) const {
    const auto backend = makeBackend(kind, m_model, precision);
    configureCache(*backend, *m_model, KvType::kFp16, 2);
    return forward(*backend, m_tokens, 0, blocks(2), kTokens);
  }

 private slots:
  void initTestCase() {
    QVERIFY2(haveTestModel(), missingModelMessage().c_str());
    m_model = valueOf(Model::load(testModelPath()));
    auto tokens = m_model->tokenizer().encode(kText);
    m_tokens.assign(tokens.begin(), tokens.begin() + kTokens);
    tokens = m_model->tokenizer().encode(kCalibrationText);
    const auto plain = makeBackend(BackendKind::kCpu, m_model);
    m_profile = calibrationOf(*plain, *m_model, {tokens.begin(), tokens.end()});
    m_exact = answer(BackendKind::kReference, {});
  }

  void answersAreThoseOfTheReference_data() {
    QTest::addColumn<double>("most");  // KL to the reference without INT8
    QTest::newRow("W8A16 groups of 128") << 0.01;
    QTest::newRow("W8A16 per channel") << 0.05;
    QTest::newRow("W8A8 groups of 32") << 0.02;
    QTest::newRow("W8A8 per channel") << 0.2;
    QTest::newRow("W8A8 static per tensor") << 5.0;
    QTest::newRow("W8A8 mixed per channel") << 0.1;
    QTest::newRow("W8A8 smooth per channel, some kept") << 0.2;
    QTest::newRow("native, keys per channel") << 1e-3;
  }
  void answersAreThoseOfTheReference() {
    QFETCH(double, most);
    const WeightPrecision precision = find(QTest::currentDataTag());
    const auto wanted = answer(BackendKind::kReference, precision);
    const auto got = answer(BackendKind::kCpu, precision);
    const Distance loss = distance(m_exact, wanted);
    const Distance apart = distance(wanted, got);
    qInfo(
        "KL %.2e to the reference, which has %.2e to the model without INT8 (best token %d, %d "
        "of %d)",
        apart.mean, loss.mean, apart.sameBest, loss.sameBest, kTokens);
    QVERIFY2(loss.mean <= most, qPrintable(QString::number(loss.mean)));
    QVERIFY2(distance(m_exact, got).mean <= most, "the cpu backend loses more");
    // One value of INT8 that rounds the other way changes all that follow it through 30 layers:
    // then the two are as far from each other as from the exact one. Without INT8 activations
    // nothing can.
    const bool integers = precision.activations == ActivationMode::kInt8;
    QVERIFY2(apart.mean <= (integers ? 1.5 * loss.mean : 1e-5),
             qPrintable(QString::number(apart.mean)));
  }

  void bitsDoNotDependOnTheWay_data() {
    QTest::addColumn<QByteArray>("isa");
    QTest::addColumn<QString>("mode");
    const auto row = [](const char* isa, const char* mode) {
      QTest::addRow("%s, %s", isa, mode) << QByteArray(isa) << QString(mode);
    };
    row("avx512", "W8A8 per channel");
    row("avx512", "W8A8 mixed static per channel");
    row("avx512", "W8A8 smooth per channel, some kept");
    row("avx512", "W8A16 per tensor");
    row("avx2", "W8A8 mixed static per channel");
    row("portable", "W8A8 mixed static per channel");
  }
  void bitsDoNotDependOnTheWay() {
    QFETCH(QByteArray, isa);
    QFETCH(QString, mode);
    for (cpu::Isa one : {cpu::Isa::kAvx512, cpu::Isa::kAvx2}) {
      if (isa == cpu::shortName(one) && !cpu::isSupported(one)) {
        QSKIP("this processor does not have the instructions");
      }
    }
    qputenv("VITRINE_ISA", isa);
    const WeightPrecision precision = find(mode.toUtf8().constData());
    const int n = isa == "avx512" ? 300 : kTokens;  // beyond one pass of 256 rows
    std::vector<TokenId> tokens;
    for (int i = 0; i < n; ++i) tokens.push_back(m_tokens[(i * 7 + i / 50) % kTokens]);
    const int size = (n + 15) / 16;
    const auto two = makeBackend(BackendKind::kCpu, m_model, precision, 2);
    const auto alone = makeBackend(BackendKind::kCpu, m_model, precision, 1);
    qunsetenv("VITRINE_ISA");
    configureCache(*two, *m_model, KvType::kInt8, size);
    configureCache(*alone, *m_model, KvType::kInt8, 2 * size);
    const auto whole = forward(*two, tokens, 0, blocks(size), 5);
    std::vector<float> joined;
    const auto table = blocks(size, 2 * size - 1, -2);
    forward(*alone, std::span(tokens).first(n - 8), 0, table, 0);
    for (const auto& [at, count, rows] :
         {std::tuple{8, 3, 0}, {5, 2, 2}, {3, 1, 1}, {2, 1, 1}, {1, 1, 1}}) {
      const auto part =
          forward(*alone, std::span(tokens).subspan(n - at, count), n - at, table, rows);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    QCOMPARE(joined.size(), whole.size());
    QVERIFY(std::memcmp(joined.data(), whole.data(), whole.size() * sizeof(float)) == 0);
  }
};

QTEST_APPLESS_MAIN(TestPrecisionReal)
#include "tst_precision_real.moc"

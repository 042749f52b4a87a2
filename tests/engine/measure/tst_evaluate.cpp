// Perplexity and divergence against sums made here from one forward pass a window.
#include <QtTest>

#include <cmath>

#include "engine/measure/distribution.h"
#include "engine/measure/evaluate.h"
#include "tests/engine/backend/backend_fixture.h"

using namespace vitrine::engine;
using namespace vitrine::test;

class TestEvaluate : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    TinyModelOptions options;
    options.contextLength = 128;
    m_model = loadModel(randomModel(options));
    m_exact = makeBackend(BackendKind::kReference, m_model);
    WeightPrecision int8;
    int8.weights = WeightMode::kInt8;
    m_int8 = makeBackend(BackendKind::kReference, m_model, int8);
  }

  void perplexityIsTheSumOfLogarithms_data() {
    QTest::addColumn<int>("tokens");
    QTest::addColumn<int>("context");
    QTest::addColumn<int>("scored");
    QTest::newRow("three windows, a rest left out") << 100 << 32 << 3 * 16;
    QTest::newRow("one window exactly") << 32 << 32 << 16;
    QTest::newRow("shorter than a window") << 20 << 32 << 19;
    QTest::newRow("odd window") << 33 << 11 << 3 * 6;
    QTest::newRow("smallest") << 2 << 2 << 1;
  }
  void perplexityIsTheSumOfLogarithms() {
    QFETCH(int, tokens);
    QFETCH(int, context);
    QFETCH(int, scored);
    const auto text = someTokens(tokens, 3);
    const int window = std::min(tokens, context);
    const int first = tokens < context ? 1 : std::max(window / 2, 1);
    const auto vocab = static_cast<std::size_t>(m_model->config().vocabSize);
    double sum = 0.0, referenceSum = 0.0, divergence = 0.0;
    int count = 0, same = 0;
    for (int begin = 0; begin + window <= tokens; begin += window) {
      const auto part = std::span(text).subspan(static_cast<std::size_t>(begin),
                                                static_cast<std::size_t>(window));
      configureCache(*m_exact, *m_model, KvType::kFp16, 3);
      configureCache(*m_int8, *m_model, KvType::kFp16, 3);
      const auto exact = forward(*m_exact, part, 0, blocks(3), window);
      const auto rounded = forward(*m_int8, part, 0, blocks(3), window);
      for (int i = first; i < window; ++i, ++count) {
        const std::span<const float> p(exact.data() + (i - 1) * vocab, vocab);
        const std::span<const float> q(rounded.data() + (i - 1) * vocab, vocab);
        sum -= q[part[i]] - logSumExp(q);
        referenceSum -= p[part[i]] - logSumExp(p);
        double kl = 0.0;
        for (std::size_t t = 0; t < vocab; ++t) {
          const double logp = p[t] - logSumExp(p);
          kl += std::exp(logp) * (logp - (q[t] - logSumExp(q)));
        }
        divergence += kl;
        same += bestToken(p) == bestToken(q) ? 1 : 0;
      }
    }
    QCOMPARE(count, scored);
    EvaluationOptions options;
    options.context = context;
    for (int chunk : {5, 128}) {
      options.chunk = chunk;
      const auto report =
          valueOf(evaluate(*m_int8, m_exact.get(), m_model->config(), text, options));
      QCOMPARE(report.tokens, scored);
      QVERIFY(near(report.perplexity, std::exp(sum / count)));
      QVERIFY(near(report.referencePerplexity, std::exp(referenceSum / count)));
      QVERIFY2(near(report.klMean, divergence / count), qPrintable(QString::number(report.klMean)));
      QVERIFY(report.klMean > 0.0 && report.klP99 >= report.klMean);
      QVERIFY(near(report.top1Agreement, static_cast<double>(same) / count));
    }
  }

  void sameBackendAgreesWithItself() {
    const auto other = makeBackend(BackendKind::kReference, m_model);
    EvaluationOptions options;
    options.context = 48;
    const auto report =
        valueOf(evaluate(*other, m_exact.get(), m_model->config(), someTokens(96, 4), options));
    QCOMPARE(report.klMean, 0.0);
    QCOMPARE(report.klP99, 0.0);
    QCOMPARE(report.top1Agreement, 1.0);
    QCOMPARE(report.perplexity, report.referencePerplexity);
  }

  void int8KvIsSeen() {
    const auto other = makeBackend(BackendKind::kReference, m_model);
    EvaluationOptions options;
    options.context = 64;
    options.kv = KvType::kInt8;
    const auto report =
        valueOf(evaluate(*other, m_exact.get(), m_model->config(), someTokens(64, 5), options));
    QVERIFY(report.klMean > 0.0);
    QVERIFY2(report.klMean < 1e-2, qPrintable(QString::number(report.klMean)));
  }

  void windowsStartWithBosWhereTheModelWantsIt() {
    auto text = someTokens(64, 6);
    EvaluationOptions options;
    options.context = 32;
    options.bos = 1;
    const auto report = valueOf(evaluate(*m_exact, nullptr, m_model->config(), text, options));
    text[0] = text[32] = 1;
    options.bos.reset();
    const auto wanted = valueOf(evaluate(*m_exact, nullptr, m_model->config(), text, options));
    QCOMPARE(report.perplexity, wanted.perplexity);
  }

  void nonsenseIsRefused() {
    const auto code = [&](int tokens, int context) {
      EvaluationOptions options;
      options.context = context;
      const auto result =
          evaluate(*m_exact, nullptr, m_model->config(), someTokens(tokens, 7), options);
      return result ? ErrorCode::kInternal : result.error().code;
    };
    QCOMPARE(code(0, 32), ErrorCode::kInvalidArgument);
    QCOMPARE(code(1, 32), ErrorCode::kInvalidArgument);
    QCOMPARE(code(50, 1), ErrorCode::kInvalidArgument);
    QCOMPARE(code(50, 0), ErrorCode::kInvalidArgument);
    QCOMPARE(code(50, 129), ErrorCode::kInvalidArgument);
    std::stop_source source;
    source.request_stop();
    const auto stopped = evaluate(*m_exact, nullptr, m_model->config(), someTokens(50, 7),
                                  {.context = 32}, {}, source.get_token());
    QVERIFY(!stopped);
    QCOMPARE(stopped.error().code, ErrorCode::kCancelled);
  }

  void nextTokenLogitsAreTheLastRow() {
    const auto text = someTokens(50, 8);
    configureCache(*m_exact, *m_model, KvType::kFp16, 4);
    const auto wanted = forward(*m_exact, text, 0, blocks(4));
    QCOMPARE(valueOf(nextTokenLogits(*m_exact, m_model->config(), text)), wanted);
    QCOMPARE(valueOf(nextTokenLogits(*m_exact, m_model->config(), text, KvType::kFp16, 7)), wanted);
    QVERIFY(!nextTokenLogits(*m_exact, m_model->config(), {}));
    QVERIFY(!nextTokenLogits(*m_exact, m_model->config(), someTokens(129, 1)));
  }

 private:
  static bool near(double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b) + 1e-9; }

  std::shared_ptr<const Model> m_model;
  std::unique_ptr<Backend> m_exact, m_int8;
};

QTEST_APPLESS_MAIN(TestEvaluate)
#include "tst_evaluate.moc"

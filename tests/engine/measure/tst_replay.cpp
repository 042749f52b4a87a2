// A conversation read by two backends, against one forward pass of each made here.
#include <QtTest>

#include "engine/measure/distribution.h"
#include "engine/measure/replay.h"
#include "tests/engine/backend/backend_fixture.h"

using namespace vitrine::engine;
using namespace vitrine::test;

class TestReplay : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    TinyModelOptions options;
    options.contextLength = 256;
    m_model = loadModel(randomModel(options));
    m_exact = makeBackend(BackendKind::kCpu, m_model);
    WeightPrecision int8;
    int8.weights = WeightMode::kInt8;
    int8.activations = ActivationMode::kInt8;
    m_int8 = makeBackend(BackendKind::kCpu, m_model, int8);
    m_text = someTokens(150, 5);
  }

  void eachTokenIsWhatBothThoughtOfIt() {
    const std::vector<TokenRange> scored = {{0, 10}, {40, 90}, {120, 150}};
    const auto report = valueOf(replay({{{m_exact.get(), KvType::kFp16}, {m_int8.get()}}},
                                       m_model->config(), m_text, scored));
    QCOMPARE(report.tokens.size(), m_text.size());
    QCOMPARE(report.scoredTokens, 9 + 50 + 30);  // the first of all cannot be predicted
    const auto vocab = static_cast<std::size_t>(m_model->config().vocabSize);
    const auto rowsOf = [&](Backend& backend) {
      configureCache(backend, *m_model, KvType::kFp16, 10);
      return forward(backend, m_text, 0, blocks(10), static_cast<int>(m_text.size()));
    };
    const auto a = rowsOf(*m_exact), b = rowsOf(*m_int8);
    double sum = 0;
    int same = 0, first = -1;
    for (std::size_t i = 0; i < m_text.size(); ++i) {
      const ReplayToken& token = report.tokens[i];
      QCOMPARE(token.id, m_text[i]);
      const bool wanted = (i >= 1 && i < 10) || (i >= 40 && i < 90) || i >= 120;
      QCOMPARE(token.scored, wanted);
      if (!wanted) continue;
      const std::span<const float> p(a.data() + (i - 1) * vocab, vocab);
      const std::span<const float> q(b.data() + (i - 1) * vocab, vocab);
      QCOMPARE(token.best[0], bestToken(p));
      QCOMPARE(token.best[1], bestToken(q));
      const auto id = static_cast<std::size_t>(m_text[i]);
      QCOMPARE(token.logprob[1], static_cast<float>(q[id] - logSumExp(q)));
      QCOMPARE(token.divergence, static_cast<float>(compareRows(p, q).divergence));
      sum += token.divergence;
      if (token.best[0] == token.best[1]) {
        ++same;
      } else if (first < 0) {
        first = static_cast<int>(i);
      }
    }
    QVERIFY(std::fabs(report.klMean - sum / report.scoredTokens) < 1e-9);
    QCOMPARE(report.top1Agreement, static_cast<double>(same) / report.scoredTokens);
    QCOMPARE(report.firstDivergence, first);
    QVERIFY(report.klMean > 0);
    QVERIFY(report.klP99 >= report.klMean);
  }

  void sidesTellTheirMemoryAndSpeed() {
    const std::vector<TokenRange> scored = {{100, 150}};
    const auto report =
        valueOf(replay({{{m_exact.get(), KvType::kFp16}, {m_int8.get(), KvType::kInt8}}},
                       m_model->config(), m_text, scored));
    const auto& [fp16, int8] = report.sides;
    QVERIFY(int8.weightBytes < fp16.weightBytes);
    QVERIFY(int8.kvBytes < fp16.kvBytes);
    QCOMPARE(fp16.kvBytes, kvBytesPerBlock(m_model->config(),
                                           {KvType::kFp16, 16, 10, m_model->config().nKvHeads}) *
                               10);
    for (const auto& side : report.sides) {
      QVERIFY(side.perplexity > 1);
      QVERIFY(side.prefillMs > 0);
      QVERIFY(side.decodeTps > 0);
    }
  }

  void aBackendAgreesWithItself() {
    const auto other = makeBackend(BackendKind::kCpu, m_model);
    const std::vector<TokenRange> scored = {{1, 150}};
    const auto report =
        valueOf(replay({{{m_exact.get()}, {other.get()}}}, m_model->config(), m_text, scored));
    QCOMPARE(report.firstDivergence, -1);
    QCOMPARE(report.klMean, 0.0);
    QCOMPARE(report.top1Agreement, 1.0);
    QCOMPARE(report.sides[0].perplexity, report.sides[1].perplexity);
  }

  // The shortest conversation still has something to time.
  void twoTokensAreEnough() {
    const std::vector<TokenRange> scored = {{1, 2}};
    const auto report = valueOf(replay({{{m_exact.get()}, {m_int8.get()}}}, m_model->config(),
                                       std::span(m_text).first(2), scored));
    QCOMPARE(report.scoredTokens, 1);
    QVERIFY(report.sides[1].decodeTps > 0);
  }

  void nonsenseIsRefused() {
    const auto code = [&](int tokens, std::vector<TokenRange> scored) {
      const auto result = replay({{{m_exact.get()}, {m_int8.get()}}}, m_model->config(),
                                 someTokens(tokens, 5), scored);
      return result ? ErrorCode::kInternal : result.error().code;
    };
    QCOMPARE(code(50, {}), ErrorCode::kInvalidArgument);
    QCOMPARE(code(50, {{0, 1}}), ErrorCode::kInvalidArgument);
    QCOMPARE(code(50, {{60, 70}}), ErrorCode::kInvalidArgument);
    QCOMPARE(code(1, {{0, 1}}), ErrorCode::kInvalidArgument);
    QCOMPARE(code(257, {{0, 257}}), ErrorCode::kInvalidArgument);
  }

  void itStopsWithinAStep() {
    std::stop_source source;
    int calls = 0;
    const std::vector<TokenRange> scored = {{1, 150}};
    const auto result = replay(
        {{{m_exact.get()}, {m_int8.get()}}}, m_model->config(), m_text, scored,
        [&](const std::string&, double) {
          if (++calls == 2) source.request_stop();
        },
        source.get_token());
    QVERIFY(!result);
    QCOMPARE(result.error().code, ErrorCode::kCancelled);
    QCOMPARE(calls, 2);
  }

 private:
  std::shared_ptr<const Model> m_model;
  std::unique_ptr<Backend> m_exact, m_int8;
  std::vector<TokenId> m_text;
};

QTEST_APPLESS_MAIN(TestReplay)
#include "tst_replay.moc"

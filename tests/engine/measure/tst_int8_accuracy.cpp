// What INT8 costs on the real model, over a page of text: weights, weights and activations, KV.
#include <QtTest>

#include "engine/measure/distribution.h"
#include "engine/measure/evaluate.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/backend/backend_fixture.h"
#include "tests/test_model.h"

using namespace vitrine::engine;
using namespace vitrine::test;

namespace {

// Threads that wait for each other are slow where other programs keep the cores busy, as on a
// machine that runs tests side by side; the numbers are the same bits for any count.
constexpr int kThreads = 1;

constexpr const char* kPage =
    "A lighthouse is a simple idea that took two thousand years to get right. The first ones were "
    "fires on a hill, and the people who tended them were paid in oil and grain. A fire is easy to "
    "see on a clear night and useless in fog, so keepers learned to add bells, then horns, and "
    "much "
    "later radio. The light itself changed slowly. Oil lamps with flat wicks smoked and blackened "
    "the glass; a round wick with air drawn through the middle burned brighter and cleaner, and a "
    "curved mirror behind it sent most of the light out to sea.\n\n"
    "The largest step was made by an engineer who had never kept a lamp. He saw that a thick lens "
    "works because of its curved surface alone, and that the glass inside does nothing but absorb "
    "light. If the lens is cut into rings and each ring is moved back, the surface stays and most "
    "of "
    "the glass is gone. A lens taller than a man could now be carried up a tower in pieces. It "
    "gathered nearly all of the flame into one beam, and sailors who had counted on seeing a light "
    "at ten miles could see it at twenty.\n\n"
    "Once every coast had lights, the difficulty was to tell them apart. The answer was time: one "
    "tower showed a flash every five seconds, the next a pair of flashes every fifteen, and a "
    "ship's "
    "mate with a watch and a printed list knew where he was. To turn a lens of three tons evenly, "
    "builders floated it on a ring of mercury, so that a child could move it with one finger. "
    "Clockwork driven by a falling weight did the rest, and the keeper wound it up again every two "
    "hours through the night, in winter fourteen times. Some families did this for three "
    "generations, and their logs, which record the weather and every passing sail, are still read "
    "by people who study the climate of a century in which nobody else was writing it down.\n";

}  // namespace

class TestInt8Accuracy : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY2(haveTestModel(), missingModelMessage().c_str());
    m_model = valueOf(Model::load(testModelPath()));
    m_text = m_model->tokenizer().encode(kPage);
    QVERIFY(m_text.size() > 350);
    m_exact = makeBackend(BackendKind::kCpu, m_model, {}, kThreads);
  }

  void aPageOfText_data() {
    QTest::addColumn<bool>("int8Weights");
    QTest::addColumn<bool>("int8Activations");
    QTest::addColumn<bool>("int8Kv");
    QTest::addColumn<int>("groupSize");
    QTest::addColumn<double>("worsePerplexity");  // share, at most
    QTest::addColumn<double>("meanDivergence");   // at most
    QTest::newRow("weights, group 32") << true << false << false << 32 << 0.01 << 5e-3;
    QTest::newRow("weights, group 64") << true << false << false << 64 << 0.01 << 8e-3;
    QTest::newRow("weights and activations") << true << true << false << 32 << 0.01 << 1e-2;
    QTest::newRow("KV") << false << false << true << 32 << 0.005 << 2e-3;
  }
  void aPageOfText() {
    QFETCH(bool, int8Weights);
    QFETCH(bool, int8Activations);
    QFETCH(bool, int8Kv);
    QFETCH(int, groupSize);
    QFETCH(double, worsePerplexity);
    QFETCH(double, meanDivergence);
    WeightPrecision precision;
    precision.weights = int8Weights ? WeightMode::kInt8 : WeightMode::kNative;
    precision.activations = int8Activations ? ActivationMode::kInt8 : ActivationMode::kFp16;
    precision.groupSize = groupSize;
    const auto backend = makeBackend(BackendKind::kCpu, m_model, precision, kThreads);
    EvaluationOptions options;
    options.context = static_cast<int>(m_text.size()) + 1;  // one window, scored from its start
    options.kv = int8Kv ? KvType::kInt8 : KvType::kFp16;
    const auto report =
        valueOf(evaluate(*backend, m_exact.get(), m_model->config(), m_text, options));
    const double worse = report.perplexity / report.referencePerplexity - 1.0;
    qInfo(
        "%lld tokens: perplexity %.4f against %.4f (%+.2f %%), KL mean %.2e, p99 %.2e, best token "
        "agrees at %.1f %%",
        static_cast<long long>(report.tokens), report.perplexity, report.referencePerplexity,
        100 * worse, report.klMean, report.klP99, 100 * report.top1Agreement);
    QVERIFY2(worse <= worsePerplexity, qPrintable(QString::number(worse)));
    QVERIFY2(report.klMean <= meanDivergence, qPrintable(QString::number(report.klMean)));
    QVERIFY(report.klMean > 1e-7);  // INT8 was really used
    QVERIFY(report.top1Agreement >= 0.93);
  }

  void firstGreedyTokensAreMostlyEqual() {
    WeightPrecision int8;
    int8.weights = WeightMode::kInt8;
    const auto backend = makeBackend(BackendKind::kCpu, m_model, int8, kThreads);
    const auto prompt = m_model->tokenizer().encodeWithControlTokens(
        "<|im_start|>user\nWhat is a lighthouse?<|im_end|>\n<|im_start|>assistant\n");
    const auto wanted = greedy(*m_exact, prompt, 20);
    const auto got = greedy(*backend, prompt, 20);
    int equal = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) equal += wanted[i] == got[i] ? 1 : 0;
    qInfo("%d of 20 greedy tokens are equal", equal);
    QVERIFY(equal >= 12);
  }

 private:
  std::vector<TokenId> greedy(Backend& backend, std::vector<TokenId> tokens, int count) {
    configureCache(backend, *m_model, KvType::kFp16, 8);
    const std::size_t first = tokens.size();
    std::size_t done = 0;
    for (int i = 0; i < count; ++i) {
      const auto logits =
          forward(backend, std::span(tokens).subspan(done), static_cast<int>(done), blocks(8));
      done = tokens.size();
      tokens.push_back(bestToken(logits));
    }
    return {tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end()};
  }

  std::shared_ptr<const Model> m_model;
  std::vector<TokenId> m_text;
  std::unique_ptr<Backend> m_exact;
};

QTEST_APPLESS_MAIN(TestInt8Accuracy)
#include "tst_int8_accuracy.moc"

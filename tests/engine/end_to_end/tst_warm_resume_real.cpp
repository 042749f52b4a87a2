#include <QTemporaryDir>
#include <QtTest>

#include <random>

#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/engine_harness.h"
#include "tests/test_model.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;
using namespace vitrine::test;

/// SmolLM2-135M with a prompt of 4,096 tokens: what coming back from disk saves.
class TestWarmResumeReal : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { QVERIFY2(haveTestModel(), missingModelMessage().c_str()); }

  void restoringIsTwentyTimesFasterThanPrefill_data() {
    QTest::addColumn<bool>("int8");
    QTest::newRow("KV fp16") << false;
    QTest::newRow("KV int8") << true;
  }
  void restoringIsTwentyTimesFasterThanPrefill() {
    QFETCH(bool, int8);
    constexpr int kTokens = 4096;
    QTemporaryDir dir;
    EngineConfig config;
    config.cache.type = int8 ? KvType::kInt8 : KvType::kFp16;
    config.archive.folder = dir.path().toStdString() + "/kv";

    GenerateRequest request;
    TurnReport cold;
    {
      EngineHarness h;
      QVERIFY(h.load(testModelPath(), config).info);
      request = question(*h.engine.model(), kTokens);
      cold = h.ask(request).report.value();
      QCOMPARE(cold.promptTokens, kTokens + 1);
      QCOMPARE(cold.reusedTokens, 0);
    }
    EngineHarness h;
    QVERIFY(h.load(testModelPath(), config).info);
    const TurnReport warm = h.ask(request).report.value();
    QCOMPARE(warm.tokenIds, cold.tokenIds);
    QCOMPARE(warm.reusedTokens, kTokens);
    QCOMPARE(warm.restore.tokens, kTokens);
    QVERIFY(warm.restore.restored);
    const double ratio = cold.ttft.prefill / warm.restore.milliseconds;
    qInfo("%d tokens, %.1f MB: prefill %.0f ms (estimated %.0f), restore %.1f ms: %.0f times; "
          "TTFT %.0f ms and %.1f ms",
          warm.restore.tokens, static_cast<double>(warm.restore.bytes) / 1e6,
          static_cast<double>(cold.ttft.prefill), warm.restore.recomputeMs,
          warm.restore.milliseconds, ratio, cold.ttftMs, warm.ttftMs);
    QVERIFY2(ratio >= 20, qPrintable(QString::number(ratio)));
  }

 private:
  /// A text of words drawn from a seed, cut to so many tokens and one.
  static GenerateRequest question(const Model& model, int tokens) {
    const char* words[] = {"the ",  "river ", "of ",    "light ", "turns ", "and ",   "a ",
                           "stone ", "keeps ", "its ", "name, ", "while ", "slowly ", "winter "};
    std::mt19937 random(1);
    std::string text;
    for (int i = 0; i < tokens * 2; ++i) text += words[random() % std::size(words)];
    auto ids = model.tokenizer().encode(text);
    ids.resize(static_cast<std::size_t>(tokens) + 1);
    GenerateRequest request;
    request.prompt = std::move(ids);
    request.sampling.temperature = 0;
    request.maxTokens = 64;
    request.ignoreEnd = true;
    request.conversation = "long";
    return request;
  }
};

QTEST_GUILESS_MAIN(TestWarmResumeReal)
#include "tst_warm_resume_real.moc"

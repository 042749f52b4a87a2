#include "app/compare/compare_run.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/app/app_fixture.h"
#include "tests/tiny_models.h"

using namespace vitrine;
using namespace vitrine::app;
using test::AppFixture;

namespace {

// A model whose answers have no end and depend on everything before.
struct Scene : AppFixture {
  explicit Scene(int contextTokens = 512) {
    test::TinyModelOptions options;
    options.contextLength = contextTokens;
    loaded = load(test::randomModel(options).save(path("random.gguf")));
  }

  CompareSetup setup(float temperatureA, float temperatureB, int tokens = 60) {
    CompareSetup setup;
    setup.question = QStringLiteral("Name three colours");
    setup.messages = {{"user", "Name three colours", {}}};
    for (CompareSide& side : setup.sides) side.config = engine->info()->running;
    setup.sides[0].sampling.temperature = temperatureA;
    setup.sides[1].sampling.temperature = temperatureB;
    for (CompareSide& side : setup.sides) side.sampling.topK = 0;
    setup.maxTokens = tokens;
    setup.seed = 7;
    return setup;
  }
  static bool finish(CompareRun& run) {
    return QTest::qWaitFor([&] { return !run.isRunning(); }, 120000);
  }

  bool loaded = false;
};

}  // namespace

/// Two answers side by side, on one engine or on two.
class TestCompareRun : public QObject {
  Q_OBJECT
 private slots:
  void twoSamplingsShareSteps() {
    Scene scene;
    QVERIFY(scene.loaded);
    CompareRun run(*scene.engine);
    QVERIFY(run.start(scene.setup(0, 1.5F)));
    QVERIFY(run.isRunning());
    QVERIFY(!run.start(scene.setup(0, 1)));  // one at a time
    QVERIFY(Scene::finish(run));
    QVERIFY(run.order() == CompareOrder::kOneBatch);
    QVERIFY(!run.hasSecondEngine());
    for (int side = 0; side < 2; ++side) {
      QVERIFY2(run.answer(side).error.isEmpty(), qPrintable(run.answer(side).error));
      QCOMPARE(run.answer(side).report.generatedTokens, 60);
      QVERIFY(run.answer(side).weightBytes > 0);
    }
    // The two reach the engine together: every step in its log has a row for each.
    QTRY_COMPARE(run.sharedSteps(), run.allSteps());
    QVERIFY(run.sharedSteps() >= 60);
    int together = 0;
    for (const engine::StepRecord& step : scene.engine->snapshot()->steps) {
      bool a = false, b = false;
      for (const engine::StepRow& row : step.rows) {
        a = a || row.conversation == "Compare A";
        b = b || row.conversation == "Compare B";
      }
      together += a && b ? 1 : 0;
    }
    QCOMPARE(run.sharedSteps(), together);
  }

  void theFirstDifferenceIsMarkedInBothTexts() {
    Scene scene;
    CompareRun run(*scene.engine);
    QVERIFY(run.start(scene.setup(0, 1.5F)));
    QVERIFY(Scene::finish(run));
    const CompareAnswer& a = run.answer(0);
    const CompareAnswer& b = run.answer(1);
    int expected = 0;
    while (expected < 60 &&
           a.tokenIds[std::size_t(expected)] == b.tokenIds[std::size_t(expected)]) {
      ++expected;
    }
    QVERIFY2(expected < 60, "the two samplings drew the same 60 tokens");
    const FirstDifference difference = run.difference();
    QCOMPARE(difference.token, expected);
    // One letter a token: the texts part at this very character.
    QCOMPARE(a.text.left(difference.offset[0]), b.text.left(difference.offset[1]));
    QVERIFY(a.text.mid(difference.offset[0], difference.length[0]) !=
            b.text.mid(difference.offset[1], difference.length[1]));
  }

  void equalSamplingsGiveEqualAnswers() {
    Scene scene;
    CompareRun run(*scene.engine);
    QVERIFY(run.start(scene.setup(1, 1)));  // the same seed
    QVERIFY(Scene::finish(run));
    QCOMPARE(run.answer(0).text, run.answer(1).text);
    QCOMPARE(run.difference().token, -1);
    CompareSetup other = scene.setup(1, 1);
    other.seed.reset();
    QVERIFY(run.start(other));
    QVERIFY(Scene::finish(run));
    QVERIFY(run.answer(0).report.seed != run.answer(1).report.seed);
    QVERIFY(run.difference().token >= 0);
  }

  void anAnswerThatEndsFirstDiffersThere() {
    Scene scene;
    const auto model = scene.engine->model();
    CompareAnswer a, b;
    a.tokenIds = model->tokenizer().encode("abc");
    b.tokenIds = model->tokenizer().encode("abcdé");
    a.text = QStringLiteral("abc");
    b.text = QStringLiteral("abcdé");
    const auto& tokenizer = model->tokenizer();
    QCOMPARE(firstDifference(tokenizer, a, b).token, -1);  // both may go on alike
    a.ended = true;
    const FirstDifference ended = firstDifference(tokenizer, a, b);
    QCOMPARE(ended.token, int(a.tokenIds.size()));
    QCOMPARE(ended.offset[0], qsizetype(3));
    QCOMPARE(ended.length[0], qsizetype(0));
    QCOMPARE(ended.offset[1], qsizetype(3));
    QVERIFY(ended.length[1] > 0);
    // A token that is half a character begins where that character does.
    CompareAnswer c = b;
    c.tokenIds.pop_back();
    c.ended = true;
    QCOMPARE(firstDifference(tokenizer, b, c).offset[0], qsizetype(4));
  }

  void anotherConfigurationHasItsOwnEngine_data() {
    QTest::addColumn<bool>("atOnce");
    QTest::newRow("one after the other") << false;
    QTest::newRow("at once") << true;
  }
  void anotherConfigurationHasItsOwnEngine() {
    QFETCH(bool, atOnce);
    Scene scene;
    CompareRun run(*scene.engine);
    CompareSetup setup = scene.setup(0, 0);
    setup.sides[1].config.cache.type = engine::KvType::kInt8;
    setup.atOnce = atOnce;
    QVERIFY(run.start(setup));
    QVERIFY(run.order() == (atOnce ? CompareOrder::kTwoEngines : CompareOrder::kOneAfterOther));
    QVERIFY(Scene::finish(run));
    QVERIFY2(run.answer(1).error.isEmpty(), qPrintable(run.answer(1).error));
    QVERIFY(run.hasSecondEngine());
    QCOMPARE(run.answer(0).report.kvType, std::string("fp16"));
    QCOMPARE(run.answer(1).report.kvType, std::string("int8"));
    QVERIFY(run.answer(1).kvBytesPerToken < run.answer(0).kvBytesPerToken);
    QCOMPARE(run.sharedSteps(), 0);
    // The loaded engine is as it was.
    QCOMPARE(scene.engine->info()->running.cache.type, engine::KvType::kFp16);
    run.leave();
    QVERIFY(!run.hasSecondEngine());
  }

  void twoOtherConfigurationsRunOneAfterTheOther() {
    Scene scene;
    CompareRun run(*scene.engine);
    CompareSetup setup = scene.setup(0, 0, 10);
    setup.sides[0].config.precision.weights = engine::WeightMode::kFp16;
    setup.sides[1].config.precision.weights = engine::WeightMode::kInt8;
    QVERIFY(run.start(setup));
    QVERIFY(Scene::finish(run));
    QCOMPARE(run.answer(0).report.weights, std::string("fp16"));
    QCOMPARE(run.answer(1).report.weights, std::string("int8"));
    QVERIFY(run.answer(0).weightBytes > run.answer(1).weightBytes);
    // Two samplings of one other configuration share the second engine.
    setup.sides[0].config = setup.sides[1].config;
    QVERIFY(run.start(setup));
    QVERIFY(run.order() == CompareOrder::kOwnBatch);
    QVERIFY(Scene::finish(run));
    QCOMPARE(run.answer(0).text, run.answer(1).text);
    QCOMPARE(run.answer(0).report.weights, std::string("int8"));
  }

  void whatDoesNotFitIsSaidBefore() {
    Scene scene;
    CompareRun run(*scene.engine);
    CompareSetup setup = scene.setup(0, 0);
    setup.sides[1].config.kvHeads = 1 << 28;
    const auto started = run.start(setup);
    QVERIFY(!started);
    QVERIFY(started.error().code == engine::ErrorCode::kOutOfMemory);
    QVERIFY2(started.error().message.find("MB are free") != std::string::npos,
             started.error().message.c_str());
    QVERIFY(!run.isRunning() && !run.hasSecondEngine());
    setup = scene.setup(0, 0);
    setup.messages.clear();
    QVERIFY(!run.start(setup));
  }

  void stoppingAndLeavingAreClean() {
    Scene scene(test::kLongContext);
    CompareRun run(*scene.engine);
    QVERIFY(run.start(scene.setup(0, 1, 60'000)));
    QTRY_VERIFY(!run.answer(0).text.isEmpty());
    run.stop();
    QVERIFY(Scene::finish(run));
    QVERIFY(run.answer(0).report.stopReason == engine::StopReason::kCancelled);
    QVERIFY(!run.answer(0).text.isEmpty());
    // In the middle of the second engine's load, and of its answer.
    CompareSetup setup = scene.setup(0, 0, 60'000);
    setup.sides[1].config.cache.type = engine::KvType::kInt8;
    setup.atOnce = true;
    QVERIFY(run.start(setup));
    run.leave();
    QVERIFY(Scene::finish(run));
    QVERIFY(!run.hasSecondEngine());
    QVERIFY(run.start(setup));
    QTRY_VERIFY_WITH_TIMEOUT(!run.answer(1).text.isEmpty(), 60000);
    run.leave();
    QVERIFY(Scene::finish(run));
    QVERIFY(!run.hasSecondEngine());
    {
      CompareRun other(*scene.engine);
      QVERIFY(other.start(setup));
      QTest::qWait(50);
    }  // destroyed while it runs
    QTRY_VERIFY(!scene.engine->isBusy());
    // Its blocks went back to the pool.
    QTRY_VERIFY(std::none_of(
        scene.engine->snapshot()->owners.begin(), scene.engine->snapshot()->owners.end(),
        [](const auto& owner) { return owner.conversation == "Compare A" && owner.blocks > 0; }));
  }

  void theReportHoldsBothSides() {
    Scene scene;
    CompareRun run(*scene.engine);
    QVERIFY(run.start(scene.setup(0, 1.5F, 20)));
    QVERIFY(Scene::finish(run));
    const QString text = compareMarkdown(run.setup(), run.answers(), run.order(), run.difference(),
                                         scene.engine->info().get());
    QVERIFY(text.contains(run.answer(0).text));
    QVERIFY(text.contains(run.answer(1).text));
    QVERIFY(text.contains(QStringLiteral("Name three colours")));
    QVERIFY(text.contains(QStringLiteral("best token (temperature 0) | temperature 1.5")));
    QVERIFY(text.contains(
        QStringLiteral("first different token is number %1").arg(run.difference().token + 1)));
    QVERIFY(text.contains(QStringLiteral("one batch of the loaded engine")));
  }
};

QTEST_GUILESS_MAIN(TestCompareRun)
#include "tst_compare_run.moc"

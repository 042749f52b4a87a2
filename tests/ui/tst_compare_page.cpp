#include <QClipboard>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QTest>

#include "tests/ui/settle.h"
#include "tests/ui/window_parts.h"
#include "ui/common/figure_grid.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/compare/compare_column.h"
#include "ui/compare/compare_page.h"
#include "ui/theme/theme.h"

using namespace vitrine;
using test::WindowParts;

namespace {

struct Scene : WindowParts {
  /// `dModel` 512: a model that takes seconds over the longest answer that can be asked for.
  explicit Scene(int dModel = 64) : page(engine, settings) {
    page.resize(900, 760);
    page.show();
    test::TinyModelOptions options;
    options.contextLength = 8192;
    options.dModel = dModel;
    options.dFfn = dModel + dModel / 2;
    loaded = load(writeModel("random.gguf", options));
  }
  QPushButton* button(const char* name) { return page.findChild<QPushButton*>(name); }
  QString plan() { return page.findChild<ui::PlainLabel*>("comparePlan")->text(); }
  void type(const QString& text) {
    page.findChild<QPlainTextEdit*>("comparePrompt")->setPlainText(text);
  }
  ui::SegmentedSwitch* field(int side, const char* name) {
    return page.column(side)->findChild<ui::SegmentedSwitch*>(name);
  }
  void choose(int side, const char* name, int index) {
    auto* of = field(side, name);
    QTest::mouseClick(of, Qt::LeftButton, {}, of->choiceRect(index).center());
  }
  bool runToTheEnd() {
    QTest::mouseClick(button("startComparison"), Qt::LeftButton);
    const bool ended = QTest::qWaitFor([&] { return !page.run().isRunning(); }, 60'000);
    test::settle();
    return ended;
  }

  ui::ComparePage page;
  bool loaded = false;
};

}  // namespace

class TestComparePage : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { ui::Theme::instance().install(*qApp); }

  void withoutAModelItSaysSo() {
    WindowParts parts;
    ui::ComparePage page(parts.engine, parts.settings);
    page.show();
    QVERIFY(page.findChild<ui::PlainLabel*>("comparePlan")->text().contains("No model"));
    page.start();
    QVERIFY(page.findChild<ui::PlainLabel*>("compareFault")
                ->text()
                .contains("no model", Qt::CaseInsensitive));
  }

  void twoSamplingsSideBySide() {
    Scene scene;
    QVERIFY(scene.loaded);
    QVERIFY2(scene.plan().contains("one batch"), qPrintable(scene.plan()));
    QTest::mouseClick(scene.button("startComparison"), Qt::LeftButton);
    QVERIFY(scene.page.findChild<ui::PlainLabel*>("compareFault")->isVisible());  // nothing to ask
    scene.type("Name three colours");
    app::CompareSide side = scene.page.column(1)->side();
    side.sampling.temperature = 1.8F;
    side.sampling.topK = 0;
    scene.page.column(1)->setSide(side);
    side.sampling.temperature = 0;
    scene.page.column(0)->setSide(side);
    QVERIFY(scene.runToTheEnd());
    QVERIFY(!scene.page.findChild<ui::PlainLabel*>("compareFault")->isVisible());
    for (int i = 0; i < 2; ++i) {
      QCOMPARE(scene.page.column(i)->answerText(), scene.page.run().answer(i).text);
      QVERIFY(!scene.page.column(i)->answerText().isEmpty());
      QVERIFY(scene.page.column(i)->figures()->figure("TPOT").contains("ms"));
      QVERIFY(scene.page.column(i)->figures()->figure("Weights").contains("B"));
    }
    QVERIFY2(scene.plan().contains("steps computed both answers in one batch"),
             qPrintable(scene.plan()));
    QVERIFY2(scene.plan().contains("first different token is number"), qPrintable(scene.plan()));
    QTest::mouseClick(scene.button("copyComparison"), Qt::LeftButton);
    QVERIFY(QGuiApplication::clipboard()->text().contains(scene.page.column(1)->answerText()));
    QVERIFY(QGuiApplication::clipboard()->text().contains("temperature 1.8"));
  }

  void twoConfigurationsSideBySide() {
    Scene scene;
    scene.type("Name three colours");
    scene.choose(1, "compareKv", 1);
    QVERIFY2(scene.plan().contains("then B on a second one"), qPrintable(scene.plan()));
    QVERIFY(scene.runToTheEnd());
    QVERIFY(scene.page.run().hasSecondEngine());
    const QString a = scene.page.column(0)->figures()->figure("KV a token");
    const QString b = scene.page.column(1)->figures()->figure("KV a token");
    QVERIFY2(a != b, qPrintable(a + " and " + b));
    scene.page.hide();  // left: the second engine is gone
    QVERIFY(!scene.page.run().hasSecondEngine());
  }

  void theQuestionOfAChatCanBeAsked() {
    Scene scene;
    app::ChatSession* session = scene.pool.createConversation();
    scene.settings.setSamplingDefaults({{"max_tokens", 12}});
    QVERIFY(scene.ask(session, "first"));
    QVERIFY(scene.ask(session, "second"));
    auto* source = scene.page.findChild<ui::SegmentedSwitch*>("compareSource");
    QVERIFY(!source->isEnabled());
    scene.page.setSession(session);
    QVERIFY(source->isEnabled());
    QTest::mouseClick(source, Qt::LeftButton, {}, source->choiceRect(1).center());
    QVERIFY(scene.runToTheEnd());
    QCOMPARE(scene.page.run().setup().question, QString("second"));
    QCOMPARE(scene.page.run().setup().messages.size(), std::size_t(3));
    // The chat's own prefix was in the cache for both.
    QVERIFY(scene.page.run().answer(0).report.reusedTokens > 0);
  }

  void stopEndsBoth() {
    Scene scene(512);
    scene.type("Go on for ever");
    scene.page.findChild<QSpinBox*>()->setValue(4096);
    QTest::mouseClick(scene.button("startComparison"), Qt::LeftButton);
    QTRY_VERIFY(scene.button("stopComparison")->isVisible());
    QTRY_VERIFY(!scene.page.run().answer(1).text.isEmpty());
    QTest::mouseClick(scene.button("stopComparison"), Qt::LeftButton);
    QTRY_VERIFY(!scene.page.run().isRunning());
    QTRY_VERIFY(scene.button("startComparison")->isVisible());
    QVERIFY(scene.page.run().answer(0).report.stopReason == engine::StopReason::kCancelled);
  }

  void aSwitchOfTheLoadedEngineKeepsWhatASideChose() {
    Scene scene;
    scene.choose(1, "compareKv", 1);
    app::CompareSide side = scene.page.column(0)->side();
    side.sampling.temperature = 1.25F;
    scene.page.column(0)->setSide(side);
    engine::EngineConfig config = scene.engine.config();
    config.cache.reuse = false;
    scene.engine.reconfigure(config);
    QVERIFY(scene.waitUntilSettled());
    QCOMPARE(scene.page.column(0)->side().sampling.temperature, 1.25F);
    QVERIFY(scene.page.column(1)->side().config.cache.type == engine::KvType::kInt8);
    QVERIFY(!scene.page.column(0)->side().config.cache.reuse);
  }
};

QTEST_MAIN(TestComparePage)
#include "tst_compare_page.moc"

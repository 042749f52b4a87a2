#include <QClipboard>
#include <QComboBox>
#include <QPushButton>
#include <QTest>

#include "app/studio/profile_list.h"
#include "tests/test_model.h"
#include "tests/ui/window_parts.h"
#include "ui/common/figure_grid.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/precision/precision_form.h"
#include "ui/replay/divergence_strip.h"
#include "ui/replay/replay_page.h"
#include "ui/replay/replay_text.h"
#include "ui/theme/theme.h"

using namespace vitrine;
using test::WindowParts;

namespace {

struct Scene : WindowParts {
  explicit Scene(const QString& model = {})
      : profiles(paths.calibration()), page(engine, *store, profiles) {
    page.resize(1100, 900);
    page.show();
    test::TinyModelOptions options;
    options.contextLength = 4096;
    loaded = load(model.isEmpty() ? writeModel("random.gguf", options) : model);
    settings.setSamplingDefaults({{"max_tokens", 40}, {"temperature", 0}});
  }
  QPushButton* button(const char* name) { return page.findChild<QPushButton*>(name); }
  QString label(const char* name) { return page.findChild<ui::PlainLabel*>(name)->text(); }
  void choose(int side, const char* name, int index) {
    auto* field = page.form(side)->findChild<ui::SegmentedSwitch*>(name);
    QTest::mouseClick(field, Qt::LeftButton, {}, field->choiceRect(index).center());
  }
  bool replay() {
    QTest::mouseClick(button("startReplay"), Qt::LeftButton);
    return QTest::qWaitFor([&] { return !page.isRunning(); }, 300'000);
  }

  app::studio::ProfileList profiles;
  ui::ReplayPage page;
  bool loaded = false;
};

}  // namespace

class TestReplayPage : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { ui::Theme::instance().install(*qApp); }

  void withoutModelOrChatItSaysSo() {
    WindowParts parts;
    app::studio::ProfileList profiles(parts.paths.calibration());
    ui::ReplayPage page(parts.engine, *parts.store, profiles);
    page.show();
    QVERIFY(page.findChild<ui::PlainLabel*>("replayPlan")->text().contains("No model"));
    QVERIFY(!page.findChild<QPushButton*>("startReplay")->isEnabled());
    Scene scene;
    QVERIFY(scene.loaded);
    QVERIFY2(scene.label("replayPlan").contains("no conversation"),
             qPrintable(scene.label("replayPlan")));
  }

  void theOpenChatIsReadByBothSides() {
    Scene scene;
    app::ChatSession* other = scene.pool.createConversation();
    QVERIFY(scene.ask(other, "another"));
    app::ChatSession* session = scene.pool.createConversation();
    QVERIFY(scene.ask(session, "first"));
    QVERIFY(scene.ask(session, "second"));
    scene.page.setSession(session);
    auto* choice = scene.page.findChild<QComboBox*>("replayConversation");
    QCOMPARE(choice->currentData().toLongLong(), session->conversation().id);
    QCOMPARE(choice->count(), 2);
    // FP16 against INT8 is what it begins with; one scale a matrix differs most.
    QVERIFY(scene.page.config(0).precision.weights == engine::WeightMode::kFp16);
    QVERIFY(scene.page.config(1).precision.weights == engine::WeightMode::kInt8);
    scene.choose(1, "scalesSwitch", 4);
    QVERIFY(scene.page.config(1).precision.weightScales == engine::WeightScales::kTensor);
    QVERIFY(scene.replay());
    QVERIFY2(scene.page.result().has_value(), qPrintable(scene.label("replayFault")));

    const engine::ReplayReport& report = scene.page.result()->report;
    int answers = 0;
    for (const app::MessageRow& row : session->rows()) {
      answers += int(row.message.tokenIds.size());
    }
    QVERIFY(report.scoredTokens >= answers);
    auto* strip = scene.page.findChild<ui::DivergenceStrip*>();
    QCOMPARE(int(strip->cells().size()), report.scoredTokens);
    const auto firsts = std::count_if(strip->cells().begin(), strip->cells().end(),
                                      [](const auto& cell) { return cell.first; });
    QCOMPARE(int(firsts), report.firstDivergence >= 0 ? 1 : 0);
    for (const auto& cell : strip->cells()) {
      QCOMPARE(cell.divergence, report.tokens[std::size_t(cell.token)].divergence);
    }
    QCOMPARE(strip->cellAt(strip->cellRect(7).center()), 7);
    QTest::mouseMove(strip, strip->cellRect(7).center().toPoint());
    QTRY_VERIFY2(scene.label("replayPointed").contains("KL"),
                 qPrintable(scene.label("replayPointed")));
    QVERIFY(scene.label("replayPointed").contains("choose"));
    for (const char* side : {"replayFiguresA", "replayFiguresB"}) {
      auto* figures = scene.page.findChild<ui::FigureGrid*>(side);
      QVERIFY(figures->figure("Perplexity").toDouble() > 1);
      QVERIFY(figures->figure("Prefill").contains("ms"));
      QVERIFY(figures->figure("Decode").contains("tok/s"));
      QVERIFY(figures->figure("Weights").contains("B"));
    }
    QVERIFY(report.sides[1].weightBytes < report.sides[0].weightBytes);
    QVERIFY2(scene.label("replaySummary").contains("Same best token"),
             qPrintable(scene.label("replaySummary")));
    // The text on screen is the answers', and the marked token is where the report says.
    auto* text = scene.page.findChild<ui::ReplayText*>();
    QVERIFY(text->toPlainText().contains(session->rows().back().message.text));
    QTest::mouseClick(scene.button("copyReplay"), Qt::LeftButton);
    const QString copied = QGuiApplication::clipboard()->text();
    QVERIFY(copied.contains("INT8 weights, a scale a matrix"));
    QVERIFY(copied.contains("Tokens that differ most"));
    QVERIFY(copied.contains("KL(A ‖ B)"));
  }

  void theSameTwiceIsRefused() {
    Scene scene;
    app::ChatSession* session = scene.pool.createConversation();
    QVERIFY(scene.ask(session, "first"));
    scene.page.setSession(session);
    scene.page.setConfig(1, scene.page.config(0));
    QTest::mouseClick(scene.button("startReplay"), Qt::LeftButton);
    QVERIFY(!scene.page.isRunning());
    QVERIFY2(scene.label("replayFault").contains("same"), qPrintable(scene.label("replayFault")));
  }

  void stopEndsIt() {
    Scene scene;
    app::ChatSession* session = scene.pool.createConversation();
    scene.settings.setSamplingDefaults({{"max_tokens", 1500}, {"temperature", 0}});
    QVERIFY(scene.ask(session, "Go on for ever"));
    scene.page.setSession(session);
    QTest::mouseClick(scene.button("startReplay"), Qt::LeftButton);
    QVERIFY(scene.page.isRunning());
    QVERIFY(scene.button("stopReplay")->isVisible());
    QTest::mouseClick(scene.button("stopReplay"), Qt::LeftButton);
    QTRY_VERIFY(!scene.page.isRunning());
    QVERIFY(scene.button("startReplay")->isVisible());
    QVERIFY(scene.label("replayFault").isEmpty());
  }

  void theRealModelIsReplayed() {
    QVERIFY2(test::haveTestModel(), test::missingModelMessage().c_str());
    Scene scene(app::displayPath(test::testModelPath()));
    QVERIFY(scene.loaded);
    app::ChatSession* session = scene.pool.createConversation();
    QVERIFY(scene.ask(session, "Tell me a story about the sea."));
    scene.page.setSession(session);
    scene.choose(1, "activationsSwitch", 1);
    QVERIFY(scene.replay());
    QVERIFY2(scene.page.result().has_value(), qPrintable(scene.label("replayFault")));
    const engine::ReplayReport& report = scene.page.result()->report;
    QVERIFY2(report.scoredTokens >= 15, qPrintable(QString::number(report.scoredTokens)));
    QVERIFY(report.top1Agreement > 0.7);
    QVERIFY(report.klMean > 0 && report.klMean < 0.1);
    QVERIFY(report.sides[0].perplexity > 1 && report.sides[0].perplexity < 20);
    QVERIFY(scene.label("replaySummary").contains("KL mean"));
  }
};

QTEST_MAIN(TestReplayPage)
#include "tst_replay_page.moc"

#include <QTest>

#include "tests/ui/settle.h"
#include "tests/ui/window_parts.h"
#include "ui/common/figure_grid.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/inspector/batch/batch_figures.h"
#include "ui/inspector/batch/step_lanes.h"
#include "ui/inspector/inspector_panel.h"
#include "ui/theme/theme.h"

using namespace vitrine;
using test::WindowParts;

namespace {

// The inspector's batch tab on screen, with a model whose answers have no end.
struct Scene : WindowParts {
  explicit Scene(int answerTokens = 96) : inspector(engine, settings) {
    inspector.resize(364, 900);
    inspector.show();
    inspector.showTab("batch");
    settings.setSamplingDefaults({{"max_tokens", answerTokens}, {"temperature", 0}});
    test::TinyModelOptions options;
    options.contextLength = 4096;
    // About a millisecond a step: two chats that are sent one after the other meet.
    options.nLayers = 8;
    options.dModel = 256;
    options.dFfn = 1024;
    loaded = load(writeModel("random.gguf", options));
    first = pool.createConversation();
    second = pool.createConversation();
    store->rename(first->conversation().id, "Of the sea");
    store->rename(second->conversation().id, "Of hills");
    inspector.setOwnerLook([this](const QString& key) {
      const auto found = store->conversationByUuid(key);
      return found ? ui::OwnerLook{found->title, Qt::red} : ui::OwnerLook{};
    });
    inspector.setSession(first);
  }
  bool bothAnswer() {
    if (!first->send("Tell me of the sea") || !second->send("Tell me of hills")) return false;
    return QTest::qWaitFor([&] { return !first->isRunning() && !second->isRunning(); }, 60'000);
  }
  template <typename Widget>
  Widget* find(const char* name = "") {
    const QString objectName = QString::fromLatin1(name);
    return objectName.isEmpty() ? inspector.findChild<Widget*>()
                                : inspector.findChild<Widget*>(objectName);
  }

  ui::InspectorPanel inspector;
  app::ChatSession *first = nullptr, *second = nullptr;
  bool loaded = false;
};

engine::StepRecord step(std::uint64_t number, float ms, std::vector<std::pair<int, int>> rows,
                        std::chrono::milliseconds start = {}) {
  engine::StepRecord record;
  record.number = number;
  record.milliseconds = ms;
  record.start = std::chrono::steady_clock::time_point(start);
  for (const auto& [prefill, decode] : rows) {
    record.rows.push_back({engine::RequestId(record.rows.size() + 1),
                           "chat " + std::to_string(record.rows.size()), "main", prefill, decode});
  }
  return record;
}

}  // namespace

class TestBatchTab : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { ui::Theme::instance().install(*qApp); }

  void figuresAreCountedFromSteps() {
    using std::chrono::milliseconds;
    const std::vector<engine::StepRecord> steps{
        step(1, 20, {{64, 0}}, milliseconds(0)),
        step(2, 4, {{0, 1}}, milliseconds(20)),
        step(3, 6, {{0, 1}}, milliseconds(24)),
        step(4, 30, {{0, 1}, {32, 0}}, milliseconds(30)),
        step(5, 7, {{0, 1}, {0, 1}}, milliseconds(60)),
        step(6, 5, {{0, 1}}, milliseconds(3000)),
    };
    const ui::BatchFigures figures = ui::batchFiguresOf(steps);
    QCOMPARE(figures.steps, 6);
    QCOMPARE(figures.prefillTokens, 96);
    QCOMPARE(figures.decodeTokens, 6);
    QCOMPARE(figures.milliseconds, 72.0);
    QCOMPARE(figures.ofSize(1)->medianMs, 5.0);
    QCOMPARE(figures.ofSize(1)->steps, 3);
    QCOMPARE(figures.ofSize(2)->medianMs, 7.0);
    QCOMPARE(figures.ofSize(2)->tokensPerSecond(), 2000.0 / 7.0);
    QVERIFY(!figures.ofSize(3));
    QCOMPARE(figures.mixedSteps, 1);
    QCOMPARE(figures.mixedMedianMs, 30.0);
    const auto latest = ui::latestRun(steps, 1000);
    QCOMPARE(latest.size(), std::size_t(1));
    QCOMPARE(latest.front().number, std::uint64_t(6));
  }

  void anEmptyTabSaysWhatWillBeThere() {
    Scene scene;
    QVERIFY(scene.loaded);
    test::settle();
    QVERIFY(!scene.find<ui::StepLanes>()->isVisible());
    QCOMPARE(scene.find<ui::FigureGrid>("batchNow")->figure("Running"), QString("0"));
  }

  void twoChatsAreTwoLanes() {
    Scene scene;
    QVERIFY(scene.bothAnswer());
    test::settle();
    auto* lanes = scene.find<ui::StepLanes>();
    QVERIFY(lanes->isVisible());
    QCOMPARE(lanes->laneCount(), 2);
    const QStringList titles{lanes->laneTitle(0), lanes->laneTitle(1)};
    QVERIFY2(titles.contains("Of the sea · this chat"), qPrintable(titles.join('|')));
    QVERIFY(titles.contains("Of hills"));
    QVERIFY(lanes->columnCount() > 20);
    // A step in which both were: told under the pointer.
    int shared = -1;
    const auto& steps = scene.engine.snapshot()->steps;
    const int shown = lanes->columnCount();
    for (int column = 0; column < shown; ++column) {
      if (steps[steps.size() - std::size_t(shown) + std::size_t(column)].rows.size() == 2) {
        shared = column;
      }
    }
    QVERIFY(shared >= 0);
    QTest::mouseMove(lanes, lanes->cellRect(shared, 0).center().toPoint());
    QTRY_COMPARE(lanes->selectedColumn(), shared);
    const QString words = scene.find<ui::PlainLabel>("pointedStep")->text();
    QVERIFY2(words.contains("Of hills: ") && words.contains("Of the sea · this chat: "),
             qPrintable(words));
    QVERIFY(words.contains("ms"));
    // The arrow keys do the same.
    lanes->setFocus();
    QTest::keyClick(lanes, Qt::Key_Left);
    QCOMPARE(lanes->selectedColumn(), shared - 1);
    QTest::keyClick(lanes, Qt::Key_End);
    QCOMPARE(lanes->selectedColumn(), lanes->columnCount() - 1);
  }

  void whatASecondChatCostsIsMeasured() {
    Scene scene;
    QVERIFY(scene.ask(scene.first, "Alone"));
    QVERIFY(scene.bothAnswer());
    test::settle();
    const auto* sizes = scene.find<ui::FigureGrid>("batchSizes");
    QVERIFY(sizes->figure("1 answer alone").contains("tok/s"));
    QVERIFY(sizes->figure("2 answers together").contains("tok/s"));
    const QString cost = scene.find<ui::PlainLabel>("batchCost")->text();
    QVERIFY2(cost.contains('%'), qPrintable(cost));
    const ui::BatchFigures figures = ui::batchFiguresOf(scene.engine.snapshot()->steps);
    QVERIFY(figures.ofSize(1)->steps > 20 && figures.ofSize(2)->steps > 20);
  }

  void moreColumnsAreShownOnDemand() {
    Scene scene;
    for (int i = 0; i < 3; ++i) QVERIFY(scene.ask(scene.first, "More"));
    test::settle();
    auto* lanes = scene.find<ui::StepLanes>();
    QCOMPARE(lanes->columnCount(), 64);
    auto* columns = scene.find<ui::SegmentedSwitch>("batchColumns");
    QTest::mouseClick(columns, Qt::LeftButton, {}, columns->choiceRect(1).center());
    QCOMPARE(lanes->columnCount(), 128);
  }

  void theSwitchChangesHowTurnsJoin() {
    Scene scene(300);  // long enough to be seen answering
    test::settle();
    auto* batching = scene.find<ui::SegmentedSwitch>("batchingSwitch");
    QCOMPARE(batching->current(), 0);
    QTest::mouseClick(batching, Qt::LeftButton, {}, batching->choiceRect(1).center());
    QVERIFY(scene.waitUntilSettled());
    QVERIFY(scene.engine.info()->running.batching == engine::Batching::kStatic);
    test::settle();
    QCOMPARE(batching->current(), 1);
    // One is answering when the other comes: it waits for its end.
    QVERIFY(scene.first->send("Tell me of the sea"));
    QTRY_VERIFY(scene.first->phase() == app::TurnPhase::kAnswering);
    QVERIFY(scene.second->send("Tell me of hills"));
    QVERIFY(QTest::qWaitFor([&] { return !scene.first->isRunning() && !scene.second->isRunning(); },
                            60'000));
    test::settle();
    for (const engine::StepRecord& step : scene.engine.snapshot()->steps) {
      QCOMPARE(step.rows.size(), std::size_t(1));
    }
  }
};

QTEST_MAIN(TestBatchTab)
#include "tst_batch_tab.moc"

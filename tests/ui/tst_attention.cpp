// The attention switch on SmolLM2: what it changes in the engine, in the numbers and in the
// drawing.
#include <QMenu>
#include <QPushButton>
#include <QTest>

#include "app/measure/mode_comparison.h"
#include "tests/test_model.h"
#include "tests/ui/settle.h"
#include "tests/ui/window_parts.h"
#include "ui/common/figure_grid.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/inspector/attention/attention_tab.h"
#include "ui/inspector/attention/choice_table.h"
#include "ui/inspector/attention/head_drawing.h"
#include "ui/inspector/inspector_panel.h"
#include "ui/models/model_opener.h"
#include "ui/theme/theme.h"
#include "ui/topbar/chips.h"
#include "ui/topbar/top_bar.h"

using namespace vitrine;
using test::WindowParts;

namespace {

// The attention tab on screen with the real model and a chat.
struct Scene : WindowParts {
  Scene() : inspector(engine, settings), bar(engine, settings) {
    inspector.resize(364, 1000);
    inspector.showTab("attention");
    inspector.show();
    bar.resize(1440, 52);
    bar.show();
    engine::EngineConfig config = settings.engineConfig();
    config.cache.budgetBytes = quint64(64) << 20;
    settings.setEngineConfig(config);
    settings.setSamplingDefaults({{"temperature", 0.0}});
    loaded = load(QString::fromStdString(test::testModelPath().string()));
    settings.setLastModel(test::testModelPath());
    session = pool.createConversation();
    inspector.setSession(session);
    test::settle();
  }

  template <typename Widget>
  Widget* find(const char* name = "") {
    const QString objectName = QString::fromLatin1(name);
    return objectName.isEmpty() ? inspector.findChild<Widget*>()
                                : inspector.findChild<Widget*>(objectName);
  }
  /// The row of a choice and KV type in the table of costs.
  ui::ChoiceCost cost(const QString& name, engine::KvType type) {
    for (const ui::ChoiceCost& row : find<ui::ChoiceTable>()->rows()) {
      if (row.name == name && row.type == type) return row;
    }
    return {};
  }
  /// The row that is marked as in use.
  ui::ChoiceCost inForce() {
    for (const ui::ChoiceCost& row : find<ui::ChoiceTable>()->rows()) {
      if (row.inForce) return row;
    }
    return {};
  }
  std::uint64_t measuredPerToken() {
    const auto snapshot = engine.snapshot();
    return snapshot->bytesPerBlock / std::uint64_t(snapshot->shape.blockSize);
  }
  bool choose(int index) {
    auto* field = find<ui::SegmentedSwitch>("headsSwitch");
    QTest::mouseClick(field, Qt::LeftButton, {}, field->choiceRect(index).center());
    if (!waitUntilSettled()) return false;
    test::settle();
    return true;
  }
  /// Bytes a token of the last turn, as it reported them.
  double turnBytesPerToken() {
    const engine::TurnReport& report = session->rows().back().metrics.report;
    return double(report.kv.bytesUsed) / (report.promptTokens + report.generatedTokens - 1);
  }

  ui::InspectorPanel inspector;
  ui::TopBar bar;
  app::ChatSession* session = nullptr;
  bool loaded = false;
};

}  // namespace

class TestAttention : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY2(test::haveTestModel(), test::missingModelMessage().c_str());
    ui::Theme::instance().install(*qApp);
  }

  void withoutModelItSaysWhatToDo() {
    WindowParts parts;
    ui::InspectorPanel inspector(parts.engine, parts.settings);
    inspector.resize(364, 900);
    inspector.showTab("attention");
    inspector.show();
    test::settle();
    QVERIFY(!inspector.findChild<ui::SegmentedSwitch*>("headsSwitch")->isVisible());
    QVERIFY(!inspector.findChild<QPushButton*>("measureLoss")->isVisible());
  }

  void switchChangesHeadsAndEveryNumber() {
    Scene scene;
    QVERIFY(scene.loaded);
    auto* field = scene.find<ui::SegmentedSwitch>("headsSwitch");
    QCOMPARE(field->choiceCount(), 3);
    QCOMPARE(field->current(), 1);  // MHA 9:9, GQA 9:3, MQA 9:1
    QCOMPARE(scene.find<ui::HeadDrawing>()->kvHeads(), 3);
    const std::uint64_t own = 2 * 30 * 3 * 64 * 2;
    QCOMPARE(scene.measuredPerToken(), own);
    QCOMPARE(scene.inForce().name, QString("GQA 9:3"));
    QCOMPARE(scene.inForce().bytesPerToken, own);
    // 64 MiB: the formula of every row.
    const std::uint64_t pool = std::uint64_t{64} << 20;
    for (const auto& [name, heads] : {std::pair{"MHA 9:9", 9}, {"GQA 9:3", 3}, {"MQA 9:1", 1}}) {
      const auto fp16 = scene.cost(name, engine::KvType::kFp16);
      const auto int8 = scene.cost(name, engine::KvType::kInt8);
      const auto perToken = std::uint64_t(2 * 30 * heads * 64);
      QCOMPARE(fp16.bytesPerToken, 2 * perToken);
      QCOMPARE(int8.bytesPerToken, perToken + std::uint64_t(2 * 30 * heads * 4));  // and scales
      for (const ui::ChoiceCost& row : {fp16, int8}) {
        const std::uint64_t blocks = pool / (16 * row.bytesPerToken);
        QCOMPARE(row.contextTokens, int(std::min<std::uint64_t>(16 * blocks, 8192)));
        QCOMPARE(row.chats, int(blocks / 128));  // of 2,048 tokens
        QCOMPARE(row.exact, heads != 1);
      }
    }
    QVERIFY(scene.ask(scene.session, "Name three colours."));
    const double before = scene.turnBytesPerToken();
    const auto answer = scene.session->rows().back().message.tokenIds;

    QVERIFY(scene.choose(0));
    QCOMPARE(scene.engine.info()->config.nKvHeads, 9);
    QCOMPARE(scene.engine.info()->ownKvHeads, 3);
    QCOMPARE(scene.settings.engineConfig().kvHeads, 9);
    QCOMPARE(field->current(), 0);
    QCOMPARE(scene.find<ui::HeadDrawing>()->kvHeads(), 9);
    QCOMPARE(scene.measuredPerToken(), 3 * own);
    QCOMPARE(scene.inForce().name, QString("MHA 9:9"));
    QVERIFY(scene.session->regenerate(scene.session->rows().back().message.id));
    QVERIFY(QTest::qWaitFor([&] { return !scene.session->isRunning(); }, 60'000));
    QCOMPARE(scene.turnBytesPerToken(), 3 * before);
    QCOMPARE(scene.session->rows().back().message.tokenIds, answer);  // exact
    test::settle();
    auto* measured = scene.find<ui::FigureGrid>("measuredHeads");
    QCOMPARE(measured->figure("GQA 9:3, FP16"), QString("22.5 KB a token"));
    QCOMPARE(measured->figure("MHA 9:9, FP16"), QString("67.5 KB a token"));
    QVERIFY(measured->figure("this chat").contains("tokens in"));

    QVERIFY(scene.choose(2));
    QCOMPARE(scene.engine.info()->config.nKvHeads, 1);
    QCOMPARE(3 * scene.measuredPerToken(), own);
    QVERIFY(scene.find<ui::PlainLabel>("headsExplanation")->text().contains("approximate"));
    QVERIFY(scene.choose(1));
    QCOMPARE(scene.settings.engineConfig().kvHeads, 0);
    QCOMPARE(scene.measuredPerToken(), own);
  }

  void topBarSwitchesToo() {
    Scene scene;
    auto* chip = scene.bar.findChild<ui::MenuChip*>("topAttention");
    auto* menu = scene.bar.findChild<QMenu*>("attentionMenu");
    QVERIFY(chip->isVisible());
    QVERIFY2(chip->text().contains("GQA 9:3"), qPrintable(chip->text()));
    const auto pick = [&](const char* name) {
      QTest::mouseClick(chip, Qt::LeftButton);
      for (QAction* action : menu->actions()) {
        if (action->text().contains(name)) action->trigger();
      }
      menu->close();
    };
    pick("MHA 9:9");
    QVERIFY(scene.waitUntilSettled());
    QCOMPARE(scene.engine.info()->config.nKvHeads, 9);
    QVERIFY2(chip->text().contains("MHA 9:9"), qPrintable(chip->text()));
    QTest::mouseClick(chip, Qt::LeftButton);
    const auto actions = menu->actions();
    QCOMPARE(actions.size(), 3);
    QVERIFY(actions[0]->isChecked() && !actions[1]->isChecked());
    QVERIFY(actions[0]->text().contains("exact, cache × 3"));
    QVERIFY(actions[2]->text().contains("approximate, cache ÷ 3"));
    menu->close();
    pick("MQA 9:1");
    QVERIFY(scene.waitUntilSettled());
    QCOMPARE(scene.engine.info()->config.nKvHeads, 1);
    QVERIFY2(chip->text().contains("≈"), qPrintable(chip->text()));
  }

  void lossIsMeasuredAndCanBeStopped() {
    Scene scene;
    auto* measure = scene.find<QPushButton>("measureLoss");
    auto* figures = scene.find<ui::FigureGrid>("lossFigures");
    auto* comparison =
        scene.inspector.findChild<ui::AttentionTab*>()->findChild<app::ModeComparison*>();
    QCOMPARE(figures->figure("MQA 9:1 ≈"), QString("not measured yet"));
    QVERIFY(figures->figure("MHA 9:9").startsWith("exact"));
    QTest::mouseClick(measure, Qt::LeftButton);
    QVERIFY(comparison->isRunning());
    QCOMPARE(measure->text(), QString("Stop"));
    QTest::mouseClick(measure, Qt::LeftButton);
    QVERIFY(QTest::qWaitFor([&] { return !comparison->isRunning(); }, 30'000));
    QCOMPARE(figures->figure("MQA 9:1 ≈"), QString("not measured yet"));

    QTest::mouseClick(measure, Qt::LeftButton);
    QVERIFY(QTest::qWaitFor([&] { return !comparison->isRunning(); }, 120'000));
    const QString page = figures->figure("MQA 9:1 ≈");
    QVERIFY2(page.startsWith("KL ") && page.contains("same best token"), qPrintable(page));
    QVERIFY2(page.section(' ', 1, 1).toDouble() > 1.0, qPrintable(page));

    // Over this chat: nothing to compare before the first answer, another figure after it.
    auto* text = scene.find<ui::SegmentedSwitch>("lossText");
    QTest::mouseClick(text, Qt::LeftButton, {}, text->choiceRect(1).center());
    QVERIFY(!measure->isEnabled());
    QVERIFY(scene.ask(scene.session, "Name three colours."));
    test::settle();
    QVERIFY(measure->isEnabled());
    QCOMPARE(figures->figure("MQA 9:1 ≈"), QString("not measured yet"));
    QTest::mouseClick(measure, Qt::LeftButton);
    QVERIFY(QTest::qWaitFor([&] { return !comparison->isRunning(); }, 120'000));
    const QString chat = figures->figure("MQA 9:1 ≈");
    QVERIFY2(chat.startsWith("KL ") && chat != page, qPrintable(chat));
  }

  void anotherModelTakesItsOwnHeads() {
    Scene scene;
    QVERIFY(scene.choose(0));
    QCOMPARE(scene.engine.config().kvHeads, 9);
    // The number of one model means nothing for another: refused with a sentence if it is tried.
    QString message;
    connect(&scene.engine, &app::EngineClient::loadFailed, this,
            [&](quint64, const engine::Error& error, bool) {
              message = app::toQString(error.message);
            });
    scene.engine.load(app::toPath(scene.writeModel("four.gguf")), scene.settings.engineConfig());
    QVERIFY(scene.waitUntilSettled());
    QVERIFY2(message.contains("it may be 1, 2, 4"), qPrintable(message));
    QCOMPARE(scene.engine.info()->config.nKvHeads, 9);  // the model before stays
    // The window opens another model as it is, and forgets the number.
    ui::ModelOpener opener(scene.engine, scene.settings);
    opener.open(app::toPath(scene.folder.filePath("four.gguf")));
    QVERIFY(scene.waitUntilSettled());
    QCOMPARE(scene.engine.info()->config.nHeads, 4);
    QCOMPARE(scene.engine.info()->config.nKvHeads, 2);
    QCOMPARE(scene.settings.engineConfig().kvHeads, 0);
    test::settle();
    auto* field = scene.find<ui::SegmentedSwitch>("headsSwitch");
    QCOMPARE(field->choiceCount(), 3);  // MHA 4:4, GQA 4:2, MQA 4:1
    QCOMPARE(field->current(), 1);
    QVERIFY(scene.choose(0));
    QCOMPARE(scene.engine.info()->config.nKvHeads, 4);
  }

  void drawingIsSaneForManyHeads_data() {
    QTest::addColumn<int>("heads");
    QTest::addColumn<int>("kv");
    QTest::addColumn<int>("own");
    QTest::newRow("9:3") << 9 << 3 << 3;
    QTest::newRow("9:9 of 3") << 9 << 9 << 3;
    QTest::newRow("32:8") << 32 << 8 << 8;
    QTest::newRow("64:1 of 8") << 64 << 1 << 8;
    QTest::newRow("64:64 of 8") << 64 << 64 << 8;
    QTest::newRow("1:1") << 1 << 1 << 1;
  }
  void drawingIsSaneForManyHeads() {
    QFETCH(int, heads);
    QFETCH(int, kv);
    QFETCH(int, own);
    ui::HeadDrawing drawing;
    drawing.setHeads(heads, kv, own);
    drawing.resize(332, drawing.sizeHint().height());
    QVERIFY(drawing.height() < 170);
    QVERIFY(drawing.accessibleDescription().contains(QString::number(kv)));
    // Every query head is hit somewhere, and says which KV head it reads.
    QSet<QString> said;
    for (double x = 0; x < 332; x += 0.5) {
      const QString text = drawing.describeAt({x, 14});
      if (!text.isEmpty()) said.insert(text);
    }
    QCOMPARE(said.size(), qsizetype(heads));
    QVERIFY(said.contains(QString("Query head %1 reads KV head %2").arg(heads).arg(kv)));
    QVERIFY(said.contains("Query head 1 reads KV head 1"));
  }
};

QTEST_MAIN(TestAttention)
#include "tst_attention.moc"

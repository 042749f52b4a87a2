#include <QSignalSpy>
#include <QTest>

#include "tests/ui/settle.h"
#include "tests/ui/window_parts.h"
#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/common/toggle_switch.h"
#include "ui/inspector/cache/block_map.h"
#include "ui/inspector/cache/cache_tab.h"
#include "ui/inspector/cache/formula_view.h"
#include "ui/inspector/inspector_panel.h"
#include "ui/inspector/latency/latency_tab.h"
#include "ui/inspector/latency/token_strip.h"
#include "ui/inspector/latency/turn_table.h"
#include "ui/inspector/latency/waterfall.h"
#include "ui/inspector/precision/precision_tab.h"
#include "ui/precision/weight_sizes.h"
#include "ui/theme/theme.h"

using namespace vitrine;
using test::WindowParts;

namespace {

// The inspector on screen, with a tiny real model and a chat.
struct Scene : WindowParts {
  Scene() : inspector(engine, settings) {
    inspector.resize(364, 900);
    inspector.show();
    loaded = load(writeParrot("parrot.gguf", "blue, green and grey"));
    session = pool.createConversation();
    inspector.setSession(session);
  }

  template <typename Widget>
  Widget* find(const char* name = "") {
    const QString objectName = QString::fromLatin1(name);
    return objectName.isEmpty() ? inspector.findChild<Widget*>()
                                : inspector.findChild<Widget*>(objectName);
  }
  QString label(const char* name) { return find<ui::PlainLabel>(name)->text(); }
  void click(ui::SegmentedSwitch* field, int index) {
    QTest::mouseClick(field, Qt::LeftButton, {}, field->choiceRect(index).center());
  }
  // What the last turn of the chat reported.
  const engine::TurnReport& last() { return session->rows().back().metrics.report; }

  ui::InspectorPanel inspector;
  app::ChatSession* session = nullptr;
  bool loaded = false;
};

}  // namespace

class TestInspector : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { ui::Theme::instance().install(*qApp); }

  void cacheTabShowsWhatTheEngineHolds() {
    Scene scene;
    QVERIFY(scene.loaded);
    test::settle();
    QVERIFY(scene.label("kvDetails").contains("0 blocks"));
    QVERIFY(scene.ask(scene.session, "Name three colours, please, and take your time."));
    test::settle();
    const engine::TurnReport& report = scene.last();
    QVERIFY(report.kv.blocksUsed > 1);
    QVERIFY2(scene.label("kvDetails").contains(QString::number(report.kv.blocksUsed) + " blocks"),
             qPrintable(scene.label("kvDetails")));
    // B × L × S × H_kv × D × 2 × bytes with this model's numbers and this chat's S.
    const auto snapshot = scene.engine.snapshot();
    const auto perToken = snapshot->bytesPerBlock / std::uint64_t(snapshot->shape.blockSize);
    const auto tokens = report.kv.bytesUsed / perToken;
    const QString formula = scene.find<ui::FormulaView>()->accessibleName();
    QVERIFY2(formula.contains(QString("1 × 2 × %1 × 2 × 16 × 2 × 2").arg(tokens)),
             qPrintable(formula));
    QCOMPARE(perToken, std::uint64_t(2 * 2 * 16 * 2 * 2));
  }

  void blockMapNamesWhoHoldsABlock() {
    Scene scene;
    app::ChatSession* other = scene.pool.createConversation();
    QVERIFY(scene.ask(other, "Something else altogether, quite long so that it fills blocks."));
    QVERIFY(scene.ask(scene.session, "Name three colours, please, and take your time."));
    scene.inspector.setOwnerLook([](const QString&) {
      return ui::OwnerLook{"<b>Other</b> & co", Qt::red};
    });
    test::settle();
    const auto* map = scene.find<ui::BlockMap>();
    bool own = false;
    bool foreign = false;
    for (int cell = 0; cell < 64; ++cell) {
      own |= map->describe(cell).contains("this chat");
      foreign |= map->describe(cell).contains("<b>Other</b> & co");  // literally
    }
    QVERIFY(own);
    QVERIFY(foreign);
    const auto snapshot = scene.engine.snapshot();
    QVERIFY(map->accessibleDescription().contains(QString::number(snapshot->blocks.size())));
    QVERIFY(map->height() <= 200);
  }

  void kvSwitchTakesEffectAndBytesFall() {
    Scene scene;
    QVERIFY(scene.ask(scene.session, "Name three colours."));
    const auto before = scene.engine.snapshot()->bytesPerBlock;
    scene.inspector.showTab("precision");
    test::settle();
    scene.click(scene.find<ui::SegmentedSwitch>("kvSwitch"), 1);
    QVERIFY(scene.waitUntilSettled());
    QCOMPARE(scene.engine.info()->running.cache.type, engine::KvType::kInt8);
    QCOMPARE(scene.settings.engineConfig().cache.type, engine::KvType::kInt8);
    QVERIFY(scene.ask(scene.session, "And three more."));
    QCOMPARE(scene.last().kvType, std::string("int8"));
    const auto after = scene.engine.snapshot();
    QVERIFY(after->bytesPerBlock < before);
    QVERIFY(after->memory.kvScaleBytesPerBlock > 0);
    test::settle();
    QCOMPARE(scene.find<ui::SegmentedSwitch>("kvSwitch")->current(), 1);
    scene.inspector.showTab("cache");
    test::settle();
    QVERIFY2(scene.label("kvHeld").contains("scales"), qPrintable(scene.label("kvHeld")));
  }

  void weightAndActivationSwitchesTakeEffect() {
    Scene scene;
    scene.inspector.showTab("precision");
    test::settle();
    auto* activations = scene.find<ui::SegmentedSwitch>("activationsSwitch");
    QVERIFY(!activations->isEnabled());  // INT8 activations need INT8 weights
    scene.click(scene.find<ui::SegmentedSwitch>("weightsSwitch"), 3);
    QVERIFY(scene.waitUntilSettled());
    QCOMPARE(scene.engine.info()->running.precision.weights, engine::WeightMode::kInt8);
    test::settle();
    QVERIFY(activations->isEnabled());
    scene.click(activations, 1);
    QVERIFY(scene.waitUntilSettled());
    QVERIFY(scene.ask(scene.session, "Name three colours."));
    QCOMPARE(scene.last().weights, std::string("int8"));
    QCOMPARE(scene.last().activations, std::string("int8"));
    test::settle();
    const auto sizeOf = [&](const QString& mode) {
      for (const auto* grid : scene.inspector.findChildren<ui::FigureGrid*>()) {
        const QString figure = grid->figure(mode);  // the KV cache's grid says neither
        if (figure.contains("measured") || figure.contains("computed")) return figure;
      }
      return QString();
    };
    QVERIFY2(sizeOf("INT8").contains("measured"), qPrintable(sizeOf("INT8")));
    const QString computed = sizeOf("FP16");
    QVERIFY2(computed.contains("computed"), qPrintable(computed));
    // Back to FP16 weights: INT8 activations go with them.
    scene.click(scene.find<ui::SegmentedSwitch>("weightsSwitch"), 1);
    QVERIFY(scene.waitUntilSettled());
    QCOMPARE(scene.engine.info()->running.precision.activations, engine::ActivationMode::kFp16);
    test::settle();
    QCOMPARE(sizeOf("FP16"), QString(computed).replace("computed", "measured"));
  }

  void reuseAndCacheTogglesChangeWhatIsComputed() {
    Scene scene;
    scene.inspector.showTab("precision");
    QVERIFY(scene.ask(scene.session, "Name three colours."));
    QVERIFY(scene.ask(scene.session, "And three more."));
    QVERIFY(scene.last().reusedTokens > 0);
    test::settle();
    QTest::mouseClick(scene.find<ui::ToggleSwitch>("reuseToggle"), Qt::LeftButton);
    QVERIFY(scene.waitUntilSettled());
    QVERIFY(scene.ask(scene.session, "And again."));
    QCOMPARE(scene.last().reusedTokens, 0);
    const std::string withCache = scene.last().text;
    test::settle();
    QTest::mouseClick(scene.find<ui::ToggleSwitch>("cacheToggle"), Qt::LeftButton);
    QVERIFY(scene.waitUntilSettled());
    QVERIFY(!scene.engine.info()->running.cache.enabled);
    QVERIFY(scene.ask(scene.session, "And again."));
    QCOMPARE(scene.last().text, withCache);  // slower, not other
    test::settle();
    QVERIFY(!scene.find<ui::ToggleSwitch>("reuseToggle")->isEnabled());
  }

  void contiguousLayoutShowsItsWaste() {
    Scene scene;
    scene.inspector.showTab("precision");
    test::settle();
    scene.click(scene.find<ui::SegmentedSwitch>("layoutSwitch"), 1);
    QVERIFY(scene.waitUntilSettled());
    QCOMPARE(scene.engine.info()->running.cache.layout, engine::KvLayout::kContiguous);
    QVERIFY(scene.ask(scene.session, "Name three colours."));
    QVERIFY(scene.last().kv.bytesReserved > 2 * scene.last().kv.bytesUsed);
  }

  void latencyTabShowsEachTurn() {
    Scene scene;
    scene.inspector.showTab("latency");
    QVERIFY(scene.ask(scene.session, "Name three colours."));
    QVERIFY(scene.ask(scene.session, "And three more."));
    test::settle();
    auto* table = scene.find<ui::TurnTable>();
    QCOMPARE(table->rowCount(), 2);
    const engine::TurnReport& report = scene.last();
    QVERIFY(table->rowText(1).contains(QString("%1 reused").arg(report.reusedTokens)));
    QVERIFY(table->rowText(1).contains(QString("%1 generated").arg(report.generatedTokens)));
    const QString parts = scene.find<ui::Waterfall>()->accessibleDescription();
    for (const char* part : {"template", "tokenize", "match", "queue", "prefill", "sample"}) {
      QVERIFY2(parts.contains(part), qPrintable(parts));
    }
    auto* tab = scene.find<ui::LatencyTab>();
    QCOMPARE(tab->selectedTurn(), 2);
    table->setFocus();
    QTest::keyClick(table, Qt::Key_Up);
    QCOMPARE(tab->selectedTurn(), 1);
    QVERIFY(scene.ask(scene.session, "More."));  // the person's choice stays
    test::settle();
    QCOMPARE(tab->selectedTurn(), 1);
    const auto* strip = scene.find<ui::TokenStrip>();
    QVERIFY(strip->p50() > 0);
    QVERIFY(strip->p95() >= strip->p50());
  }

  void nothingRunsWhileIdleOrHidden() {
    Scene scene;
    QVERIFY(scene.ask(scene.session, "Name three colours."));
    QTest::qWait(500);
    for (const QTimer* timer : scene.inspector.findChildren<QTimer*>()) QVERIFY(!timer->isActive());
    const auto painted = scene.inspector.state().snapshot;
    scene.inspector.hide();
    QVERIFY(scene.ask(scene.session, "And three more."));
    QTest::qWait(300);
    QVERIFY(scene.inspector.state().snapshot == painted);  // did not look
    scene.inspector.show();
    QTest::qWait(300);
    QVERIFY(scene.inspector.state().snapshot != painted);
    QCOMPARE(int(scene.inspector.state().turns.size()), 2);
  }

  void memoryLedgerAddsUp() {
    Scene scene;
    QVERIFY(scene.ask(scene.session, "Name three colours."));
    QTest::qWait(1300);
    const engine::MemoryLedger& memory = scene.inspector.state().memory;
    QVERIFY(memory.known);
    QVERIFY(memory.weights > 0);
    QVERIFY(memory.kvUsed > 0);
    QCOMPARE(memory.rss, std::uint64_t(std::int64_t(memory.sum()) + memory.residual()));
    QVERIFY2(std::abs(double(memory.residual())) <= 0.03 * double(memory.rss),
             qPrintable(QString("%1 of %2").arg(memory.sum()).arg(memory.rss)));
    const auto* sums = scene.find<ui::FigureGrid>("ledgerSums");
    QCOMPARE(sums->figure("the system says"), ui::bytesText(memory.rss));
    QCOMPARE(sums->figure("parts together"), ui::bytesText(memory.sum()));
  }

  void computedWeightBytesFollowTheShapes() {
    Scene scene;
    const auto model = scene.engine.model();
    const auto bytes = [&](engine::WeightMode mode) {
      return ui::computedWeightBytes(model->weights(), {mode, engine::ActivationMode::kFp16, 32});
    };
    QCOMPARE(bytes(engine::WeightMode::kFp16), bytes(engine::WeightMode::kBf16));
    QVERIFY(bytes(engine::WeightMode::kInt8) < bytes(engine::WeightMode::kFp16));
    QVERIFY(bytes(engine::WeightMode::kFp16) < bytes(engine::WeightMode::kNative));  // F32 file
  }

  void withoutModelTheTabsSayWhatComes() {
    WindowParts parts;
    ui::InspectorPanel inspector(parts.engine, parts.settings);
    inspector.resize(364, 900);
    inspector.show();
    for (const char* tab : {"cache", "latency", "precision"}) {
      inspector.showTab(tab);
      test::settle();
      QVERIFY(!inspector.grab().isNull());
    }
    QString words;
    for (const auto* label : inspector.findChildren<ui::PlainLabel*>()) {
      if (label->isVisibleTo(&inspector)) words += label->text() + '\n';
    }
    QVERIFY2(words.contains("Load a model"), qPrintable(words));
  }
};

QTEST_MAIN(TestInspector)
#include "tst_inspector.moc"

#include <QMenu>
#include <QSignalSpy>
#include <QTest>

#include "tests/ui/window_parts.h"
#include "ui/common/segmented_switch.h"
#include "ui/common/toggle_switch.h"
#include "ui/theme/theme.h"
#include "ui/topbar/chips.h"
#include "ui/topbar/top_bar.h"

using namespace vitrine;
using test::WindowParts;

class TestTopBar : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { ui::Theme::instance().install(*qApp); }

  void switchesTakeEffectOnTheLoadedModel() {
    WindowParts parts;
    ui::TopBar bar(parts.engine, parts.settings);
    bar.resize(1440, 52);
    bar.show();
    QVERIFY(parts.load(parts.writeParrot("parrot.gguf", "fine")));
    auto* kv = bar.findChild<ui::SegmentedSwitch*>("topKv");
    QTest::mouseClick(kv, Qt::LeftButton, {}, kv->choiceRect(1).center());
    QVERIFY(parts.waitUntilSettled());
    QCOMPARE(parts.engine.info()->running.cache.type, engine::KvType::kInt8);
    QCOMPARE(kv->current(), 1);
    // By keyboard, too.
    auto* weights = bar.findChild<ui::SegmentedSwitch*>("topWeights");
    weights->setFocus();
    QTest::keyClick(weights, Qt::Key_Left);
    QTest::keyClick(weights, Qt::Key_Space);
    QVERIFY(parts.waitUntilSettled());
    QCOMPARE(parts.engine.info()->running.precision.weights, engine::WeightMode::kInt8);
    QTest::mouseClick(bar.findChild<ui::ToggleSwitch*>("topReuse"), Qt::LeftButton);
    QVERIFY(parts.waitUntilSettled());
    QVERIFY(!parts.engine.info()->running.cache.reuse);
    QVERIFY(!parts.settings.engineConfig().cache.reuse);
  }

  void theDeviceIsChosenInItsMenu() {
    WindowParts parts;
    ui::TopBar bar(parts.engine, parts.settings);
    bar.resize(1440, 52);
    bar.show();
    QVERIFY(parts.load(parts.writeParrot("parrot.gguf", "fine")));
    auto* chip = bar.findChild<ui::DeviceChip*>("deviceChip");
    auto* menu = bar.findChild<QMenu*>("deviceMenu");
    QTest::mouseClick(chip, Qt::LeftButton);
    QTRY_VERIFY(menu->isVisible());
    QVERIFY(menu->actions().size() >= 3);  // automatic, the processor, GPUs or why there is none
    QVERIFY(menu->actions()[0]->isChecked());
    menu->actions()[1]->trigger();
    menu->hide();
    QVERIFY(parts.waitUntilSettled());
    QCOMPARE(parts.engine.info()->running.backend, engine::BackendKind::kCpu);
    QCOMPARE(parts.settings.engineConfig().backend, engine::BackendKind::kCpu);
    QTest::mouseClick(chip, Qt::LeftButton);
    QVERIFY(menu->actions()[1]->isChecked());
    menu->hide();
  }

  void withoutModelSwitchesAreForTheNextOne() {
    WindowParts parts;
    ui::TopBar bar(parts.engine, parts.settings);
    bar.show();
    auto* kv = bar.findChild<ui::SegmentedSwitch*>("topKv");
    QTest::mouseClick(kv, Qt::LeftButton, {}, kv->choiceRect(1).center());
    QVERIFY(!parts.engine.isLoading());
    QCOMPARE(kv->current(), 1);
    QVERIFY(parts.load(parts.writeParrot("parrot.gguf", "fine")));
    QCOMPARE(parts.engine.info()->running.cache.type, engine::KvType::kInt8);
  }

  void namesAreShownLiterally() {
    WindowParts parts;
    ui::TopBar bar(parts.engine, parts.settings);
    bar.resize(1440, 52);
    bar.show();
    const QString file = parts.writeParrot("<h1>big & bold.gguf", "fine", "<i>slanted</i> & co");
    QVERIFY(parts.load(file));
    parts.settings.setLastModel(app::toPath(file));
    auto* model = bar.findChild<ui::ModelButton*>("modelButton");
    QVERIFY2(model->accessibleName().contains("<h1>big & bold"),
             qPrintable(model->accessibleName()));
    QVERIFY2(model->toolTip().contains("&lt;i&gt;slanted&lt;/i&gt; &amp; co"),
             qPrintable(model->toolTip()));
    bar.openModelMenu();
    auto* menu = bar.findChild<QMenu*>();
    QCOMPARE(menu->actions().first()->text(), QString("<h1>big && bold.gguf"));
    QSignalSpy wanted(&bar, &ui::TopBar::modelWanted);
    menu->actions().first()->trigger();
    QCOMPARE(wanted.count(), 1);
    menu->close();
  }

  void nothingIsCutAtAnyWidth_data() {
    QTest::addColumn<int>("width");
    for (const int width : {1920, 1440, 1280, 1100, 1000, 900, 800, 700}) {
      QTest::addRow("%d", width) << width;
    }
  }
  void nothingIsCutAtAnyWidth() {
    QFETCH(int, width);
    WindowParts parts;
    ui::TopBar bar(parts.engine, parts.settings);
    bar.show();
    QVERIFY(parts.load(parts.writeParrot("a model with quite a long file name.gguf", "fine")));
    bar.setContext(123'456, 131'072);
    bar.resize(width, 52);
    QTest::qWait(50);
    QVERIFY(!bar.grab().isNull());
    QWidget* before = nullptr;
    for (QObject* object : bar.children()) {
      auto* child = qobject_cast<QWidget*>(object);
      if (!child || child->isWindow() || !child->isVisible()) continue;
      const QString where = QString("%1 at %2").arg(child->metaObject()->className()).arg(width);
      QVERIFY2(child->geometry().left() >= 0 && child->geometry().right() < width,
               qPrintable(where));
      QVERIFY2(child->width() >= child->sizeHint().width(), qPrintable(where));
      if (before)
        QVERIFY2(before->geometry().right() < child->geometry().left(), qPrintable(where));
      before = child;
    }
    QVERIFY(bar.findChild<ui::ModelButton*>("modelButton")->isVisible());
    QVERIFY(bar.findChild<ui::SegmentedSwitch*>("topWeights")->isVisible());
    if (width >= 1440) QVERIFY(bar.findChild<ui::DeviceChip*>()->isVisible());
  }

  void contextBarWarnsInWords() {
    ui::ContextBar bar;
    bar.setUse(100, 1000);
    QVERIFY(bar.accessibleName().contains("100 of 1000"));
    const QSize small = bar.sizeHint();
    bar.setUse(850, 1000);
    QCOMPARE(bar.sizeHint(), small);  // counting up moves nothing
    bar.setUse(1000, 1000);
    QVERIFY(bar.sizeHint().width() > small.width());  // "Context full"
    bar.setUse(5, 0);
    QVERIFY(bar.accessibleName().contains("no model"));
  }
};

QTEST_MAIN(TestTopBar)
#include "tst_top_bar.moc"

// The Lab page offscreen, with a real engine and a tiny real model.
#include <QFileInfo>
#include <QPushButton>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTest>

#include "app/lab/lab_types.h"
#include "tests/ui/window_fixture.h"
#include "tests/ui/window_parts.h"
#include "ui/common/plain_label.h"
#include "ui/lab/lab_chart.h"
#include "ui/lab/lab_page.h"
#include "ui/lab/lab_table.h"
#include "ui/lab/load_form.h"
#include "ui/lab/recommendation_card.h"
#include "ui/theme/theme.h"

using namespace vitrine;
using test::WindowParts;

namespace {

struct Scene : WindowParts {
  Scene() {
    engine::EngineConfig config = settings.engineConfig();
    config.threads = 1;
    config.cache.budgetBytes = 4 << 20;
    settings.setEngineConfig(config);
    page = std::make_unique<ui::LabPage>(engine, settings, folder.filePath("lab"));
    page->resize(1190, 840);
    page->show();
  }
  QPushButton* button(const char* name) const { return page->findChild<QPushButton*>(name); }
  bool waitForEnd(int milliseconds = 240'000) const {
    return QTest::qWaitFor([this] { return !page->isRunning(); }, milliseconds);
  }
  bool measure(const char* row) const {
    QTest::mouseClick(button(qPrintable(QStringLiteral("run ") + row)), Qt::LeftButton);
    return page->isRunning() && waitForEnd();
  }

  std::unique_ptr<ui::LabPage> page;
};

}  // namespace

class TestLabPage : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { ui::Theme::instance().install(*qApp); }

  void withoutModelItSaysWhatWillBeThere() {
    Scene scene;
    QVERIFY(!scene.button("runQuick")->isEnabled());
    QVERIFY(!scene.button("exportReport")->isEnabled());
    QCOMPARE(scene.page->table()->gain("kv-cache"), QString("not measured yet"));
    QVERIFY(scene.page->throughputChart()->isEmpty());
    QVERIFY(!scene.page->grab().isNull());
  }

  void oneRowIsMeasuredAndTheWindowStaysAlive() {
    Scene scene;
    QVERIFY(scene.load(scene.writeModel("tiny.gguf")));
    QVERIFY(scene.button("runQuick")->isEnabled());
    const auto before = scene.engine.snapshot()->promptTokens;
    // A timer of this thread beats while the row runs on another.
    QElapsedTimer since;
    qint64 longest = 0;
    QTimer heart;
    connect(&heart, &QTimer::timeout, &heart,
            [&] { longest = std::max(longest, since.restart()); });
    since.start();
    heart.start(5);
    QVERIFY(scene.measure("kv-cache"));
    heart.stop();
    QVERIFY2(longest < 500, qPrintable(QString::number(longest)));
    QVERIFY2(scene.page->table()->gain("kv-cache").contains("less time for 128 tokens"),
             qPrintable(scene.page->table()->gain("kv-cache")));
    QVERIFY(!scene.page->cacheChart()->isEmpty());
    QCOMPARE(scene.engine.snapshot()->promptTokens, before);  // the chats' engine did nothing
    QCOMPARE(scene.button("runQuick")->text(), QString("Go on · 5 rows left"));

    // It is kept for the next start.
    ui::LabPage another(scene.engine, scene.settings, scene.folder.filePath("lab"));
    QCOMPARE(another.table()->gain("kv-cache"), scene.page->table()->gain("kv-cache"));
  }

  void aRecommendationIsAppliedWithOneClick() {
    Scene scene;
    QVERIFY(scene.load(scene.writeModel("tiny.gguf")));
    ui::RecommendationCard* card = scene.page->card(2);
    QVERIFY(!card->applyButton()->isVisible());
    QVERIFY(scene.measure("int8-weights"));
    QVERIFY(scene.measure("int8-kv"));
    QVERIFY(card->applyButton()->isVisible());
    engine::EngineConfig wanted = card->recommendation().config;
    if (wanted ==
        scene.engine.config()) {  // the figures of a tiny model may say so: start elsewhere
      engine::EngineConfig other = wanted;
      other.precision.weights = wanted.precision.weights == engine::WeightMode::kFp16
                                    ? engine::WeightMode::kNative
                                    : engine::WeightMode::kFp16;
      other.precision.activations = engine::ActivationMode::kFp16;
      scene.engine.reconfigure(other);
      QVERIFY(scene.waitUntilSettled());
    }
    QTRY_VERIFY(card->applyButton()->isEnabled());
    QTest::mouseClick(card->applyButton(), Qt::LeftButton);
    QVERIFY(scene.waitUntilSettled());
    QVERIFY(scene.engine.info()->running == wanted);
    QVERIFY(scene.settings.engineConfig().precision == wanted.precision);
    QVERIFY(!card->applyButton()->isEnabled());
    QVERIFY(scene.page->table()->gain("int8-kv").contains("more context"));  // the table stays

    scene.page->resize(1190, 1500);
    for (const bool dark : {true, false}) {
      ui::Theme::instance().setMode(dark ? ui::ThemeMode::kDark : ui::ThemeMode::kLight);
      ui::WindowFixture::grab(scene.page.get(), dark ? "lab-page-dark" : "lab-page-light");
    }
    for (const auto format : {app::lab::ReportFormat::kHtml, app::lab::ReportFormat::kPdf,
                              app::lab::ReportFormat::kMarkdown, app::lab::ReportFormat::kJson}) {
      const QString file = scene.folder.filePath(QString("out.") + suffixOf(format));
      QVERIFY(scene.page->exportReport(format, file));
      QVERIFY(QFileInfo(file).size() > 1000);
    }
    QVERIFY(!scene.page->exportReport(app::lab::ReportFormat::kJson, "/no/such/folder/x.json"));
  }

  void aRunIsStoppedWithinAMoment() {
    Scene scene;
    QVERIFY(scene.load(scene.writeModel("tiny.gguf")));
    QTest::mouseClick(scene.button("runFull"), Qt::LeftButton);
    QVERIFY(scene.page->isRunning());
    QTRY_VERIFY(scene.button("stopLab")->isVisible());
    QVERIFY(!scene.button("runQuick")->isEnabled());
    QTest::qWait(400);
    QElapsedTimer timer;
    timer.start();
    QTest::mouseClick(scene.button("stopLab"), Qt::LeftButton);
    QVERIFY(scene.waitForEnd(20'000));
    QVERIFY2(timer.elapsed() < 5000, qPrintable(QString::number(timer.elapsed())));
    QVERIFY(scene.button("runQuick")->isEnabled());
  }

  void theLoadFormDrawsItsOwnChart() {
    Scene scene;
    QVERIFY(scene.load(scene.writeModel("tiny.gguf")));
    ui::LoadForm* form = scene.page->loadForm();
    const auto number = [&](const QString& name) -> QSpinBox* {
      for (auto* box : form->findChildren<QSpinBox*>()) {
        if (box->accessibleName() == name) return box;
      }
      return nullptr;
    };
    number("Shortest prompt, tokens")->setValue(60);  // longer than the longest
    QTest::mouseClick(scene.button("runLoad"), Qt::LeftButton);
    QVERIFY(!scene.page->isRunning());
    QVERIFY(form->summary()->text().contains("prompt"));
    number("Shortest prompt, tokens")->setValue(8);
    number("Most chats at once")->setValue(4);
    QCOMPARE(form->levels(), (std::vector<int>{1, 2, 4}));
    QTest::mouseClick(scene.button("runLoad"), Qt::LeftButton);
    QVERIFY(scene.page->isRunning());
    QVERIFY(scene.waitForEnd());
    QCOMPARE(form->throughputChart()->chart().series.size(), std::size_t(1));
    QCOMPARE(form->throughputChart()->chart().series[0].x, (std::vector<double>{1, 2, 4}));
    QVERIFY2(form->summary()->text().contains("4 at once"), qPrintable(form->summary()->text()));
  }
};

QTEST_MAIN(TestLabPage)
#include "tst_lab_page.moc"

// The Studio offscreen, with real engines and models: calibrate, look, switch, measure, keep.
#include <QCheckBox>
#include <QComboBox>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QSlider>
#include <QSpinBox>
#include <QTest>
#include <QTreeWidget>

#include "tests/test_model.h"
#include "tests/ui/window_fixture.h"
#include "tests/ui/window_parts.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/common/toast.h"
#include "ui/studio/bar_chart.h"
#include "ui/studio/calibrate_dialog.h"
#include "ui/studio/column_chart.h"
#include "ui/studio/heat_map.h"
#include "ui/studio/histogram_view.h"
#include "ui/studio/loss_section.h"
#include "ui/studio/outlier_section.h"
#include "ui/studio/profile_section.h"
#include "ui/studio/range_section.h"
#include "ui/studio/sensitivity_section.h"
#include "ui/studio/smoothing_preview.h"
#include "ui/studio/studio_page.h"
#include "ui/studio/studio_state.h"
#include "ui/studio/text_choice.h"
#include "ui/theme/theme.h"

using namespace vitrine;
using namespace vitrine::ui;
using test::WindowParts;

namespace {

struct Scene : WindowParts {
  Scene() {
    settings.setCalibrationFolder(paths.calibration());
    engine::EngineConfig config = settings.engineConfig();
    config.cache.budgetBytes = 32 << 20;
    settings.setEngineConfig(config);
    page = std::make_unique<StudioPage>(engine, settings, *store, paths.calibration());
    page->resize(1032, 748);
    page->show();
  }
  ~Scene() { page.reset(); }

  template <typename Widget>
  Widget* find(const char* name) const {
    auto* found = page->findChild<Widget*>(name);
    if (found == nullptr) qFatal("no %s", name);
    return found;
  }
  void click(const char* name) const { QTest::mouseClick(find<QPushButton>(name), Qt::LeftButton); }
  bool waitForEnd(int milliseconds = 240'000) const {
    return QTest::qWaitFor([this] { return !page->isRunning(); }, milliseconds);
  }
  QString fault() const {
    auto* label = find<PlainLabel>("studioFault");
    return label->isHidden() ? QString() : label->text();
  }
  /// Through the wizard, with these bundled texts alone.
  bool calibrate(const QStringList& texts, const QString& name, int tokens) {
    click("calibrate");
    auto* dialog = page->findChild<CalibrateDialog*>();
    if (dialog == nullptr) return false;
    for (const char* id : {"english", "chinese", "code", "chat"}) {
      auto* box = dialog->findChild<QCheckBox*>(QStringLiteral("calibrate ") + id);
      if (box != nullptr) box->setChecked(texts.contains(id));
    }
    dialog->setName(name);
    dialog->findChild<QSpinBox*>("calibrateTokens")->setValue(tokens);
    QTest::mouseClick(dialog->findChild<QPushButton*>("startCalibration"), Qt::LeftButton);
    QTest::qWait(0);  // the dialog goes
    return page->isRunning() && waitForEnd() && page->state().profile() &&
           page->state().profile()->name == name.toStdString();
  }
  void grabAll(const QString& prefix) {
    const std::pair<StudioPage::Section, const char*> sections[] = {
        {StudioPage::kProfiles, "profiles"}, {StudioPage::kRanges, "ranges"},
        {StudioPage::kOutliers, "outliers"}, {StudioPage::kSensitivity, "sensitivity"},
        {StudioPage::kLoss, "loss"},         {StudioPage::kDemo, "demo"}};
    for (const auto& [section, name] : sections) {
      page->showSection(section);
      QTest::qWait(700);
      for (const bool dark : {true, false}) {
        Theme::instance().setMode(dark ? ThemeMode::kDark : ThemeMode::kLight);
        QTest::qWait(20);
        WindowFixture::grab(page.get(),
                            QStringLiteral("studio-%1-%2-%3")
                                .arg(prefix, QString::fromLatin1(name),
                                     dark ? QStringLiteral("dark") : QStringLiteral("light")));
      }
    }
  }

  std::unique_ptr<StudioPage> page;
};

}  // namespace

class TestStudioPage : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { Theme::instance().install(*qApp); }

  void withoutAModelEverySectionSaysWhatWillBeThere() {
    Scene scene;
    for (const char* button :
         {"calibrate", "calibrateHere", "useStatic", "deleteProfile", "compareProfiles", "useMixed",
          "useSmooth", "startSensitivity", "keepLayers", "startLoss"}) {
      QVERIFY2(!scene.find<QPushButton>(button)->isEnabled(), button);
    }
    QVERIFY(scene.find<PlainLabel>("profilesEmpty")->text().contains("Open a model"));
    QVERIFY(scene.find<PlainLabel>("sensitivitySummary")->text().contains("Open a model"));
    QVERIFY(scene.find<PlainLabel>("lossSummary")->text().contains("Open a model"));
    QVERIFY(scene.page->ranges()->heatMap()->accessibleDescription().contains("Calibrate"));
    scene.grabAll("empty");
  }

  void calibrateLookSwitchMeasureAndKeep() {
    if (!test::haveTestModel()) QFAIL(test::missingModelMessage().c_str());
    Scene scene;
    QVERIFY(scene.load(app::displayPath(test::testModelPath())));
    StudioPage& page = *scene.page;
    QVERIFY(scene.find<PlainLabel>("profilesEmpty")->isVisible());
    const auto before = scene.engine.snapshot()->promptTokens;

    // Calibrate twice: the second is compared with the first at once.
    QVERIFY2(scene.calibrate({"code"}, "On code", 512), qPrintable(scene.fault()));
    QVERIFY2(scene.calibrate({"english"}, "On English", 512), qPrintable(scene.fault()));
    QCOMPARE(page.profiles()->list()->topLevelItemCount(), 2);
    QCOMPARE(page.state().profile()->tokens, 512);
    QVERIFY2(page.profiles()->summary().contains("On code"),
             qPrintable(page.profiles()->summary()));
    QCOMPARE(page.profiles()->report()->topLevelItemCount(), 121);
    QCOMPARE(scene.engine.snapshot()->promptTokens, before);  // the chats' engine did nothing
    QCOMPARE(QDir(scene.paths.calibration()).entryList(QDir::Files).size(), 2);

    // Compared with a text: it is read, and nothing is saved.
    auto* others = scene.find<QComboBox>("compareWith");
    others->setCurrentIndex(others->findText("Read: ", Qt::MatchStartsWith));
    scene.click("compareProfiles");
    QVERIFY(page.isRunning());
    QVERIFY(scene.waitForEnd());
    QVERIFY(page.profiles()->report()->topLevelItemCount() == 121);
    QCOMPARE(page.profiles()->list()->topLevelItemCount(), 2);

    // The map shows the profile, and a click chooses a site.
    page.showSection(StudioPage::kRanges);
    HeatMap* map = page.ranges()->heatMap();
    QCOMPARE(map->rowCount(), 31);
    const auto& sites = page.state().profile()->sites;
    const int each = map->channelsOfCell();
    const auto& third = sites[std::size_t(engine::siteIndex(3, engine::LinearInput::kAttention))];
    QCOMPARE(map->cellValue(3, 0),
             *std::max_element(third.channelMax.begin(), third.channelMax.begin() + each));
    QTest::mouseClick(map, Qt::LeftButton, {}, map->cellRect(3, 5).center().toPoint());
    QCOMPARE(page.state().site(), engine::siteIndex(3, engine::LinearInput::kAttention));
    auto* kind = scene.find<SegmentedSwitch>("studioInputKind");
    QTest::mouseClick(kind, Qt::LeftButton, {}, kind->choiceRect(3).center());
    QCOMPARE(page.state().site(), engine::siteIndex(3, engine::LinearInput::kDown));
    QCOMPARE(map->rowCount(), 30);
    QCOMPARE(page.ranges()->histogram()->marks().size(), 3);
    QCOMPARE(page.ranges()->figures(0)[3], QString("0 %"));  // the maximum clips nothing

    // Static scales.
    page.showSection(StudioPage::kProfiles);
    scene.click("useStatic");
    QVERIFY(scene.waitUntilSettled());
    QVERIFY(scene.engine.info());
    const auto running = [&] { return scene.engine.info()->running.precision; };
    QVERIFY(running().activationScales == engine::ActivationScales::kStatic);
    QCOMPARE(running().calibration->id, page.state().profile()->id);
    QVERIFY(!scene.find<QPushButton>("useStatic")->isEnabled());

    // Mixed: fewer columns the higher the threshold.
    page.showSection(StudioPage::kOutliers);
    OutlierSection* outliers = page.outliers();
    outliers->thresholdSlider()->setValue(80);
    const QString high = outliers->mixedText();
    outliers->thresholdSlider()->setValue(8);
    QVERIFY2(outliers->mixedText() != high, qPrintable(high));
    scene.click("useMixed");
    QVERIFY(scene.waitUntilSettled());
    QVERIFY(running().outliers == engine::OutlierMode::kMixed);
    QCOMPARE(running().outlierThreshold, 2.0F);

    // Smoothing: by the real plan, the input's largest channel comes closer to the others.
    outliers->alphaSlider()->setValue(14);
    QTRY_VERIFY_WITH_TIMEOUT(!outliers->inputs()->before().empty(), 20'000);
    QTRY_VERIFY_WITH_TIMEOUT(outliers->inputs()->values() != outliers->inputs()->before(), 20'000);
    QVERIFY2(outliers->smoothText().contains("times the levels"),
             qPrintable(outliers->smoothText()));
    scene.click("useSmooth");
    QVERIFY(scene.waitUntilSettled());
    QVERIFY(running().outliers == engine::OutlierMode::kSmooth);
    QVERIFY(std::abs(running().smoothing - 0.7F) < 1e-6F);

    // Loss, row by row.
    page.showSection(StudioPage::kLoss);
    page.loss()->choose({"now", "w8a16-32", "w8a8-token"});
    scene.find<QSpinBox>("lossTokens")->setValue(300);
    scene.click("startLoss");
    QVERIFY(scene.waitForEnd());
    QVERIFY2(scene.fault().isEmpty(), qPrintable(scene.fault()));
    for (const char* id : {"now", "w8a16-32", "w8a8-token"}) {
      const QStringList figures = page.loss()->figures(id);
      QVERIFY2(figures.size() == 5 && figures[0].toDouble() > 1 && figures[1].toDouble() > 0 &&
                   figures[3].contains("%") && figures[4].contains("MB"),
               qPrintable(figures.join("|")));
    }
    QVERIFY(page.loss()->figures("kv8")[0].isEmpty());
    QVERIFY(page.loss()->figures("w8a16-32")[1].toDouble() <
            page.loss()->figures("w8a8-token")[1].toDouble());

    // Sensitivity: every layer and part, then the worst stay FP16.
    page.showSection(StudioPage::kSensitivity);
    scene.find<QSpinBox>("sensitivityTokens")->setValue(64);
    scene.click("startSensitivity");
    QVERIFY(scene.waitForEnd(480'000));
    QVERIFY2(scene.fault().isEmpty(), qPrintable(scene.fault()));
    const auto* report = page.sensitivity()->report();
    QVERIFY(report != nullptr);
    QCOMPARE(page.sensitivity()->layers()->bars().size(), 30);
    QCOMPARE(page.sensitivity()->parts()->bars().size(), 8);
    scene.find<QSpinBox>("keepCount")->setValue(2);
    int hatched = 0;
    for (const auto& bar : page.sensitivity()->layers()->bars()) {
      if (!bar.marked) continue;
      ++hatched;
      QVERIFY(bar.name.toStdString() == report->layers[0].name ||
              bar.name.toStdString() == report->layers[1].name);
    }
    QCOMPARE(hatched, 2);
    QVERIFY2(page.sensitivity()->keepText().contains("MB"),
             qPrintable(page.sensitivity()->keepText()));
    scene.click("keepLayers");
    QVERIFY(scene.waitUntilSettled());
    QCOMPARE(running().keep.size(), 2 * engine::kLayerParts);
    const engine::KeepChoice twoLayers = engine::mostSensitiveLayers(*report, 2);
    QVERIFY(running().keep == twoLayers.matrices);
    QVERIFY(scene.waitForEnd());
    QVERIFY2(page.sensitivity()->gainText().contains("Measured: KL"), qPrintable(scene.fault()));
    // The same bytes, spent on single matrices.
    auto* keepBy = scene.find<SegmentedSwitch>("keepBy");
    QTest::mouseClick(keepBy, Qt::LeftButton, {}, keepBy->choiceRect(1).center());
    QVERIFY2(page.sensitivity()->keepText().contains(" v"),
             qPrintable(page.sensitivity()->keepText()));
    QVERIFY(page.sensitivity()->gainText().isEmpty());
    for (const auto& bar : page.sensitivity()->layers()->bars()) QVERIFY(!bar.marked);
    scene.click("keepLayers");
    QVERIFY(scene.waitUntilSettled());
    QVERIFY(running().keep == engine::mostLossPerByte(*report, twoLayers.bytes).matrices);
    QVERIFY(running().keep != twoLayers.matrices);
    QVERIFY(scene.waitForEnd());
    QVERIFY2(page.sensitivity()->gainText().contains("Measured: KL"), qPrintable(scene.fault()));
    scene.grabAll("model");

    // The wish is remembered for the next start.
    QVERIFY(scene.settings.engineConfig().precision.outliers == engine::OutlierMode::kSmooth);
  }

  void aProfileIsDeletedAndBroughtBack() {
    Scene scene;
    QVERIFY(scene.load(scene.writeModel("tiny.gguf")));
    QVERIFY2(scene.calibrate({"english"}, "Gone & back", 256), qPrintable(scene.fault()));
    const std::string id = scene.page->state().profile()->id;
    scene.click("deleteProfile");
    QCOMPARE(scene.page->profiles()->list()->topLevelItemCount(), 0);
    QVERIFY(!scene.page->state().profile());
    QVERIFY(QDir(scene.paths.calibration()).entryList(QDir::Files).isEmpty());
    QCOMPARE(scene.page->ranges()->heatMap()->rowCount(), 0);
    auto* toast = Toast::of(scene.page.get());
    QVERIFY(toast->text().contains("Gone & back"));
    QTest::mouseClick(toast->findChild<QPushButton*>(), Qt::LeftButton);
    QTRY_COMPARE(scene.page->profiles()->list()->topLevelItemCount(), 1);
    QCOMPARE(scene.page->state().profile()->id, id);
    // A copy that was written elsewhere is taken in.
    const QString copy = scene.folder.filePath("copy.json");
    QVERIFY(engine::saveProfile(*scene.page->state().profile(), app::toPath(copy)));
    scene.click("deleteProfile");
    QCOMPARE(scene.page->profiles()->list()->topLevelItemCount(), 0);
    scene.page->profiles()->importFile(copy);
    QCOMPARE(scene.page->profiles()->list()->topLevelItemCount(), 1);
    scene.page->profiles()->importFile(scene.folder.filePath("none.json"));
    QVERIFY2(scene.fault().contains("none.json"), qPrintable(scene.fault()));
    // It is there for the next window, too.
    StudioPage another(scene.engine, scene.settings, *scene.store, scene.paths.calibration());
    QCOMPARE(another.state().profile()->id, id);
  }

  void workIsStoppedAndNothingIsSaved() {
    Scene scene;
    test::TinyModelOptions large;
    large.nLayers = 12;
    large.dModel = 256;
    large.dFfn = 512;
    QVERIFY(scene.load(scene.writeModel("large.gguf", large)));
    app::studio::CalibrationJob job;
    job.model = scene.page->state().model();
    job.config = scene.engine.config();
    job.config.threads = 1;
    job.mostTokens = 4'000'000;
    job.options.name = "Never";
    job.texts.push_back({"long", std::string(2'000'000, 'a'), {}});
    scene.page->calibrate(std::move(job));
    QVERIFY(scene.page->isRunning());
    QTRY_VERIFY(scene.find<QPushButton>("stopStudio")->isVisible());
    QVERIFY(!scene.find<QPushButton>("calibrate")->isEnabled());
    QTest::qWait(300);
    QVERIFY(scene.page->isRunning());
    scene.click("stopStudio");
    QVERIFY(scene.waitForEnd(30'000));
    QVERIFY(!scene.page->state().profile());
    QVERIFY2(scene.fault().isEmpty(), qPrintable(scene.fault()));  // stopping is no fault
    QVERIFY(scene.find<QPushButton>("calibrate")->isEnabled());
  }

  void filesAndConversationsAreRead() {
    Scene scene;
    QVERIFY(scene.load(scene.writeModel("tiny.gguf")));
    scene.settings.setSamplingDefaults({{"max_tokens", 12}});
    app::ChatSession* session = scene.pool.createConversation();
    QVERIFY(scene.ask(session, "a first question of some length, to be read again"));
    scene.click("calibrate");
    auto* dialog = scene.page->findChild<CalibrateDialog*>();
    QVERIFY(dialog != nullptr);
    for (auto* box : dialog->findChildren<QCheckBox*>()) box->setChecked(false);
    auto* start = dialog->findChild<QPushButton*>("startCalibration");
    QVERIFY(!start->isEnabled());
    auto* chats = dialog->findChild<QListWidget*>("calibrateChats");
    QCOMPARE(chats->count(), 1);
    chats->item(0)->setCheckState(Qt::Checked);
    QVERIFY(start->isEnabled());
    // What is no text is named, and the wizard stays open.
    const QString binary = scene.folder.filePath("picture.bin");
    QFile file(binary);
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write("PNG\0\1\2", 6) == 6);
    file.close();
    dialog->addFile(binary);
    QTest::mouseClick(start, Qt::LeftButton);
    auto* fault = dialog->findChild<PlainLabel*>("calibrateFault");
    QVERIFY(fault->isVisible());
    QVERIFY2(fault->text().contains("picture.bin"), qPrintable(fault->text()));
    QVERIFY(!scene.page->isRunning());
    dialog->findChild<QListWidget*>("calibrateFiles")->item(0)->setCheckState(Qt::Unchecked);
    for (const bool dark : {true, false}) {
      Theme::instance().setMode(dark ? ThemeMode::kDark : ThemeMode::kLight);
      WindowFixture::grab(dialog, dark ? "studio-wizard-dark" : "studio-wizard-light");
    }
    QTest::mouseClick(start, Qt::LeftButton);
    QVERIFY(scene.page->isRunning());
    QVERIFY(scene.waitForEnd());
    QVERIFY2(scene.fault().isEmpty(), qPrintable(scene.fault()));
    QVERIFY(scene.page->state().profile());
    QVERIFY(scene.page->state().profile()->tokens > 10);
    QCOMPARE(scene.page->state().profile()->sources.size(), std::size_t(1));
  }

  void anUnreadableProfileIsListedWithItsProblem() {
    Scene scene;
    QVERIFY(QDir().mkpath(scene.paths.calibration()));
    QFile broken(scene.paths.calibration() + "/broken.json");
    QVERIFY(broken.open(QIODevice::WriteOnly) && broken.write("{") == 1);
    broken.close();
    QVERIFY(scene.load(scene.writeModel("tiny.gguf")));
    auto* list = scene.page->profiles()->list();
    QCOMPARE(list->topLevelItemCount(), 1);
    QVERIFY(list->topLevelItem(0)->text(0).contains("broken.json"));
    QVERIFY(!list->topLevelItem(0)->text(1).isEmpty());
    QVERIFY(!scene.page->state().profile());
    list->setCurrentItem(list->topLevelItem(0));
    QVERIFY(scene.find<QPushButton>("deleteProfile")->isEnabled());
    scene.click("deleteProfile");
    QVERIFY(!QFileInfo::exists(broken.fileName()));
  }

  void thePageIsReachedFromTheSideBarAndByKey() {
    WindowFixture fixture;
    fixture.show();
    QTest::keyClick(fixture.window.get(), Qt::Key_S, Qt::ControlModifier | Qt::ShiftModifier);
    StudioPage* page = fixture.window->studioPage();
    QTRY_VERIFY(page->isVisible());
    QTest::keyClick(fixture.window.get(), Qt::Key_Escape);
    QVERIFY(!page->isVisible());
    for (auto* button : fixture.window->findChildren<QPushButton*>()) {
      if (button->accessibleName() == "Studio") QTest::mouseClick(button, Qt::LeftButton);
    }
    QVERIFY(page->isVisible());
    QCOMPARE(page->section(), StudioPage::kProfiles);
    QTest::keyClick(QApplication::focusWidget(), Qt::Key_Right);
    QCOMPARE(page->section(), StudioPage::kRanges);
    fixture.window->resize(1280, 800);
    page->showSection(StudioPage::kDemo);
    WindowFixture::grab(fixture.window.get(), "studio-window");
  }
};

QTEST_MAIN(TestStudioPage)
#include "tst_studio_page.moc"

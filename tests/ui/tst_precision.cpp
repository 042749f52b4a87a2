// The Precision panel and its warning, with real engines.
#include <QComboBox>
#include <QDir>
#include <QDoubleSpinBox>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QSignalSpy>
#include <QTest>

#include "app/studio/bundled_texts.h"
#include "app/studio/calibration_store.h"
#include "app/studio/profile_list.h"
#include "engine/quant/quant_plan.h"
#include "tests/test_model.h"
#include "tests/ui/settle.h"
#include "tests/ui/window_parts.h"
#include "ui/common/figure_grid.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/inspector/inspector_panel.h"
#include "ui/inspector/precision/range_table.h"
#include "ui/precision/precision_choices.h"
#include "ui/precision/precision_form.h"
#include "ui/precision/range_guard.h"
#include "ui/precision/range_notice.h"
#include "ui/theme/theme.h"

using namespace vitrine;
using app::studio::CalibrationStore;
using test::WindowParts;

namespace {

constexpr int kLongMs = 300'000;

const char* const kProse =
    "The sea covers more than seventy percent of the Earth and drives its weather; it stores heat "
    "and carries it around the globe. (And who has seen 3,000 fathoms?) Rivers bring salt, {wind} "
    "makes waves, and the Moon pulls the tides: 2 a day. QUITE SO! *Most* of it is unexplored.";

// The inspector beside a place for the warning, with a real engine and a chat.
struct Scene : WindowParts {
  explicit Scene(const QString& model = {})
      : profiles(paths.calibration()),
        inspector(engine, settings),
        guard(engine, settings, profiles, &place) {
    place.resize(800, 500);
    place.show();
    inspector.setProfiles(&profiles);
    inspector.resize(364, 1200);
    inspector.show();
    inspector.showTab("precision");
    test::TinyModelOptions options;
    options.contextLength = 4096;
    loaded = load(model.isEmpty() ? writeModel("random.gguf", options) : model);
    settings.setSamplingDefaults({{"max_tokens", 8}, {"temperature", 0}});
    session = pool.createConversation();
    inspector.setSession(session);
    guard.setSession(session);
    test::settle();
  }

  template <typename Widget>
  Widget* find(const char* name) {
    return inspector.findChild<Widget*>(QString::fromLatin1(name));
  }
  bool choose(const char* name, int index) {
    test::settle();
    auto* field = find<ui::SegmentedSwitch>(name);
    if (!field->isVisible()) return false;
    QTest::mouseClick(field, Qt::LeftButton, {}, field->choiceRect(index).center());
    const bool settled = waitUntilSettled();
    test::settle();
    return settled;
  }
  const engine::WeightPrecision& precision() const { return engine.info()->running.precision; }
  QString label(const char* name) { return find<ui::PlainLabel>(name)->text(); }

  // A profile of a text, in the folder and in the list.
  engine::CalibrationPtr calibrate(const std::string& name, const std::string& text,
                                   int mostTokens = 8192) {
    app::studio::StudioSession studio;
    engine::CalibrationPtr made;
    QString fault;
    QObject::connect(&studio, &app::studio::StudioSession::calibrated, &studio,
                     [&](const engine::CalibrationPtr& profile) { made = profile; });
    QObject::connect(&studio, &app::studio::StudioSession::failed, &studio,
                     [&](const engine::Error& error) { fault = app::toQString(error.message); });
    app::studio::CalibrationJob job;
    job.model = engine.model();
    job.config = engine.info()->running;
    job.texts.push_back({app::toQString(name), text, {}});
    job.mostTokens = mostTokens;
    job.options.name = name;
    studio.calibrate(std::move(job));
    if (!QTest::qWaitFor([&] { return made || !fault.isEmpty(); }, kLongMs) || !made) {
      qWarning("%s", qPrintable(fault));
      return nullptr;
    }
    if (!CalibrationStore(paths.calibration()).save(*made)) return nullptr;
    profiles.refresh();
    const bool listed = QTest::qWaitFor(
        [&] {
          for (const auto& profile : profiles.profiles()) {
            if (profile->id == made->id) return true;
          }
          return false;
        },
        kLongMs);
    test::settle();
    return listed ? made : nullptr;
  }
  bool useStatic(const engine::CalibrationPtr& profile) {
    engine::EngineConfig config = engine.config();
    config.precision.weights = engine::WeightMode::kInt8;
    config.precision.activations = engine::ActivationMode::kInt8;
    config.precision.activationScales = engine::ActivationScales::kStatic;
    config.precision.calibration = profile;
    engine.reconfigure(config);
    return waitUntilSettled() && precision() == config.precision;
  }

  QWidget place;
  app::studio::ProfileList profiles;
  ui::InspectorPanel inspector;
  ui::RangeGuard guard;
  app::ChatSession* session = nullptr;
  bool loaded = false;
};

QPushButton* button(ui::RangeGuard& guard, const char* name) {
  return guard.notice()->findChild<QPushButton*>(QString::fromLatin1(name));
}

}  // namespace

class TestPrecision : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { ui::Theme::instance().install(*qApp); }

  void modesThatDoNotGoTogetherSaySo() {
    engine::EngineConfig config;
    config.precision.activations = engine::ActivationMode::kInt8;
    QVERIFY2(ui::whyNot(config.precision).contains("INT8 weights"),
             qPrintable(ui::whyNot(config.precision)));
    config.precision.weights = engine::WeightMode::kInt8;
    QVERIFY(ui::whyNot(config.precision).isEmpty());
    config.precision.activationScales = engine::ActivationScales::kStatic;
    config.precision.outliers = engine::OutlierMode::kSmooth;
    config.precision.keyScales = engine::KeyScales::kChannel;
    // Without a profile, or with FP16 weights, such wishes have no meaning.
    engine::EngineConfig plain = ui::withoutStrayModes(config);
    QVERIFY(!plain.precision.needsCalibration());
    QVERIFY(plain.precision.activations == engine::ActivationMode::kInt8);
    config.precision.calibration = std::make_shared<engine::CalibrationProfile>();
    config.precision.weights = engine::WeightMode::kFp16;
    config.cache.type = engine::KvType::kInt8;
    plain = ui::withoutStrayModes(config);
    QVERIFY(plain.precision.activations == engine::ActivationMode::kFp16);
    QVERIFY(plain.precision.outliers == engine::OutlierMode::kNone);
    QVERIFY(plain.precision.keyScales == engine::KeyScales::kChannel);  // of the INT8 cache
    QVERIFY(engine::checkPrecision(plain.precision).has_value());
  }

  void withoutAProfileThePanelSaysHowToGetOne() {
    Scene scene;
    QVERIFY(scene.loaded);
    auto* studio = scene.find<QPushButton>("openStudio");
    QVERIFY(!studio->isVisible());
    QVERIFY(scene.choose("weightsSwitch", 3));
    QVERIFY(!studio->isVisible());
    QVERIFY(scene.choose("activationsSwitch", 1));
    QVERIFY(studio->isVisible());
    QVERIFY(scene.choose("activationScalesSwitch", 1));  // grey: nothing happens
    QVERIFY(scene.precision().activationScales == engine::ActivationScales::kDynamic);
    QVERIFY(scene.choose("outliersSwitch", 2));
    QVERIFY(scene.precision().outliers == engine::OutlierMode::kNone);
    QSignalSpy wanted(&scene.inspector, &ui::InspectorPanel::studioWanted);
    QTest::mouseClick(studio, Qt::LeftButton);
    QCOMPARE(int(wanted.size()), 1);
  }

  void everyModeRunsFromItsSwitch() {
    Scene scene;
    const auto profile = scene.calibrate("prose", kProse);
    QVERIFY(profile);
    QVERIFY(scene.choose("weightsSwitch", 3));
    QVERIFY(scene.choose("scalesSwitch", 3));
    QVERIFY(scene.precision().weightScales == engine::WeightScales::kChannel);
    QVERIFY(scene.choose("scalesSwitch", 4));
    QVERIFY(scene.precision().weightScales == engine::WeightScales::kTensor);
    QVERIFY(scene.choose("scalesSwitch", 0));
    QVERIFY(scene.precision().weightScales == engine::WeightScales::kGroup);
    QCOMPARE(scene.precision().groupSize, 32);
    QVERIFY(scene.choose("activationsSwitch", 1));
    QVERIFY(scene.choose("activationScalesSwitch", 1));
    QVERIFY(scene.precision().activationScales == engine::ActivationScales::kStatic);
    QVERIFY(scene.precision().calibration && scene.precision().calibration->id == profile->id);
    QVERIFY(scene.find<QComboBox>("calibrationChoice")->isVisible());
    QVERIFY2(scene.label("precisionInUse").contains("static scales"),
             qPrintable(scene.label("precisionInUse")));
    test::settle();
    const bool coarse = engine::coarseSites(*profile, 8.0F) > 0;
    QCOMPARE(scene.find<QLabel>("rangeAdvice")->isVisible(), coarse);
    QVERIFY(scene.choose("outliersSwitch", 1));
    QVERIFY(scene.precision().outliers == engine::OutlierMode::kMixed);
    test::settle();
    QVERIFY(!scene.find<QLabel>("rangeAdvice")->isVisible());
    QVERIFY(scene.choose("outliersSwitch", 2));
    QVERIFY(scene.precision().outliers == engine::OutlierMode::kSmooth);
    auto* strength = scene.find<QDoubleSpinBox>("outlierStrength");
    QVERIFY(strength->isVisible());
    strength->setValue(0.75);
    QTRY_COMPARE_WITH_TIMEOUT(double(scene.precision().smoothing), 0.75, 20'000);
    QVERIFY(scene.choose("kvSwitch", 1));
    QVERIFY(scene.choose("keysSwitch", 1));
    QVERIFY(scene.precision().keyScales == engine::KeyScales::kChannel);
    QVERIFY(scene.ask(scene.session, "Name three colours."));
    QCOMPARE(scene.session->rows().back().metrics.report.activations.substr(0, 4),
             std::string("int8"));
    // FP16 weights take what hangs on INT8 along.
    QVERIFY(scene.choose("weightsSwitch", 1));
    QVERIFY(scene.precision().outliers == engine::OutlierMode::kNone);
    QVERIFY(scene.precision().activations == engine::ActivationMode::kFp16);
  }

  void layersAreKeptByTheirNames() {
    Scene scene;
    QVERIFY(scene.choose("weightsSwitch", 3));
    const auto before = scene.engine.info()->memory.weightBytes;
    QTest::mouseClick(scene.find<QPushButton>("keptFold"), Qt::LeftButton);
    auto* text = scene.find<QLineEdit>("keptText");
    QVERIFY(text->isVisible());
    QTest::keyClicks(text, "7.down");
    QVERIFY(!scene.find<QPushButton>("keptApply")->isEnabled());
    QVERIFY2(scene.label("keptFault").contains("7"), qPrintable(scene.label("keptFault")));
    text->selectAll();
    QTest::keyClicks(text, "0, *.down");
    QVERIFY2(scene.label("keptNote").contains("8 matrices"), qPrintable(scene.label("keptNote")));
    QVERIFY(scene.label("keptNote").contains("KB"));
    QTest::keyClick(text, Qt::Key_Return);
    QVERIFY(scene.waitUntilSettled());
    test::settle();
    QCOMPARE(scene.precision().keep.size(), 8);
    QVERIFY(scene.engine.info()->memory.weightBytes > before);
    QVERIFY(scene.find<QPushButton>("keptFold")->text().contains("0,1.down"));
    QTest::mouseClick(scene.find<QPushButton>("keptNone"), Qt::LeftButton);
    QVERIFY(scene.waitUntilSettled());
    QVERIFY(scene.precision().keep.empty());
    QCOMPARE(scene.engine.info()->memory.weightBytes, before);
  }

  // What the panel says of the cache is what the engine does.
  void theCacheIsEmptiedAsThePanelSays() {
    Scene scene;
    QVERIFY(scene.ask(scene.session, "Name three colours, and take your time about it, please."));
    test::settle();
    QVERIFY(scene.engine.snapshot()->blocksCached > 0);
    QVERIFY2(scene.label("consequence").contains("empties the cache"),
             qPrintable(scene.label("consequence")));
    engine::EngineConfig other = scene.engine.config();
    other.cache.layout = engine::KvLayout::kContiguous;
    QVERIFY(ui::cacheFate(scene.engine.config(), other) == ui::CacheFate::kKept);
    scene.engine.reconfigure(other);
    QVERIFY(scene.waitUntilSettled());
    QVERIFY(scene.engine.snapshot()->blocksCached > 0);
    other.precision.weights = engine::WeightMode::kInt8;
    QVERIFY(ui::cacheFate(scene.engine.config(), other) == ui::CacheFate::kComputed);
    scene.engine.reconfigure(other);
    QVERIFY(scene.waitUntilSettled());
    QTRY_COMPARE(scene.engine.snapshot()->blocksCached, 0);
    QVERIFY(scene.ask(scene.session, "And again."));
    QCOMPARE(scene.session->rows().back().metrics.report.reusedTokens, 0);
  }

  void theLossIsMeasuredOnTheChat() {
    Scene scene;
    QVERIFY(scene.choose("weightsSwitch", 3));
    QVERIFY(scene.ask(scene.session, kProse));
    test::settle();
    QTest::mouseClick(scene.find<QPushButton>("measurePrecision"), Qt::LeftButton);
    auto* figures = scene.find<ui::FigureGrid>("precisionLoss");
    QTRY_VERIFY_WITH_TIMEOUT(!figures->figure("KL mean").isEmpty(), 60'000);
    QVERIFY(figures->figure("KL mean").toDouble() > 0);
    QVERIFY(figures->figure("Same best token").contains("%"));
    // Another precision was not measured yet.
    QVERIFY(scene.choose("scalesSwitch", 4));
    QVERIFY(figures->figure("KL mean").isEmpty());
  }

  void matchedTextIsNotWarnedOfAndOtherTextIs() {
    Scene scene;
    const auto narrow = scene.calibrate("narrow", std::string(300, 'a'));
    const auto prose = scene.calibrate("prose", kProse);
    QVERIFY(narrow && prose);
    QVERIFY(scene.useStatic(prose));
    QVERIFY(scene.ask(scene.session, kProse));
    test::settle();
    const auto snapshot = scene.engine.snapshot();
    QCOMPARE(int(snapshot->activationUse.size()), engine::siteCount(2));
    for (const engine::SiteUse& site : snapshot->activationUse) QVERIFY(site.values > 0);
    QVERIFY2(scene.label("rangeText").contains("clipped"), qPrintable(scene.label("rangeText")));
    auto* table = scene.inspector.findChild<ui::RangeTable*>();
    QVERIFY(table->isVisible());
    QVERIFY2(table->describe(1).startsWith("Layer 0, input of o:"), qPrintable(table->describe(1)));
    QCOMPARE(table->siteAt(table->cellRect(5).center().toPoint()), 5);
    QVERIFY2(scene.guard.notice()->isHidden(), qPrintable(scene.guard.notice()->words()));

    QVERIFY(scene.useStatic(narrow));
    QVERIFY(scene.ask(scene.session, kProse));
    QTRY_VERIFY(scene.guard.notice()->isVisible());
    const QString title = scene.guard.notice()->title();
    QVERIFY2(title.contains("Layer") && title.contains("calibrated range"), qPrintable(title));
    QVERIFY2(scene.guard.notice()->words().contains("“narrow”"),
             qPrintable(scene.guard.notice()->words()));
    // Answered, it is not told again.
    QTest::mouseClick(button(scene.guard, "rangeDismiss"), Qt::LeftButton);
    QVERIFY(scene.guard.notice()->isHidden());
    const auto told = scene.guard.findings().size();
    QCOMPARE(int(told), 0);
    QVERIFY(scene.ask(scene.session, kProse));
    test::settle();
    for (const auto& finding : scene.guard.findings())
      QVERIFY(!title.contains(QString::number(finding.layer)));
  }

  void theWaysOutWork() {
    Scene scene;
    const auto narrow = scene.calibrate("narrow", std::string(300, 'a'));
    QVERIFY(scene.useStatic(narrow));
    QVERIFY(scene.ask(scene.session, kProse));
    QTRY_VERIFY(scene.guard.notice()->isVisible());
    QVERIFY2(button(scene.guard, "rangeCalibrate")->isEnabled(),
             qPrintable(button(scene.guard, "rangeCalibrate")->toolTip()));
    QTest::mouseClick(button(scene.guard, "rangeCalibrate"), Qt::LeftButton);
    QVERIFY2(QTest::qWaitFor([&] { return scene.guard.notice()->isHidden(); }, 60'000),
             qPrintable(scene.guard.notice()->words()));
    QVERIFY(scene.waitUntilSettled());
    QVERIFY(scene.precision().calibration->id != narrow->id);
    QVERIFY(scene.precision().activationScales == engine::ActivationScales::kStatic);
    QCOMPARE(int(CalibrationStore(scene.paths.calibration()).list().size()), 2);
    QVERIFY(scene.ask(scene.session, "What else?"));  // the chat's own ranges fit
    test::settle();
    QVERIFY2(scene.guard.notice()->isHidden(), qPrintable(scene.guard.notice()->words()));

    Scene other;
    QVERIFY(other.useStatic(other.calibrate("narrow", std::string(300, 'a'))));
    QVERIFY(other.ask(other.session, kProse));
    QTRY_VERIFY(other.guard.notice()->isVisible());
    QTest::mouseClick(button(other.guard, "rangeDynamic"), Qt::LeftButton);
    QVERIFY(other.waitUntilSettled());
    QVERIFY(other.precision().activationScales == engine::ActivationScales::kDynamic);
    QVERIFY(other.precision().activations == engine::ActivationMode::kInt8);
    QVERIFY(other.guard.notice()->isHidden());
  }

  // English chat under scales of English, and of Chinese.
  void theRealModelIsWarnedOfWhatItWasNotCalibratedFor() {
    QVERIFY2(test::haveTestModel(), test::missingModelMessage().c_str());
    Scene scene(app::displayPath(test::testModelPath()));
    QVERIFY(scene.loaded);
    constexpr int kTokens = 2048;
    const std::string english = app::studio::bundledText("english");
    const auto matched = scene.calibrate("english", english, kTokens);
    const auto foreign = scene.calibrate("chinese", app::studio::bundledText("chinese"), kTokens);
    QVERIFY(matched && foreign);
    // Of the same book, but not what was calibrated.
    const QString text = QString::fromUtf8(english.c_str()).right(2400);
    QVERIFY(scene.useStatic(matched));
    QVERIFY(scene.ask(scene.session, text));
    test::settle();
    QVERIFY2(scene.guard.notice()->isHidden(), qPrintable(scene.guard.notice()->words()));
    QVERIFY(scene.useStatic(foreign));
    QVERIFY(scene.ask(scene.session, "And once more: " + text));
    QTRY_VERIFY(scene.guard.notice()->isVisible());
    QVERIFY2(scene.guard.findings().size() >= 3, qPrintable(scene.guard.notice()->title()));
    qInfo("%s / %s", qPrintable(scene.guard.notice()->title()),
          qPrintable(scene.guard.notice()->words()));
  }
};

QTEST_MAIN(TestPrecision)
#include "tst_precision.moc"

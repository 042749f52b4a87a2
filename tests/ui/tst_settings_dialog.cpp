#include <QCheckBox>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTest>

#include "tests/ui/window_parts.h"
#include "ui/common/segmented_switch.h"
#include "ui/settings/sampling_form.h"
#include "ui/settings/settings_dialog.h"
#include "ui/theme/theme.h"

using namespace vitrine;
using test::WindowParts;

class TestSettingsDialog : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { ui::Theme::instance().install(*qApp); }

  void samplingCannotHoldValuesWithoutMeaning() {
    ui::SamplingForm form;
    form.show();
    form.setValues({}, {});
    QVERIFY(form.ownValues().isEmpty());
    for (auto* box : form.findChildren<QCheckBox*>()) box->setChecked(true);
    // Both ends of every field, and what typing makes of nonsense.
    for (const bool highest : {false, true}) {
      for (auto* field : form.findChildren<QDoubleSpinBox*>()) {
        field->setValue(highest ? 1e300 : -1e300);
      }
      for (auto* field : form.findChildren<QSpinBox*>()) {
        field->setValue(highest ? INT_MAX : INT_MIN);
      }
      const auto params = app::overlaySampling(engine::SamplingParams{}, form.ownValues());
      const auto valid = params.validate();
      QVERIFY2(valid.has_value(), valid ? "" : valid.error().message.c_str());
      const QJsonObject taken = app::toJson(params);
      for (const QString& key : form.ownValues().keys()) {
        QCOMPARE(taken.value(key).toVariant(), form.ownValues().value(key).toVariant());
      }
    }
    auto* temperature = form.findChild<QDoubleSpinBox*>("temperature");
    temperature->setFocus();
    temperature->selectAll();
    QTest::keyClicks(temperature, "nan-inf");
    QVERIFY(temperature->value() >= 0 && temperature->value() <= 5);
    auto* seed = form.findChild<QLineEdit*>("seed");
    QTest::keyClicks(seed, "-12x34");
    QCOMPARE(seed->text(), QString("1234"));
  }

  void ownValuesAreKeptAndForgotten() {
    WindowParts parts;
    ui::SettingsDialog dialog(parts.engine, parts.settings, parts.paths.models);
    dialog.showPage("sampling");
    dialog.show();
    auto* form = dialog.findChild<ui::SamplingForm*>();
    auto* field = form->findChild<QDoubleSpinBox*>("temperature");
    QVERIFY(!field->isEnabled());
    form->findChildren<QCheckBox*>().first()->click();
    QVERIFY(field->isEnabled());
    field->setValue(0.35);
    QCOMPARE(parts.settings.samplingDefaults().value("temperature").toDouble(), 0.35);
    QCOMPARE(parts.settings.samplingDefaults().size(), 1);
    form->findChildren<QCheckBox*>().first()->click();
    QVERIFY(parts.settings.samplingDefaults().isEmpty());
    QCOMPARE(field->value(), 0.8);  // what is in force without it
  }

  void engineSettingsAreAppliedTogether() {
    WindowParts parts;
    QVERIFY(parts.load(parts.writeParrot("parrot.gguf", "fine")));
    ui::SettingsDialog dialog(parts.engine, parts.settings, parts.paths.models);
    dialog.showPage("engine");
    dialog.show();
    auto* apply = dialog.findChild<QPushButton*>("applyEngine");
    QVERIFY(!apply->isEnabled());
    auto* context = dialog.findChild<QSpinBox*>("context");
    QCOMPARE(context->maximum(), parts.engine.info()->config.contextLength);
    context->setFocus();
    context->selectAll();
    QTest::keyClicks(context, "99999999");  // stays below the model's
    QVERIFY(context->value() <= context->maximum());
    context->setValue(300);
    auto* blocks = dialog.findChild<QComboBox*>("blockSize");
    blocks->setCurrentIndex(blocks->findData(32));
    QVERIFY(apply->isEnabled());
    QTest::mouseClick(apply, Qt::LeftButton);
    QVERIFY(parts.waitUntilSettled());
    QCOMPARE(parts.engine.info()->contextTokens, 300);
    QCOMPARE(parts.engine.snapshot()->shape.blockSize, 32);
    QCOMPARE(parts.settings.engineConfig().contextTokens, 300);
    QVERIFY(!apply->isEnabled());
    auto* threads = dialog.findChild<QSpinBox*>("threads");
    threads->setValue(100'000);
    QVERIFY(threads->value() <= int(std::thread::hardware_concurrency()));
  }

  void lookAndPolicyTakeEffectAtOnce() {
    WindowParts parts;
    ui::SettingsDialog dialog(parts.engine, parts.settings, parts.paths.models);
    dialog.show();
    auto* look = dialog.findChild<ui::SegmentedSwitch*>("themeSwitch");
    QTest::mouseClick(look, Qt::LeftButton, {}, look->choiceRect(2).center());
    QVERIFY(ui::Theme::instance().isDark());
    QCOMPARE(parts.settings.theme(), app::Theme::kDark);
    QTest::mouseClick(look, Qt::LeftButton, {}, look->choiceRect(1).center());
    QVERIFY(!ui::Theme::instance().isDark());
    dialog.findChild<QSpinBox*>("zoom")->setValue(9999);
    QCOMPARE(parts.settings.zoomPercent(), 200);
    dialog.findChild<QSpinBox*>("zoom")->setValue(100);
    dialog.showPage("chats");
    auto* policy = dialog.findChild<ui::SegmentedSwitch*>("contextPolicy");
    QTest::mouseClick(policy, Qt::LeftButton, {}, policy->choiceRect(1).center());
    QCOMPARE(parts.settings.contextPolicy(), engine::ContextPolicy::kDropOldest);
  }
};

QTEST_MAIN(TestSettingsDialog)
#include "tst_settings_dialog.moc"

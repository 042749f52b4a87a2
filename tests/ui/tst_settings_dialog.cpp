#include <QCheckBox>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QLineEdit>
#include <QNetworkAccessManager>
#include <QNetworkReply>
#include <QPushButton>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTcpServer>
#include <QTest>

#include "engine/cache/archive_catalog.h"
#include "tests/ui/window_parts.h"
#include "ui/common/plain_label.h"
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
    ui::SettingsDialog dialog(parts.engine, parts.settings, parts.server, parts.paths.models);
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
    ui::SettingsDialog dialog(parts.engine, parts.settings, parts.server, parts.paths.models);
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

  void kvOnDiskIsSwitchedLimitedAndDeleted() {
    WindowParts parts;
    parts.settings.setArchiveFolder(parts.paths.archive());
    const auto folder = app::toPath(parts.paths.archive());
    QVERIFY(parts.load(parts.writeParrot("parrot.gguf", "fine")));
    QCOMPARE(parts.engine.config().archive.folder, folder);  // on by itself
    app::ChatSession* session = parts.pool.createConversation();
    QVERIFY(parts.ask(session, "a question that is long enough for some blocks of the cache"));
    QTRY_VERIFY_WITH_TIMEOUT(engine::ArchiveCatalog::bytesIn(folder) > 0, 20'000);

    ui::SettingsDialog dialog(parts.engine, parts.settings, parts.server, parts.paths.models);
    dialog.showPage("archive");
    dialog.show();
    auto* on = dialog.findChild<QCheckBox*>("archiveOn");
    auto* limit = dialog.findChild<QSpinBox*>("archiveLimit");
    auto* size = dialog.findChild<ui::PlainLabel*>("archiveSize");
    auto* removeAll = dialog.findChild<QPushButton*>("archiveDelete");
    QVERIFY(on->isChecked());
    QCOMPARE(limit->value(), 2048);
    QCOMPARE(dialog.findChild<ui::PlainLabel*>("archiveFolder")->text(), parts.paths.archive());
    QVERIFY(size->text() != "nothing");
    limit->setValue(512);
    QVERIFY(parts.waitUntilSettled());
    QCOMPARE(parts.engine.info()->running.archive.limitBytes, std::uint64_t{512} << 20);
    QTest::mouseClick(removeAll, Qt::LeftButton);
    QCOMPARE(size->text(), QString("nothing"));
    QCOMPARE(engine::ArchiveCatalog::bytesIn(folder), std::uint64_t{0});
    QVERIFY(!removeAll->isEnabled());
    on->click();
    QVERIFY(parts.waitUntilSettled());
    QVERIFY(parts.engine.info()->running.archive.folder.empty());
    QVERIFY(parts.settings.engineConfig().archive.folder.empty());
    QVERIFY(!limit->isEnabled());
    on->click();
    QVERIFY(parts.waitUntilSettled());
    QCOMPARE(parts.settings.engineConfig().archive.folder, folder);
    QCOMPARE(parts.settings.engineConfig().archive.limitBytes, std::uint64_t{512} << 20);
  }

  void theServerFollowsItsSwitch() {
    WindowParts parts;
    QVERIFY(parts.load(parts.writeParrot("parrot.gguf", "fine")));
    ui::SettingsDialog dialog(parts.engine, parts.settings, parts.server, parts.paths.models);
    dialog.showPage("server");
    dialog.show();
    auto* status = dialog.findChild<ui::PlainLabel*>("serverStatus");
    QCOMPARE(status->text(), QString("off"));
    QTcpServer other;  // holds a port, so that the server cannot have it
    QVERIFY(other.listen(QHostAddress::LocalHost));
    dialog.findChild<QSpinBox*>("serverPort")->setValue(other.serverPort());
    auto* on = dialog.findChild<QCheckBox*>("serverOn");
    on->click();
    QVERIFY(!parts.server.isRunning());
    QVERIFY2(status->text().contains(QString::number(other.serverPort())),
             qPrintable(status->text()));
    other.close();
    on->click();
    on->click();
    QVERIFY2(parts.server.isRunning(), qPrintable(parts.server.problem()));
    QVERIFY(status->text().contains(parts.server.url()));

    // A turn of another program runs on the window's engine.
    QNetworkAccessManager network;
    const auto ask = [&](const QByteArray& key) {
      QNetworkRequest request(QUrl(parts.server.url() + "/v1/chat/completions"));
      request.setHeader(QNetworkRequest::ContentTypeHeader, "application/json");
      if (!key.isEmpty()) request.setRawHeader("Authorization", "Bearer " + key);
      std::unique_ptr<QNetworkReply> reply(
          network.post(request, R"({"messages":[{"role":"user","content":"hello"}]})"));
      (void)QTest::qWaitFor([&] { return reply->isFinished(); }, 30'000);
      return std::pair(reply->attribute(QNetworkRequest::HttpStatusCodeAttribute).toInt(),
                       reply->readAll());
    };
    auto [code, body] = ask({});
    QCOMPARE(code, 200);
    QVERIFY2(body.contains("fine"), body.constData());
    auto* key = dialog.findChild<QLineEdit*>("serverKey");
    key->setFocus();
    QTest::keyClicks(key, "se cret");  // a key holds no blank
    QTest::keyClick(key, Qt::Key_Tab);
    QCOMPARE(parts.settings.serverKey(), QString("secret"));
    QCOMPARE(ask({}).first, 401);
    QCOMPARE(ask("secret").first, 200);
    on->click();
    QVERIFY(!parts.server.isRunning());
    QCOMPARE(status->text(), QString("off"));
  }

  void lookAndPolicyTakeEffectAtOnce() {
    WindowParts parts;
    ui::SettingsDialog dialog(parts.engine, parts.settings, parts.server, parts.paths.models);
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

// A GPU that fails in the middle of an answer: the chat keeps what it has and goes on on the CPU.
#include "tests/app/app_fixture.h"
#include "tests/cuda_on_cpu/harness.h"
#include "tests/tiny_models.h"

using namespace vitrine;
using namespace vitrine::app;
using test::AppFixture;
using test::lastRow;
using test::sendAndWait;

class TestDeviceLoss : public QObject {
  Q_OBJECT

 private slots:
  void aFailedTurnIsRepeatedOnTheCpu() {
    cuda_on_cpu::reset();
    cuda_on_cpu::settings().memoryBytes = std::size_t{256} << 20;
    AppFixture app;
    test::ParrotOptions options;
    options.endless = true;
    options.contextLength = test::kLongContext;
    const auto model = test::parrotModel("abcdef", options).save(app.path("parrot.gguf"));
    engine::EngineConfig config;
    config.backend = engine::BackendKind::kCuda;
    QVERIFY(app.load(model, config));
    QCOMPARE(app.engine->info()->backend.name, std::string("cuda"));

    auto session = app.newSession();
    QVERIFY(session->send(QStringLiteral("Say your letters")));
    QTRY_VERIFY(lastRow(*session).message.text.size() > 12);
    const QString before = lastRow(*session).message.text;
    cuda_on_cpu::loseDeviceAt(1);
    QTRY_VERIFY(!session->isRunning());
    QVERIFY(session->failure());
    QVERIFY(session->failure()->error.code == engine::ErrorCode::kDeviceLost);
    QVERIFY(!session->failure()->waysOut.empty());
    QVERIFY(session->failure()->waysOut.front() == WayOut::kRunOnCpu);
    // What was written stays, on screen and in the store.
    QVERIFY(lastRow(*session).message.text.startsWith(before));
    QVERIFY(lastRow(*app.openSession(session->conversation().id)).message.text.startsWith(before));

    QVERIFY(session->resolve(WayOut::kRunOnCpu));
    QTRY_VERIFY(app.engine->info() && app.engine->info()->backend.name == "cpu");
    // The broken answer stays as a version of its own.
    QTRY_VERIFY(lastRow(*session).branchCount == 2 && lastRow(*session).message.text.size() > 12);
    session->stop();
    QTRY_VERIFY(!session->isRunning());
    QVERIFY(!session->failure());
    // For this run of the program only.
    QVERIFY(app.settings->engineConfig().backend != engine::BackendKind::kCpu);
    // A second failed chat needs no second switch.
    QVERIFY(session->resolve(WayOut::kRunOnCpu));
    QTRY_COMPARE(lastRow(*session).branchCount, 3);
    session->stop();
    QTRY_VERIFY(!session->isRunning());
    cuda_on_cpu::clearFaults();
  }
};

QTEST_GUILESS_MAIN(TestDeviceLoss)
#include "tst_device_loss.moc"

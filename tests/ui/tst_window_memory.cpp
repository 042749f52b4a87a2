#include <QTest>

#include "tests/test_model.h"
#include "tests/ui/window_fixture.h"
#include "ui/inspector/inspector_panel.h"

using namespace vitrine;

/// The memory ledger in the window, with the real small model.
class TestWindowMemory : public QObject {
  Q_OBJECT

 private:
  // Some words of the answer are enough.
  static bool beginsAndStops(app::ChatSession* session) {
    const bool begun = QTest::qWaitFor(
        [&] { return !session->isRunning() || session->rows().back().message.text.size() > 40; },
        240'000);
    session->stop();
    return begun && QTest::qWaitFor([&] { return !session->isRunning(); }, 20'000);
  }

 private slots:
  void initTestCase() {
    QVERIFY2(test::haveTestModel(), test::missingModelMessage().c_str());
    ui::Theme::instance().install(*qApp);
  }

  void theLedgerAddsUpWhateverHappens() {
    ui::WindowFixture fixture;
    engine::EngineConfig config = fixture.settings.engineConfig();
    config.cache.budgetBytes = 256u << 20;
    fixture.settings.setEngineConfig(config);
    fixture.settings.setSamplingDefaults({{"temperature", 0}});
    fixture.show();
    fixture.window->inspector()->showTab("cache");
    const auto check = [&](const char* when) {
      QTest::qWait(1500);  // it is read once a second, and once more when something ended
      const engine::MemoryLedger& ledger = fixture.window->inspector()->state().memory;
      QVERIFY(ledger.known);
      QString parts;
      for (const auto& part : ledger.parts()) {
        parts += QString("%1 %2, ").arg(part.name).arg(part.bytes >> 10);
      }
      qInfo("%s: %s of %llu KiB, residual %lld", when, qPrintable(parts),
            static_cast<unsigned long long>(ledger.rss >> 10),
            static_cast<long long>(ledger.residual() / 1024));
      QVERIFY2(std::abs(double(ledger.residual())) <= 0.03 * double(ledger.rss), when);
    };
    check("before a model");
    if (QTest::currentTestFailed()) return;
    fixture.window->openModel(test::testModelPath());
    const auto settled = [&] { return fixture.engine.info() && !fixture.engine.isLoading(); };
    QVERIFY(QTest::qWaitFor(settled, 120'000));
    check("after loading");
    if (QTest::currentTestFailed()) return;

    app::ChatSession* session = fixture.pool.createConversation();
    fixture.window->openConversation(session->conversation().id);
    const QString text =
        QString("The sea covers most of the Earth and stores its heat. ").repeated(100);
    QVERIFY(session->send(text + "What covers most of the Earth?"));
    QVERIFY(beginsAndStops(session));
    check("after a long turn");
    if (QTest::currentTestFailed()) return;
    const std::uint64_t weights = fixture.window->inspector()->state().memory.weights;

    config.precision.weights = engine::WeightMode::kInt8;
    config.cache.type = engine::KvType::kInt8;
    fixture.engine.reconfigure(config);
    QVERIFY(QTest::qWaitFor([&] { return !fixture.engine.isLoading(); }, 120'000));
    QVERIFY(session->send("And what stores heat?"));
    QVERIFY(beginsAndStops(session));
    check("after a switch of the precision");
    const engine::MemoryLedger& ledger = fixture.window->inspector()->state().memory;
    QVERIFY(ledger.weights != weights);
    QVERIFY(ledger.kvScales > 0);
  }
};

QTEST_MAIN(TestWindowMemory)
#include "tst_window_memory.moc"

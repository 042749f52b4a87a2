#include <QAbstractEventDispatcher>
#include <QElapsedTimer>
#include <QTimer>

#include "tests/app/chat_helpers.h"

using namespace vitrine;
using namespace vitrine::app;
using vitrine::test::AppFixture;
using vitrine::test::endless;
using vitrine::test::parrot;

namespace {

engine::GenerateRequest requestFor(const char* text, int maxTokens) {
  engine::GenerateRequest request;
  request.prompt = engine::ChatPrompt{{{"user", text, {}}}};
  request.sampling.temperature = 0;
  request.maxTokens = maxTokens;
  request.conversation = text;
  return request;
}

// Counts the timer events of a thread's objects.
class TimerCounter : public QObject {
 public:
  int count = 0;
  bool eventFilter(QObject*, QEvent* event) override {
    if (event->type() == QEvent::Timer) ++count;
    return false;
  }
};

}  // namespace

class TestEngineClient : public QObject {
  Q_OBJECT
 private slots:
  void loadingReportsProgressAndTheModel();
  void aMissingFileIsReportedAndTheModelKept();
  void eventsOfATurnComeInOrderAndWhole();
  void tokensComeAtMostOnceAFrame();
  void severalTurnsRunTogether();
  void turnsOfTheApiCountAsBusy();
  void cancelEndsATurnSoon();
  void firstPaintIsReportedOnce();
  void anEventLoopInsideASlotKeepsTheOrder();
  void nothingTicksWhileIdle();
  void destroyingItInTheMiddleIsClean_data();
  void destroyingItInTheMiddleIsClean();
};

void TestEngineClient::loadingReportsProgressAndTheModel() {
  AppFixture app;
  const auto model = endless(app);
  QSignalSpy busy(app.engine.get(), &EngineClient::busyChanged);
  QSignalSpy started(app.engine.get(), &EngineClient::loadStarted);
  QVERIFY(!app.engine->info());
  engine::EngineConfig config;
  config.cache.type = engine::KvType::kInt8;
  QVERIFY(app.load(model, config));
  QCOMPARE(started.count(), 1);
  QCOMPARE(busy.count(), 2);
  QCOMPARE(busy[0][0].toBool(), true);
  QCOMPARE(busy[1][0].toBool(), false);
  QCOMPARE(app.engine->info()->name, std::string("tiny"));
  QVERIFY(app.engine->info()->running.cache.type == engine::KvType::kInt8);
  QVERIFY(app.engine->model() != nullptr);
}

void TestEngineClient::aMissingFileIsReportedAndTheModelKept() {
  AppFixture app;
  QVERIFY(app.load(endless(app)));
  const engine::EngineConfig before = app.engine->config();
  bool failed = false, kept = false;
  connect(app.engine.get(), &EngineClient::loadFailed, this,
          [&](quint64, const engine::Error& error, bool still) {
            failed = error.message.find("nowhere.gguf") != std::string::npos;
            kept = still;
          });
  engine::EngineConfig other = before;
  other.cache.type = engine::KvType::kInt8;
  app.engine->load(app.path("nowhere.gguf"), other);
  QTRY_VERIFY(failed);
  QVERIFY(kept);
  QVERIFY(app.engine->info());
  QVERIFY(!app.engine->isLoading());
  QVERIFY(app.engine->config() == app.engine->info()->running);
}

void TestEngineClient::eventsOfATurnComeInOrderAndWhole() {
  AppFixture app;
  QVERIFY(app.load(parrot(app, "Grüße, 世界 🙂!")));
  QStringList order;
  QString text;
  std::vector<engine::TokenId> ids;
  engine::TurnReport report;
  connect(app.engine.get(), &EngineClient::turnStarted, this, [&] { order << "started"; });
  connect(app.engine.get(), &EngineClient::tokensReady, this,
          [&](quint64, const QString& part, const std::vector<engine::GeneratedToken>& tokens) {
            if (order.last() != "tokens") order << "tokens";
            text += part;
            for (const auto& token : tokens) ids.push_back(token.id);
          });
  connect(app.engine.get(), &EngineClient::turnFinished, this,
          [&](quint64, const engine::TurnReport& finished) {
            order << "finished";
            report = finished;
          });
  app.engine->generate(requestFor("hello", 0));
  QVERIFY(app.engine->isBusy());
  QTRY_VERIFY(order.contains("finished"));
  QCOMPARE(order, (QStringList{"started", "tokens", "finished"}));
  QCOMPARE(text, QStringLiteral("Grüße, 世界 🙂!"));
  QCOMPARE(toQString(report.text), text);
  QVERIFY(ids.size() >= report.tokenIds.size());
  ids.resize(report.tokenIds.size());
  QCOMPARE(ids, report.tokenIds);
  QVERIFY(!app.engine->isBusy());
}

void TestEngineClient::tokensComeAtMostOnceAFrame() {
  AppFixture app;
  QVERIFY(app.load(endless(app)));
  int signalCount = 0, tokenCount = 0;
  qint64 closest = 1000;
  QElapsedTimer last;
  bool finished = false;
  connect(app.engine.get(), &EngineClient::tokensReady, this,
          [&](quint64, const QString&, const std::vector<engine::GeneratedToken>& tokens) {
            if (last.isValid()) closest = std::min(closest, last.elapsed());
            last.start();
            ++signalCount;
            tokenCount += int(tokens.size());
          });
  connect(app.engine.get(), &EngineClient::turnFinished, this, [&] { finished = true; });
  QElapsedTimer all;
  all.start();
  app.engine->generate(requestFor("go", 600));
  QTRY_VERIFY_WITH_TIMEOUT(finished, 120000);
  QCOMPARE(tokenCount, 600);
  QVERIFY2(signalCount <= all.elapsed() / 16 + 2, qPrintable(QString::number(signalCount)));
  QVERIFY2(closest >= 14, qPrintable(QString::number(closest)));  // 16, less a timer's rounding
  qInfo("600 tokens in %lld ms: %d signals", static_cast<long long>(all.elapsed()), signalCount);
}

void TestEngineClient::severalTurnsRunTogether() {
  AppFixture app;
  QVERIFY(app.load(endless(app)));
  std::map<quint64, int> tokens;
  int finished = 0;
  connect(app.engine.get(), &EngineClient::tokensReady, this,
          [&](quint64 id, const QString&, const std::vector<engine::GeneratedToken>& part) {
            tokens[id] += int(part.size());
          });
  connect(app.engine.get(), &EngineClient::turnFinished, this, [&] { ++finished; });
  for (const char* name : {"one", "two", "three"}) app.engine->generate(requestFor(name, 200));
  QTRY_COMPARE_WITH_TIMEOUT(finished, 3, 60000);
  QCOMPARE(tokens.size(), std::size_t(3));
  for (const auto& [id, count] : tokens) QCOMPARE(count, 200);
}

void TestEngineClient::turnsOfTheApiCountAsBusy() {
  AppFixture app;
  QVERIFY(app.load(endless(app)));
  QSignalSpy busy(app.engine.get(), &EngineClient::busyChanged);
  auto stream = app.engine->router().start(app.engine->engine(), requestFor("from outside", 20));
  QTRY_COMPARE(busy.count(), 2);
  QVERIFY(busy[0][0].toBool());
  QVERIFY(!busy[1][0].toBool());
  QVERIFY(!app.engine->isBusy());
}

void TestEngineClient::cancelEndsATurnSoon() {
  AppFixture app;
  QVERIFY(app.load(endless(app)));
  bool any = false, finished = false;
  engine::TurnReport report;
  connect(app.engine.get(), &EngineClient::tokensReady, this, [&] { any = true; });
  connect(app.engine.get(), &EngineClient::turnFinished, this,
          [&](quint64, const engine::TurnReport& r) {
            finished = true;
            report = r;
          });
  const auto id = app.engine->generate(requestFor("go", 0));
  QTRY_VERIFY(any);
  app.engine->cancel(id);
  QTRY_VERIFY_WITH_TIMEOUT(finished, 5000);
  QVERIFY(report.stopReason == engine::StopReason::kCancelled);
  QVERIFY(!report.text.empty());
  app.engine->cancel(id);  // again, and of nothing
  app.engine->cancel(4711000);
}

void TestEngineClient::firstPaintIsReportedOnce() {
  AppFixture app;
  QVERIFY(app.load(parrot(app, "quick")));
  QSignalSpy painted(app.engine.get(), &EngineClient::firstPainted);
  bool finished = false;
  connect(app.engine.get(), &EngineClient::turnFinished, this, [&] { finished = true; });
  const auto id = app.engine->generate(requestFor("hello", 0));
  QTRY_VERIFY(finished);
  app.engine->reportFirstPaint(id);  // a short answer may be over before it is painted
  app.engine->reportFirstPaint(id);
  app.engine->reportFirstPaint(id + 100);
  QCOMPARE(painted.count(), 1);
  QCOMPARE(painted[0][0].toULongLong(), id);
  QVERIFY(painted[0][1].toDouble() > 0);
}

void TestEngineClient::anEventLoopInsideASlotKeepsTheOrder() {
  AppFixture app;
  QVERIFY(app.load(endless(app)));
  QString shown;
  bool nested = false, finished = false;
  engine::TurnReport report;
  connect(app.engine.get(), &EngineClient::tokensReady, this, [&](quint64, const QString& text) {
    shown += text;
    if (nested) return;
    nested = true;  // as a message box would
    QEventLoop loop;
    QTimer::singleShot(100, &loop, &QEventLoop::quit);
    loop.exec();
  });
  connect(app.engine.get(), &EngineClient::turnFinished, this,
          [&](quint64, const engine::TurnReport& r) {
            report = r;
            finished = true;
          });
  app.engine->generate(requestFor("go", 300));
  QTRY_VERIFY_WITH_TIMEOUT(finished, 60000);
  QCOMPARE(shown, toQString(report.text));
}

void TestEngineClient::nothingTicksWhileIdle() {
  AppFixture app;
  QVERIFY(app.load(endless(app)));
  bool finished = false;
  connect(app.engine.get(), &EngineClient::turnFinished, this, [&] { finished = true; });
  app.engine->generate(requestFor("go", 50));
  QTRY_VERIFY(finished);
  QTest::qWait(100);
  TimerCounter counter;
  for (QObject* child : app.engine->children()) child->installEventFilter(&counter);
  app.engine->installEventFilter(&counter);
  QTest::qWait(500);
  QCOMPARE(counter.count, 0);
  for (const QTimer* timer : app.engine->findChildren<QTimer*>()) QVERIFY(!timer->isActive());
}

void TestEngineClient::destroyingItInTheMiddleIsClean_data() {
  QTest::addColumn<int>("when");
  QTest::newRow("right after load()") << 0;
  QTest::newRow("while loading") << 1;
  QTest::newRow("right after generate()") << 2;
  QTest::newRow("in mid-answer") << 3;
  QTest::newRow("while switching precision") << 4;
  QTest::newRow("with undelivered events") << 5;
}

void TestEngineClient::destroyingItInTheMiddleIsClean() {
  QFETCH(int, when);
  for (int round = 0; round < 5; ++round) {
    AppFixture app;
    const auto model = endless(app);
    int tokens = 0;
    if (when <= 1) {
      app.engine->load(model, {});
      if (when == 1) QTest::qWait(round);
    } else {
      QVERIFY(app.load(model));
      connect(app.engine.get(), &EngineClient::tokensReady, this, [&] { ++tokens; });
      app.engine->generate(requestFor("go", 0));
      if (when == 3) QTRY_VERIFY(tokens > 2);
      if (when == 4) {
        engine::EngineConfig config = app.engine->config();
        config.precision.weights = engine::WeightMode::kInt8;
        app.engine->reconfigure(config);
      }
      if (when == 5) QThread::msleep(30);
    }
    QElapsedTimer timer;
    timer.start();
    app.engine.reset();
    QVERIFY2(timer.elapsed() < 5000, qPrintable(QString::number(timer.elapsed())));
    QCoreApplication::processEvents();
  }
}

QTEST_GUILESS_MAIN(TestEngineClient)
#include "tst_engine_client.moc"

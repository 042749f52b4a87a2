#include <QTemporaryDir>
#include <QtTest>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "tests/engine/engine_harness.h"
#include "tests/tiny_models.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;
using namespace vitrine::test;
using namespace std::chrono_literals;

namespace {

ChatMessage user(std::string text) {
  return {"user", std::move(text), {}};
}

}  // namespace

/// The engine's threads: commands from several threads, stopping, superseding, closing at any
/// moment. Small enough to run under ThreadSanitizer.
class TestEngineThreads : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY(folder.isValid());
    ParrotOptions options;
    options.nLayers = 1;
    options.dModel = 32;
    options.nHeads = 2;
    options.nKvHeads = 1;
    options.dFfn = 32;
    options.contextLength = kLongContext;
    random = randomModel(options).save(path("random.gguf"));
    options.contextLength = 256;
    parrot = parrotModel("still here and fine", options).save(path("parrot.gguf"));
    config.backend = BackendKind::kAuto;  // with its own threads
  }

  void stopsInMidAnswerAndGoesOn() {
    EngineHarness h;
    QVERIFY(h.load(random, config).info);
    const RequestId id = h.engine.generate(greedyChat({user("hello")}));
    h.waitFor(id, [](const auto& heard) { return heard.tokens.size() >= 3; });
    h.engine.cancel(id);
    const auto heard = h.wait(id);
    QCOMPARE(heard.report->stopReason, StopReason::kCancelled);
    QVERIFY(heard.report->tokenIds.size() >= 3);
    QCOMPARE(heard.streamed, heard.report->text);
    h.engine.cancel(id);     // long over
    h.engine.cancel(12345);  // never was
    QVERIFY(h.ask(greedyChat({user("hello")}, 3)).report);
    QCOMPARE(h.idleSnapshot()->blocksUsed, 0);
  }

  void aLaterLoadSupersedesAnEarlierOne() {
    EngineHarness h;
    std::vector<RequestId> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(h.engine.load(i % 2 == 0 ? random : parrot, config));
    ids.push_back(h.engine.load(parrot, config));
    int succeeded = 0;
    for (const RequestId id : ids) {
      const auto heard = h.wait(id);
      succeeded += heard.info ? 1 : 0;
      if (heard.error) QCOMPARE(heard.error->code, ErrorCode::kCancelled);
    }
    QVERIFY(succeeded >= 1);
    QCOMPARE(h.ask(greedyChat({user("a")})).report->text, std::string("still here and fine"));
  }

  void loadingEndsRunningTurns() {
    EngineHarness h;
    QVERIFY(h.load(random, config).info);
    const RequestId turn = h.engine.generate(greedyChat({user("hello")}));
    h.waitFor(turn, [](const auto& heard) { return !heard.tokens.empty(); });
    QVERIFY(h.load(parrot, config).info);
    QVERIFY(h.wait(turn).report);
    h.engine.unload();
    const auto after = h.ask(greedyChat({user("a")}));
    QVERIFY(after.error || after.report->stopReason == StopReason::kCancelled);
    while (h.engine.model() != nullptr) QTest::qWait(1);
    QCOMPARE(h.idleSnapshot()->state, EngineState::kEmpty);
  }

  void closesInEveryState() {
    for (int delay = 0; delay < 12; ++delay) {
      EngineHarness h;
      if (delay > 0) {
        const RequestId id = h.engine.load(random, config);
        if (delay > 3) {
          h.wait(id);
          h.engine.generate(greedyChat({user("hello there")}));
          h.engine.generate(greedyChat({user("and you")}));
        }
        if (delay > 7) h.engine.reconfigure(EngineConfig{});
        if (delay == 11) h.engine.unload();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(delay * 2));
    }
  }

  void manyThreadsMayCommand() {
    EngineHarness h;
    QVERIFY(h.load(random, config).info);
    std::vector<std::thread> threads;
    std::atomic<int> ended{0};
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 6; ++i) {
          const RequestId id = h.engine.generate(greedyChat(
              {user(std::string(static_cast<std::size_t>(1 + t), 'b'))}, 8, std::to_string(t)));
          if (i % 3 == 2) h.engine.cancel(id);
          if (i == 3) h.engine.forget(std::to_string(t));
          (void)h.engine.snapshot();
          (void)h.engine.model();
          ended += h.wait(id).report ? 1 : 0;
        }
      });
    }
    EngineConfig other = config;
    for (int i = 0; i < 4; ++i) {
      other.cache.type = i % 2 == 0 ? KvType::kInt8 : KvType::kFp16;
      h.engine.reconfigure(other);
      std::this_thread::sleep_for(5ms);
    }
    for (std::thread& thread : threads) thread.join();
    QCOMPARE(ended.load(), 24);
  }

  void nothingRunsWhileIdle() {
    EngineHarness h;
    QVERIFY(h.load(random, config).info);
    h.ask(greedyChat({user("a")}, 3));
    h.idleSnapshot();
    const auto before = std::clock();
    std::this_thread::sleep_for(1s);
    const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    QVERIFY2(seconds < 0.005, qPrintable(QString("%1 s of processor time").arg(seconds)));
  }

 private:
  std::filesystem::path path(const char* name) const {
    return std::filesystem::path(folder.path().toStdString()) / name;
  }

  QTemporaryDir folder;
  std::filesystem::path random, parrot;
  EngineConfig config;
};

QTEST_APPLESS_MAIN(TestEngineThreads)
#include "tst_engine_threads.moc"

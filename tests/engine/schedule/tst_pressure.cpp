#include <QTemporaryDir>
#include <QtTest>

#include <random>
#include <thread>

#include "engine/cache/kv_archive.h"
#include "tests/engine/schedule/scheduler_fixture.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;

/// Many conversations on a small pool: turns, edits, branches, regenerations and stops drawn from a
/// seed. Every answer equals what the model says when it is alone with all memory, and after every
/// step each block is counted exactly once.
class TestPressure : public QObject {
  Q_OBJECT

 private slots:
  void answersDoNotDependOnTheCache_data() {
    QTest::addColumn<int>("seed");
    QTest::addColumn<int>("nBlocks");
    QTest::addColumn<bool>("contiguous");
    QTest::addColumn<bool>("switching");
    QTest::addColumn<bool>("device");
    for (int seed = 1; seed <= 6; ++seed) {
      QTest::addRow("tight pool, seed %d", seed) << seed << 20 << false << false << false;
      QTest::addRow("roomy pool, seed %d", seed) << seed << 200 << false << false << false;
      QTest::addRow("contiguous, seed %d", seed) << seed << 60 << true << false << false;
      QTest::addRow("switching modes, seed %d", seed) << seed << 40 << false << true << false;
      QTest::addRow("part on a device, seed %d", seed) << seed << 80 << false << false << true;
      QTest::addRow("switching on a device, seed %d", seed) << seed << 80 << false << true << true;
    }
  }
  void answersDoNotDependOnTheCache() {
    QFETCH(int, seed);
    QFETCH(int, nBlocks);
    QFETCH(bool, contiguous);
    QFETCH(bool, switching);
    QFETCH(bool, device);
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto draw = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };

    Scheduler::Options options;
    options.contextTokens = std::min(nBlocks * 16, 280);
    options.prefillChunk = draw(5, 70);
    options.maxSequences = draw(2, 6);
    if (contiguous) options.cache.layout = KvLayout::kContiguous;
    SchedulerFixture f(nBlocks, options);
    const auto resizeDevice = [&] {
      f.backend.setHostBlocks(nBlocks -
                              draw(f.scheduler->cache().blocksFor(options.contextTokens), 50));
    };
    if (device) resizeDevice();

    struct Asked {
      std::vector<TokenId> prompt;
      GenerateRequest request;
      int conversation;
    };
    constexpr int kConversations = 9;
    std::vector<std::vector<TokenId>> histories(kConversations, std::vector<TokenId>(25, 3));
    std::map<RequestId, Asked> asked;
    std::size_t handled = 0;
    int stopped = 0, compared = 0;

    const auto ask = [&](int conversation) {
      auto prompt = histories[static_cast<std::size_t>(conversation)];
      switch (draw(0, 9)) {
        case 0:  // edit: another text from some place on
          prompt.resize(static_cast<std::size_t>(draw(1, static_cast<int>(prompt.size()))));
          break;
        case 1:  // a branch of another conversation
          prompt = histories[static_cast<std::size_t>(draw(0, kConversations - 1))];
          break;
        case 2:  // the same again
          break;
        default:
          break;
      }
      if (draw(0, 9) > 0 || prompt.empty()) {
        for (int i = draw(1, 30); i > 0; --i) prompt.push_back(draw(1, 60));
      }
      GenerateRequest request;
      request.sampling.temperature = draw(0, 1) == 0 ? 0.0F : 1.0F;
      request.sampling.seed = static_cast<std::uint64_t>(draw(0, 1 << 20));
      request.maxTokens = draw(1, 40);
      request.ignoreEnd = draw(0, 1) == 0;
      request.conversation = std::to_string(conversation);
      request.branch = std::to_string(draw(0, 2));
      const RequestId id = f.submit(prompt, request);
      asked[id] = Asked{std::move(prompt), std::move(request), conversation};
    };

    for (int step = 0; step < 1500; ++step) {
      if (asked.size() - handled < 8 && draw(0, 3) == 0) ask(draw(0, kConversations - 1));
      if (!asked.empty() && draw(0, 40) == 0) {
        const int newest = static_cast<int>(asked.size());
        f.stops[static_cast<RequestId>(draw(std::max(1, newest - 5), newest))].request_stop();
      }
      if (draw(0, 150) == 0) f.scheduler->forget(std::to_string(draw(0, kConversations - 1)));
      if (draw(0, 400) == 0) f.scheduler->clearCache("cache cleared");
      if (switching && draw(0, 20) == 0) {
        f.options.cache.enabled = draw(0, 3) > 0;
        f.options.cache.reuse = draw(0, 2) > 0;
        f.options.cache.layout = draw(0, 2) == 0 ? KvLayout::kContiguous : KvLayout::kPaged;
        f.scheduler->setOptions(f.options);
      }
      // What the device holds may shrink at any time, and grow again.
      if (device && draw(0, 30) == 0) resizeDevice();
      f.scheduler->step();
      QCOMPARE(f.scheduler->checkInvariants(), std::string{});

      for (; handled < f.finishOrder.size(); ++handled) {
        const RequestId id = f.finishOrder[handled];
        const Asked& turn = asked.at(id);
        const auto& outcome = f.outcomes.at(id);
        if (static_cast<int>(turn.prompt.size()) >= options.contextTokens) {
          QVERIFY(outcome.error || outcome.report->stopReason == StopReason::kCancelled);
          histories[static_cast<std::size_t>(turn.conversation)].resize(20);
          continue;
        }
        QVERIFY2(outcome.report, outcome.error ? outcome.error->message.c_str() : "");
        const auto expected =
            SchedulerFixture::expectedAnswer(turn.prompt, turn.request, options.contextTokens);
        const auto& answer = outcome.report->tokenIds;
        if (outcome.report->stopReason == StopReason::kCancelled) {
          ++stopped;
          QVERIFY(answer.size() <= expected.size());
          QVERIFY(std::equal(answer.begin(), answer.end(), expected.begin()));
        } else {
          ++compared;
          QCOMPARE(answer, expected);
        }
        QCOMPARE(outcome.streamedIds, answer);
        QCOMPARE(outcome.streamed, outcome.report->text);
        auto& history = histories[static_cast<std::size_t>(turn.conversation)];
        history = turn.prompt;
        history.insert(history.end(), answer.begin(), answer.end());
        if (static_cast<int>(history.size()) > options.contextTokens - 40) history.resize(30);
      }
    }
    QVERIFY(f.drain());
    QCOMPARE(f.backend.brokenReads, 0);
    QCOMPARE(f.backend.sharedWrites, 0);
    QCOMPARE(f.backend.overfull, 0);
    QCOMPARE(f.finishOrder.size(), asked.size());
    QCOMPARE(f.scheduler->cache().pool().usedCount(), 0);
    // The run meant something: turns ended, some were stopped, blocks were found again.
    QVERIFY2(compared > 20 && stopped > 0, qPrintable(QString("%1 %2").arg(compared).arg(stopped)));
    QVERIFY(f.records.totals.prefixHits > 0);
  }

  /// Memory for two conversations, six in use, 10,000 steps: with the disk behind the pool, where
  /// evicted conversations come back from, and without.
  void sixConversationsInTheMemoryOfTwo_data() {
    QTest::addColumn<int>("seed");
    QTest::addColumn<bool>("onDisk");
    for (int seed = 1; seed <= 2; ++seed) {
      QTest::addRow("memory alone, seed %d", seed) << seed << false;
      QTest::addRow("memory and disk, seed %d", seed) << seed << true;
    }
  }
  void sixConversationsInTheMemoryOfTwo() {
    QFETCH(int, seed);
    QFETCH(bool, onDisk);
    constexpr int kContext = 512, kConversations = 6, kSteps = 10000;
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto draw = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    QTemporaryDir folder;
    Scheduler::Options options;
    options.contextTokens = kContext;
    options.prefillChunk = 64;
    options.maxSequences = kConversations;
    SchedulerFixture f(2 * kContext / 16, options);
    std::unique_ptr<KvArchive> archive;
    if (onDisk) {
      archive = std::make_unique<KvArchive>(
          ArchiveOptions{folder.path().toStdString() + "/kv", 1 << 20}, [] {});
      archive->setDelays({}, {});
      archive->attach(f.scheduler->cache(), f.backend, "test");
      f.scheduler->setArchive(archive.get());
      archive->setPrediction([](int, int tokens) { return 10.0 * tokens; });
    }

    struct Asked {
      std::vector<TokenId> prompt;
      GenerateRequest request;
      int conversation;
    };
    std::vector<std::vector<TokenId>> histories(kConversations);
    std::vector<bool> asking(kConversations, false);
    std::map<RequestId, Asked> asked;
    std::size_t handled = 0;
    int compared = 0, stopped = 0, restored = 0;
    double wasted = 0, reserved = 0;

    const auto ask = [&](int conversation) {
      const auto place = static_cast<std::size_t>(conversation);
      auto prompt = histories[place];
      const int what = draw(0, 11);
      if (what == 0 && !prompt.empty()) {  // edit
        prompt.resize(static_cast<std::size_t>(draw(1, static_cast<int>(prompt.size()))));
      } else if (what == 1) {  // a branch of another conversation
        prompt = histories[static_cast<std::size_t>(draw(0, kConversations - 1))];
      }
      if (what != 2 || prompt.empty()) {  // 2: the same again
        for (int i = draw(8, 50); i > 0; --i) prompt.push_back(draw(1, 60));
      }
      GenerateRequest request;
      request.sampling.temperature = draw(0, 1) == 0 ? 0.0F : 1.0F;
      request.sampling.seed = static_cast<std::uint64_t>(draw(0, 1 << 20));
      request.maxTokens = draw(5, 60);
      request.ignoreEnd = true;
      request.conversation = std::to_string(conversation);
      request.branch = std::to_string(draw(0, 2));
      const RequestId id = f.submit(prompt, request);
      asked[id] = Asked{std::move(prompt), std::move(request), conversation};
      asking[place] = true;
    };

    for (int step = 0; step < kSteps; ++step) {
      const int conversation = draw(0, kConversations - 1);
      if (!asking[static_cast<std::size_t>(conversation)] && draw(0, 5) == 0) ask(conversation);
      if (!asked.empty() && draw(0, 60) == 0) {
        const int newest = static_cast<int>(asked.size());
        f.stops[static_cast<RequestId>(draw(std::max(1, newest - 5), newest))].request_stop();
      }
      f.scheduler->step();
      QCOMPARE(f.scheduler->checkInvariants(), std::string{});
      const auto fill = f.scheduler->poolFill();
      wasted += fill.wasted;
      reserved += fill.reserved;

      for (; handled < f.finishOrder.size(); ++handled) {
        const RequestId id = f.finishOrder[handled];
        const Asked& turn = asked.at(id);
        const auto& outcome = f.outcomes.at(id);
        QVERIFY2(outcome.report, outcome.error ? outcome.error->message.c_str() : "");
        const auto expected = SchedulerFixture::expectedAnswer(turn.prompt, turn.request, kContext);
        const auto& answer = outcome.report->tokenIds;
        if (outcome.report->stopReason == StopReason::kCancelled) {
          ++stopped;
          QVERIFY(answer.size() <= expected.size());
          QVERIFY(std::equal(answer.begin(), answer.end(), expected.begin()));
        } else {
          ++compared;
          QCOMPARE(answer, expected);
        }
        restored += outcome.report->restore.restored ? 1 : 0;
        const auto place = static_cast<std::size_t>(turn.conversation);
        asking[place] = false;
        auto& history = histories[place];
        history = turn.prompt;
        history.insert(history.end(), answer.begin(), answer.end());
        if (static_cast<int>(history.size()) > kContext - 60) history.clear();  // a new chat
      }
    }
    QVERIFY(f.drain());
    if (archive) {
      f.scheduler->setArchive(nullptr);
      archive->detach(std::chrono::seconds(20));
    }
    QCOMPARE(f.backend.brokenReads, 0);
    QCOMPARE(f.backend.sharedWrites, 0);
    QCOMPARE(f.scheduler->cache().pool().usedCount(), 0);
    QVERIFY(f.scheduler->cache().evictedBlocks() > 1000);
    QVERIFY2(compared > 100 && stopped > 10,
             qPrintable(QString("%1 %2").arg(compared).arg(stopped)));
    QCOMPARE(restored > 10, onDisk);
    const double share = wasted / reserved;
    qInfo("%d answers compared, %d stopped, %d restored, %llu blocks evicted, waste %.2f %%",
          compared, stopped, restored,
          static_cast<unsigned long long>(f.scheduler->cache().evictedBlocks()), 100 * share);
    QVERIFY2(share <= 0.04, qPrintable(QString::number(share)));
  }
};

QTEST_APPLESS_MAIN(TestPressure)
#include "tst_pressure.moc"

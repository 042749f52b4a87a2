#include <QtTest>

#include <random>

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
    for (int seed = 1; seed <= 6; ++seed) {
      QTest::addRow("tight pool, seed %d", seed) << seed << 20 << false << false;
      QTest::addRow("roomy pool, seed %d", seed) << seed << 200 << false << false;
      QTest::addRow("contiguous, seed %d", seed) << seed << 60 << true << false;
      QTest::addRow("switching modes, seed %d", seed) << seed << 40 << false << true;
    }
  }
  void answersDoNotDependOnTheCache() {
    QFETCH(int, seed);
    QFETCH(int, nBlocks);
    QFETCH(bool, contiguous);
    QFETCH(bool, switching);
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
    QCOMPARE(f.finishOrder.size(), asked.size());
    QCOMPARE(f.scheduler->cache().pool().usedCount(), 0);
    // The run meant something: turns ended, some were stopped, blocks were found again.
    QVERIFY2(compared > 20 && stopped > 0, qPrintable(QString("%1 %2").arg(compared).arg(stopped)));
    QVERIFY(f.records.totals.prefixHits > 0);
  }
};

QTEST_APPLESS_MAIN(TestPressure)
#include "tst_pressure.moc"

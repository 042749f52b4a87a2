#include <QtTest>

#include <algorithm>
#include <numeric>

#include "tests/engine/schedule/scheduler_fixture.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;

namespace {

GenerateRequest greedy(int maxTokens, bool ignoreEnd = true) {
  return SchedulerFixture::greedy(maxTokens, ignoreEnd);
}

}  // namespace

class TestScheduler : public QObject {
  Q_OBJECT

 private slots:
  void answersAsTheModelAlone() {
    SchedulerFixture f(16);
    const auto prompt = counted(37);
    const RequestId id = f.submit(prompt, greedy(20));
    QVERIFY(f.drain());
    const auto& outcome = f.outcomes[id];
    QVERIFY(outcome.report);
    QCOMPARE(outcome.report->tokenIds, SchedulerFixture::expectedAnswer(prompt, greedy(20), 256));
    QCOMPARE(outcome.streamedIds, outcome.report->tokenIds);
    QCOMPARE(outcome.streamed, outcome.report->text);
    QCOMPARE(outcome.report->stopReason, StopReason::kLength);
    QCOMPARE(outcome.report->promptTokens, 37);
    QCOMPARE(outcome.report->prefilledTokens, 37);
    QCOMPARE(outcome.report->generatedTokens, 20);
    QCOMPARE(outcome.started, 1);
    QCOMPARE(f.backend.computedTokens, 37 + 19);
    QCOMPARE(f.problem, std::string{});
  }

  void theEndTokenIsCountedAndNotShown() {
    SchedulerFixture f(64);
    const RequestId id = f.submit(counted(5), greedy(0, false));
    QVERIFY(f.drain());
    const TurnReport& report = f.outcomes[id].report.value();
    QCOMPARE(report.stopReason, StopReason::kEnd);
    QCOMPARE(report.generatedTokens, static_cast<int>(report.tokenIds.size()) + 1);
    QVERIFY(std::ranges::find(report.tokenIds, 0) == report.tokenIds.end());
  }

  void theNextTurnComputesOnlyWhatIsNew() {
    SchedulerFixture f(32);
    auto history = counted(50);
    const RequestId first = f.submit(history, greedy(30));
    QVERIFY(f.drain());
    const auto answer = f.outcomes[first].report->tokenIds;
    history.insert(history.end(), answer.begin(), answer.end());
    const auto question = counted(9, 40);
    history.insert(history.end(), question.begin(), question.end());
    const RequestId second = f.submit(history, greedy(5));
    QVERIFY(f.drain());
    const TurnReport& report = f.outcomes[second].report.value();
    QCOMPARE(report.reusedTokens, 79);  // all but the answer's last token, which was never fed
    QCOMPARE(report.prefilledTokens, 10);
    QCOMPARE(report.reuse.reason, std::string("continued"));
    QCOMPARE(report.tokenIds, SchedulerFixture::expectedAnswer(history, greedy(5), 512));
    QCOMPARE(f.records.totals.prefixHits, std::uint64_t{79});
  }

  void saysWhyAPromptWasNotReused() {
    SchedulerFixture f(8);
    const auto reason = [&](const std::vector<TokenId>& prompt, const char* conversation) {
      auto request = greedy(2);
      request.conversation = conversation;
      const RequestId id = f.submit(prompt, request);
      if (!f.drain()) return std::string("never ended");
      return f.outcomes[id].report->reuse.reason;
    };
    const auto prompt = counted(60);
    QCOMPARE(reason(prompt, "a"), std::string("new conversation"));
    QCOMPARE(reason(prompt, "a"), std::string("same prompt again"));
    auto edited = prompt;
    edited[21] = 60;
    QCOMPARE(reason(edited, "a"), std::string("edited at token 21"));
    QCOMPARE(reason(edited, "b"), std::string("new conversation, beginning shared"));
    f.scheduler->clearCache("cache cleared");
    QCOMPARE(reason(edited, "a"), std::string("cache cleared"));
    QCOMPARE(reason(counted(100, 30), "z"), std::string("new conversation"));
    QCOMPARE(reason(edited, "b"), std::string("cache cleared"));
    QCOMPARE(reason(counted(120, 31), "z"), std::string("edited at token 0"));
    QCOMPARE(reason(edited, "b"), std::string("evicted"));
    f.options.cache.reuse = false;
    f.scheduler->setOptions(f.options);
    QCOMPARE(reason(edited, "b"), std::string("reuse off"));
    f.options.cache.enabled = false;
    f.scheduler->setOptions(f.options);
    QCOMPARE(reason(edited, "b"), std::string("cache off"));
  }

  void fourTogetherAnswerAsEachAlone() {
    SchedulerFixture f(64);
    std::vector<RequestId> ids;
    for (int i = 0; i < 4; ++i) ids.push_back(f.submit(counted(10 + 13 * i, i), greedy(25)));
    QVERIFY(f.drain());
    for (int i = 0; i < 4; ++i) {
      QCOMPARE(f.outcomes[ids[static_cast<std::size_t>(i)]].report->tokenIds,
               SchedulerFixture::expectedAnswer(counted(10 + 13 * i, i), greedy(25), 1024));
    }
    QCOMPARE(f.backend.mostSequences, 4);
    QCOMPARE(f.backend.sharedWrites, 0);
    QVERIFY(f.backend.steps <= 25);
  }

  void aLongPromptDoesNotStallARunningChat() {
    Scheduler::Options options;
    options.prefillChunk = 32;
    SchedulerFixture f(64, options);
    const RequestId chat = f.submit(counted(10), greedy(40));
    f.scheduler->step();
    const RequestId longOne = f.submit(counted(320, 5), greedy(3));
    for (int step = 0; step < 10; ++step) {
      const auto before = f.outcomes[chat].streamedIds.size();
      f.scheduler->step();
      QCOMPARE(f.outcomes[chat].streamedIds.size(), before + 1);  // one token every step
    }
    QVERIFY(f.drain());
    QVERIFY(f.backend.mostTokens <= 33);
    // The last chunk brings the first token instead.
    QCOMPARE(f.outcomes[longOne].prefillDone,
             (std::vector<int>{32, 64, 96, 128, 160, 192, 224, 256, 288}));
    QCOMPARE(f.outcomes[longOne].report->tokenIds,
             SchedulerFixture::expectedAnswer(counted(320, 5), greedy(3), 1024));
  }

  void stopsWithinOneStep() {
    SchedulerFixture f(64);
    const RequestId running = f.submit(counted(10), greedy(0));
    f.options.maxSequences = 1;
    f.scheduler->setOptions(f.options);
    f.scheduler->step();
    const RequestId waiting = f.submit(counted(10, 3), greedy(0));
    f.scheduler->step();
    f.stops[running].request_stop();
    f.stops[waiting].request_stop();
    f.scheduler->step();
    QCOMPARE(f.outcomes[running].report->stopReason, StopReason::kCancelled);
    QCOMPARE(f.outcomes[running].report->tokenIds.size(), std::size_t{2});
    QCOMPARE(f.outcomes[waiting].report->stopReason, StopReason::kCancelled);
    QCOMPARE(f.outcomes[waiting].report->generatedTokens, 0);
    QVERIFY(f.scheduler->isIdle());
    QCOMPARE(f.scheduler->cache().pool().usedCount(), 0);
  }

  void aConversationForgottenDuringItsTurnLeavesNothing() {
    SchedulerFixture f(40);
    const auto leavesBlocks = [&f] {
      EngineSnapshot snapshot;
      f.scheduler->describe(snapshot);
      return std::ranges::any_of(snapshot.owners, [](const auto& owner) {
        return owner.conversation == "gone" && owner.blocks > 0;
      });
    };
    for (const bool cancelled : {true, false}) {
      const RequestId gone = f.submit(counted(100), SchedulerFixture::greedy(20, true, "gone"));
      f.submit(counted(60, 9), SchedulerFixture::greedy(40, true, "other"));
      for (int i = 0; i < 3; ++i) f.scheduler->step();
      QVERIFY(leavesBlocks());
      f.scheduler->forget("gone");
      if (cancelled) f.stops[gone].request_stop();
      QVERIFY(f.drain());
      QVERIFY2(f.problem.empty(), f.problem.c_str());
      QVERIFY(f.outcomes[gone].report);
      QVERIFY(!leavesBlocks());
    }
    // One that came after is kept as ever.
    f.submit(counted(100), SchedulerFixture::greedy(5, true, "gone"));
    QVERIFY(f.drain());
    QVERIFY(leavesBlocks());
  }

  void anAnswerEndsAtTheContext() {
    Scheduler::Options options;
    options.contextTokens = 40;
    SchedulerFixture f(16, options);
    const RequestId id = f.submit(counted(30), greedy(0));
    const RequestId tooLong = f.submit(counted(40), greedy(0));
    const RequestId lastRoom = f.submit(counted(39, 9), greedy(0));
    QVERIFY(f.drain());
    QCOMPARE(f.outcomes[id].report->stopReason, StopReason::kContext);
    QCOMPARE(f.outcomes[id].report->generatedTokens, 10);
    QCOMPARE(f.outcomes[tooLong].error->code, ErrorCode::kContextFull);
    QCOMPARE(f.outcomes[lastRoom].report->generatedTokens, 1);
  }

  void theYoungestMakesRoomAndResumes() {
    Scheduler::Options options;
    options.contextTokens = 128;
    SchedulerFixture f(8, options);
    const RequestId old = f.submit(counted(20), greedy(80));
    const RequestId young = f.submit(counted(20, 7), greedy(80));
    QVERIFY(f.drain());
    QCOMPARE(f.problem, std::string{});
    QCOMPARE(f.outcomes[old].report->tokenIds,
             SchedulerFixture::expectedAnswer(counted(20), greedy(80), 128));
    QCOMPARE(f.outcomes[young].report->tokenIds,
             SchedulerFixture::expectedAnswer(counted(20, 7), greedy(80), 128));
    QCOMPARE(f.finishOrder, (std::vector<RequestId>{old, young}));
    QCOMPARE(f.outcomes[young].started, 1);
    QCOMPARE(f.outcomes[young].streamedIds, f.outcomes[young].report->tokenIds);
  }

  void withTheCacheOffEveryTokenComputesTheWholeSequence() {
    Scheduler::Options options;
    options.cache.enabled = false;
    SchedulerFixture f(16, options);
    const RequestId id = f.submit(counted(30), greedy(10));
    QVERIFY(f.drain());
    QCOMPARE(f.outcomes[id].report->tokenIds,
             SchedulerFixture::expectedAnswer(counted(30), greedy(10), 256));
    QCOMPARE(f.backend.computedTokens, 30 * 10 + 45);  // 30 + 31 + … + 39
    QCOMPARE(f.scheduler->cache().pool().freeCount(), 16);
  }

  void contiguousReservesTheWholeContext() {
    Scheduler::Options options;
    options.contextTokens = 128;
    options.cache.layout = KvLayout::kContiguous;
    SchedulerFixture f(16, options);
    const RequestId id = f.submit(counted(30), greedy(10));
    f.submit(counted(30, 4), greedy(10));
    f.submit(counted(30, 8), greedy(10));
    f.scheduler->step();
    QCOMPARE(f.scheduler->runningCount(), 2);  // the third does not fit
    QCOMPARE(f.scheduler->cache().pool().usedCount(), 16);
    QVERIFY(f.drain());
    QCOMPARE(f.finishOrder.size(), std::size_t{3});
    const KvUse kv = f.outcomes[id].report->kv;
    QCOMPARE(kv.blocksUsed, 8);
    QCOMPARE(kv.bytesReserved, std::uint64_t{8 * 128});
    QCOMPARE(kv.bytesUsed, std::uint64_t{39 * 8});
    QCOMPARE(f.outcomes[id].report->tokenIds,
             SchedulerFixture::expectedAnswer(counted(30), greedy(10), 128));
  }

  void outOfMemoryShedsCachedBlocksAndTriesAgain() {
    SchedulerFixture f(16);
    f.submit(counted(40), greedy(2));
    QVERIFY(f.drain());
    QVERIFY(f.scheduler->cache().pool().cachedCount() > 0);
    const RequestId id = f.submit(counted(20, 9), greedy(5));
    f.backend.failNext = Error{ErrorCode::kOutOfMemory, "no memory"};
    f.backend.failures = 1;
    QVERIFY(f.drain());
    QCOMPARE(f.outcomes[id].report->tokenIds,
             SchedulerFixture::expectedAnswer(counted(20, 9), greedy(5), 256));
  }

  void aFailedBatchEndsOneTurnAndTheOthersGoOn() {
    SchedulerFixture f(32);
    const RequestId chat = f.submit(counted(10), greedy(10));
    f.scheduler->step();
    const RequestId big = f.submit(counted(100, 9), greedy(5));
    f.backend.failNext = Error{ErrorCode::kOutOfMemory, "no memory"};
    f.backend.failures = 2;
    QVERIFY(f.drain());
    QCOMPARE(f.outcomes[big].error->code, ErrorCode::kOutOfMemory);
    QCOMPARE(f.outcomes[chat].report->tokenIds,
             SchedulerFixture::expectedAnswer(counted(10), greedy(10), 512));
    QCOMPARE(f.problem, std::string{});
  }

  void aDeviceThatHoldsLessThanBeforeRunsFewerAtATime() {
    SchedulerFixture f(32);
    const RequestId first = f.submit(counted(60), greedy(20, true));
    const RequestId second = f.submit(counted(60, 9), greedy(20, true));
    f.scheduler->step();
    QCOMPARE(f.scheduler->runningCount(), 2);
    // The device gave memory back within the step: what is left holds one of them.
    f.backend.failNext = Error{ErrorCode::kOutOfMemory, "no memory"};
    f.backend.failures = 1;
    f.backend.hostBlocksAfterFailure = 32 - 6;
    f.scheduler->step();
    f.scheduler->step();
    QCOMPARE(f.scheduler->runningCount(), 1);
    QVERIFY(f.drain());
    QCOMPARE(f.outcomes[first].report->tokenIds,
             SchedulerFixture::expectedAnswer(counted(60), greedy(20, true), 512));
    QCOMPARE(f.outcomes[second].report->tokenIds,
             SchedulerFixture::expectedAnswer(counted(60, 9), greedy(20, true), 512));
    QCOMPARE(f.backend.overfull, 0);
    QCOMPARE(f.problem, std::string{});
  }

  void aSequenceThatTheDeviceCannotHoldIsRefusedByNumbers() {
    SchedulerFixture f(32);
    f.backend.setHostBlocks(28);
    const RequestId id = f.submit(counted(100), greedy(5));
    QVERIFY(f.drain());
    QCOMPARE(f.outcomes[id].error->code, ErrorCode::kOutOfMemory);
    QVERIFY2(f.outcomes[id].error->message.find("has 4") != std::string::npos,
             f.outcomes[id].error->message.c_str());
  }

  void aLostDeviceEndsEveryTurnAndThoseThatCome() {
    Scheduler::Options options;
    options.maxSequences = 2;
    SchedulerFixture f(32, options);
    std::vector<RequestId> ids;
    for (int i = 0; i < 3; ++i) ids.push_back(f.submit(counted(20, i), greedy(20, true)));
    f.scheduler->step();
    QVERIFY(!f.scheduler->isDeviceLost());
    f.backend.failNext = Error{ErrorCode::kDeviceLost, "the GPU failed"};
    f.scheduler->step();
    QVERIFY(f.scheduler->isDeviceLost());
    QVERIFY(f.scheduler->isIdle());
    const int steps = f.backend.steps;
    ids.push_back(f.submit(counted(20, 7), greedy(5)));
    QVERIFY(f.drain());
    for (const RequestId id : ids) {
      QVERIFY(f.outcomes[id].error);
      QCOMPARE(f.outcomes[id].error->code, ErrorCode::kDeviceLost);
      QCOMPARE(f.outcomes[id].error->message, std::string("the GPU failed"));
    }
    QCOMPARE(f.backend.steps, steps);  // nothing more is asked of it
    QCOMPARE(f.scheduler->cache().pool().freeCount(), 32);
    QCOMPARE(f.problem, std::string{});
  }

  void theSameSeedGivesTheSameText() {
    auto request = greedy(30);
    request.sampling.temperature = 1.0F;
    request.sampling.seed = 7;
    SchedulerFixture f(64);
    const RequestId alone = f.submit(counted(20), request);
    QVERIFY(f.drain());
    const RequestId a = f.submit(counted(20), request);
    f.submit(counted(33, 5), request);
    const RequestId b = f.submit(counted(20), request);
    QVERIFY(f.drain());
    QCOMPARE(f.outcomes[a].report->text, f.outcomes[alone].report->text);
    QCOMPARE(f.outcomes[b].report->text, f.outcomes[alone].report->text);
    QCOMPARE(f.outcomes[a].report->seed, std::uint64_t{7});
  }

  void aStopTextEndsTheAnswer() {
    SchedulerFixture f(16);
    const auto full = SchedulerFixture::expectedAnswer(counted(20), greedy(20), 256);
    const std::string text = f.tokenizer.decode(full);
    auto request = greedy(20);
    request.stop = {text.substr(7, 3)};
    const RequestId id = f.submit(counted(20), request);
    QVERIFY(f.drain());
    const auto& outcome = f.outcomes[id];
    QCOMPARE(outcome.report->stopReason, StopReason::kStopText);
    QCOMPARE(outcome.report->text, text.substr(0, text.find(request.stop[0])));
    QCOMPARE(outcome.streamed, outcome.report->text);
    QCOMPARE(outcome.report->tokenIds.size(), outcome.report->text.size());
  }

  void theSnapshotCountsEveryBlockOnce() {
    SchedulerFixture f(16);
    auto request = greedy(2);
    request.conversation = "old";
    f.submit(counted(40), request);
    QVERIFY(f.drain());
    request.conversation = "new";
    request.branch = "2";
    request.maxTokens = 50;
    f.submit(counted(20, 9), request);
    f.scheduler->step();
    EngineSnapshot snapshot;
    f.scheduler->describe(snapshot);
    QCOMPARE(snapshot.blocks.size(), std::size_t{16});
    QCOMPARE(snapshot.blocksUsed, 2);
    QCOMPARE(snapshot.blocksCached, 3);
    QCOMPARE(snapshot.blocksFree, 11);
    QCOMPARE(snapshot.owners.size(), std::size_t{2});
    for (const CacheOwner& owner : snapshot.owners) {
      QCOMPARE(owner.tokens, owner.conversation == "old" ? 41 : 20);
      QCOMPARE(owner.blocks, owner.conversation == "old" ? 3 : 2);
      QCOMPARE(owner.bytes, snapshot.bytesPerBlock * static_cast<std::uint64_t>(owner.blocks));
    }
    QCOMPARE(snapshot.runningSequences, 1);
  }
};

QTEST_APPLESS_MAIN(TestScheduler)
#include "tst_scheduler.moc"

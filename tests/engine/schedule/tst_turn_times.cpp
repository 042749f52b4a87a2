// What the engine notes of the steps and of each turn's time: who was in which step, what each
// token cost, and what was foretold.
#include <QtTest>

#include <algorithm>
#include <numeric>

#include "tests/engine/schedule/scheduler_fixture.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;

namespace {

GenerateRequest greedy(int maxTokens, std::string conversation = "c") {
  return SchedulerFixture::greedy(maxTokens, true, std::move(conversation));
}

BuiltPrompt built(std::vector<TokenId> tokens) {
  BuiltPrompt prompt;
  prompt.tokens = std::move(tokens);
  return prompt;
}

}  // namespace

class TestTurnTimes : public QObject {
  Q_OBJECT

 private slots:
  void theStepLogTellsWhoWasInEachStep() {
    Scheduler::Options options;
    options.prefillChunk = 16;
    SchedulerFixture f(32, options);
    auto request = greedy(3, "first");
    request.branch = std::string("b");
    const RequestId a = f.submit(counted(20), request);
    f.scheduler->step();
    const RequestId b = f.submit(counted(5, 9), greedy(2, "second"));
    QVERIFY(f.drain());
    const auto steps = f.records.steps.records();
    QCOMPARE(steps.size(), static_cast<std::size_t>(f.backend.steps));
    QCOMPARE(steps[0].number, std::uint64_t{1});
    QCOMPARE(steps[0].rows.size(), std::size_t{1});
    QCOMPARE(steps[0].rows[0].turn, a);
    QCOMPARE(steps[0].rows[0].conversation, std::string("first"));
    QCOMPARE(steps[0].rows[0].branch, std::string("b"));
    QCOMPARE(steps[0].rows[0].prefillTokens, 16);
    QCOMPARE(steps[0].rows[0].decodeTokens, 0);
    // The rest of the first prompt, and the whole second one.
    QCOMPARE(steps[1].rows.size(), std::size_t{2});
    QCOMPARE(steps[1].rows[0].prefillTokens + steps[1].rows[1].prefillTokens, 4 + 5);
    QCOMPARE(steps[2].rows.size(), std::size_t{2});
    QCOMPARE(steps[2].rows[0].decodeTokens, 1);
    QCOMPARE(steps[2].rows[1].turn, b);
    QCOMPARE(steps[3].rows.size(), std::size_t{1});
    int prefilled = 0, decoded = 0;
    for (const StepRecord& step : steps) {
      QVERIFY(step.milliseconds > 0);
      for (const StepRow& row : step.rows) {
        prefilled += row.prefillTokens;
        decoded += row.decodeTokens;
      }
    }
    QCOMPARE(prefilled, 25);
    QCOMPARE(decoded, 2 + 1);
  }

  void theLogKeepsTheLatestSteps() {
    SchedulerFixture f(64);
    f.submit(counted(4), greedy(300));
    QVERIFY(f.drain());
    const auto steps = f.records.steps.records();
    QCOMPARE(steps.size(), std::size_t{256});
    QCOMPARE(steps.front().number, std::uint64_t{300 - 256 + 1});
    QCOMPARE(steps.back().number, std::uint64_t{300});
    QVERIFY(std::ranges::is_sorted(steps, {}, &StepRecord::start));
  }

  void waitingTurnsAreCounted() {
    Scheduler::Options options;
    options.maxSequences = 1;
    SchedulerFixture f(32, options);
    for (int i = 0; i < 3; ++i) f.submit(counted(4, i), greedy(1));
    QVERIFY(f.drain());
    const auto steps = f.records.steps.records();
    QCOMPARE(steps[0].waiting, 2);
    QCOMPARE(steps[1].waiting, 1);
    QCOMPARE(steps[2].waiting, 0);
  }

  void chunksAddUpToThePrompt() {
    Scheduler::Options options;
    options.prefillChunk = 16;
    SchedulerFixture f(32, options);
    f.submit(counted(3, 50), greedy(30));
    f.scheduler->step();
    const RequestId id = f.submit(counted(40), greedy(4));
    QVERIFY(f.drain());
    const TurnReport& report = f.outcomes[id].report.value();
    std::vector<int> sizes;
    float sum = 0;
    for (const PrefillChunk& chunk : report.chunks) {
      sizes.push_back(chunk.tokens);
      sum += chunk.milliseconds;
      QCOMPARE(chunk.othersTokens, 1);
    }
    QCOMPARE(sizes, (std::vector<int>{16, 16, 8}));
    QVERIFY(std::abs(sum - report.ttft.prefill) <= 0.01F * sum);
    const TtftParts& t = report.ttft;
    const double parts =
        t.render + t.tokenize + t.match + t.queue + t.restore + t.prefill + t.sample + t.detokenize;
    QVERIFY2(std::abs(parts - report.ttftMs) <= 0.001 + 0.001 * report.ttftMs,
             qPrintable(QString("%1 of %2").arg(parts).arg(report.ttftMs)));
  }

  void workPerTokenIsLinearWithACacheAndQuadraticWithout() {
    for (const bool cached : {true, false}) {
      Scheduler::Options options;
      options.cache.enabled = cached;
      SchedulerFixture f(32, options);
      const RequestId id = f.submit(counted(40), greedy(25));
      QVERIFY(f.drain());
      const TurnReport& report = f.outcomes[id].report.value();
      QCOMPARE(report.tokenRows.size(), std::size_t{25});
      QCOMPARE(report.tokenRows[0], 40);
      for (int i = 1; i < 25; ++i) {
        QCOMPARE(report.tokenRows[static_cast<std::size_t>(i)], cached ? 1 : 40 + i);
      }
      const int sum = std::accumulate(report.tokenRows.begin(), report.tokenRows.end(), 0);
      QCOMPARE(sum, f.backend.computedTokens);
      QCOMPARE(sum, cached ? 40 + 24 : 25 * 40 + 24 * 25 / 2);
    }
  }

  void everyTokenHasACause() {
    Scheduler::Options options;
    options.prefillChunk = 16;
    SchedulerFixture f(64, options);
    f.backend.timeOfToken = std::chrono::milliseconds(2);
    // What steps cost is learned first, of one row, of two, and of a chunk.
    f.submit(counted(32, 40), greedy(30));
    f.submit(counted(32, 41), greedy(15));
    QVERIFY(f.drain());
    const RequestId id = f.submit(counted(3), greedy(20));
    for (int i = 0; i < 4; ++i) f.scheduler->step();
    f.submit(counted(32, 20), greedy(4));
    QVERIFY(f.drain());
    const TurnReport& report = f.outcomes[id].report.value();
    QCOMPARE(report.tokenCauses.size(), report.tokenMs.size());
    // Two chunks of the other's prompt, then its three decode steps beside this one. On a machine
    // that does other things, too, a step may also be late by itself.
    const auto is = [&](std::size_t token, StallCause cause) {
      return report.tokenCauses[token] == cause || report.tokenCauses[token] == StallCause::kSystem;
    };
    for (const std::size_t alone : {0, 3, 9, 15}) QVERIFY(is(alone, StallCause::kNone));
    QVERIFY(is(4, StallCause::kOthersPrefill));
    QVERIFY(is(5, StallCause::kOthersPrefill));
    for (const std::size_t both : {6, 7, 8}) QVERIFY(is(both, StallCause::kLargerBatch));
    QVERIFY(std::ranges::count(report.tokenCauses, StallCause::kSystem) < 10);
  }

  void beingPutBackIsACause() {
    SchedulerFixture f(9);
    f.submit(counted(60), greedy(40, "old"));
    const RequestId young = f.submit(counted(40, 9), greedy(40, "young"));
    QVERIFY(f.drain());
    const TurnReport& report = f.outcomes[young].report.value();
    const auto putBack = std::ranges::count(report.tokenCauses, StallCause::kPutBack);
    QVERIFY(putBack > 0);
    for (std::size_t i = 0; i < report.tokenCauses.size(); ++i) {
      if (i > 0 && report.tokenCauses[i] == StallCause::kPutBack) {
        QVERIFY(report.tokenRows[i] >= 1);
      }
    }
  }

  void staticBatchesAdmitOnlyWhenNothingRuns() {
    for (const Batching batching : {Batching::kContinuous, Batching::kStatic}) {
      Scheduler::Options options;
      options.batching = batching;
      SchedulerFixture f(32, options);
      f.submit(counted(5), greedy(10));
      f.scheduler->step();
      std::vector<RequestId> later;
      for (int i = 0; i < 3; ++i) later.push_back(f.submit(counted(5, i), greedy(2 + i)));
      QVERIFY(f.drain());
      const auto steps = f.records.steps.records();
      std::vector<std::size_t> sizes;
      for (const StepRecord& step : steps) sizes.push_back(step.rows.size());
      if (batching == Batching::kContinuous) {
        QCOMPARE(sizes, (std::vector<std::size_t>{1, 4, 4, 3, 2, 1, 1, 1, 1, 1}));
      } else {
        QCOMPARE(sizes, (std::vector<std::size_t>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 2, 1}));
        QCOMPARE(steps[5].waiting, 3);
      }
      // The switch changes when, never what.
      for (int i = 0; i < 3; ++i) {
        const auto& report = f.outcomes[later[static_cast<std::size_t>(i)]].report.value();
        QCOMPARE(report.tokenIds,
                 SchedulerFixture::expectedAnswer(counted(5, i), greedy(2 + i), 512));
      }
      QCOMPARE(f.problem, std::string{});
    }
  }

  void remainingTimeShrinksToTheFirstToken() {
    Scheduler::Options options;
    options.prefillChunk = 16;
    SchedulerFixture f(32, options);
    f.backend.timeOfToken = std::chrono::microseconds(300);
    f.submit(counted(90, 40), greedy(1));
    QVERIFY(f.drain());
    const RequestId id = f.submit(counted(100), greedy(1));
    QVERIFY(f.drain());
    const auto& remaining = f.outcomes[id].prefillRemaining;
    QCOMPARE(remaining.size(), std::size_t{6});
    for (const double ms : remaining) QVERIFY(ms > 0);
    QVERIFY(remaining.front() > 2 * remaining.back());
    QVERIFY(f.outcomes[id].report->forecastTtftMs > remaining.front());
  }

  void theForecastIsWhatTheTurnDoes() {
    SchedulerFixture f(16);
    const auto prompt = counted(100);
    const Forecast cold = f.scheduler->forecast(built(prompt));
    QCOMPARE(cold.promptTokens, 100);
    QCOMPARE(cold.reusedTokens, 0);
    QCOMPARE(cold.newTokens, 100);
    QCOMPARE(cold.newBlocks, 7);
    QCOMPARE(cold.evictedBlocks, 0);
    QVERIFY(cold.fits);
    QCOMPARE(cold.newBytes, 7 * f.backend.memory().kvBytesPerBlock);
    QCOMPARE(f.backend.steps, 0);
    const RequestId first = f.submit(prompt, greedy(2));
    QVERIFY(f.drain());
    QCOMPARE(f.outcomes[first].report->reusedTokens, cold.reusedTokens);

    auto longer = prompt;
    for (const TokenId id : counted(30, 3)) longer.push_back(id);
    const Forecast warm = f.scheduler->forecast(built(longer));
    const Forecast other = f.scheduler->forecast(built(counted(200, 31)));
    QCOMPARE(other.newBlocks, 13);
    const int cachedBefore = f.scheduler->cache().pool().cachedCount();
    QCOMPARE(other.evictedBlocks, 13 - (16 - cachedBefore));
    const RequestId second = f.submit(longer, greedy(1));
    QVERIFY(f.drain());
    QCOMPARE(warm.reusedTokens, f.outcomes[second].report->reusedTokens);
    QCOMPARE(warm.newTokens, f.outcomes[second].report->prefilledTokens);
    const Forecast tooLong = f.scheduler->forecast(built(counted(256)));
    QVERIFY(!tooLong.fits);
    QCOMPARE(f.problem, std::string{});
  }
};

QTEST_GUILESS_MAIN(TestTurnTimes)
#include "tst_turn_times.moc"

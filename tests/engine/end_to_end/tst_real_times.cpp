// What the program says about time, on the real model: forecasts against facts, batches against
// single chats, the cache against none. The figures are ratios taken close together; on a machine
// that is busy with other things a measurement is taken once more before it counts.
#include <QtTest>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/engine/engine_harness.h"
#include "tests/test_model.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;
using namespace vitrine::test;

namespace {

ChatMessage user(std::string text) {
  return {"user", std::move(text), {}};
}

std::string words(int count, int seed) {
  static const char* const kWords[] = {"river",  "stone",  "winter",  "letter", "bridge",  "garden",
                                       "engine", "silver", "morning", "window", "harbour", "cloud"};
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += kWords[static_cast<std::size_t>(i * 7 + seed * 5 + i * i % 11) % 12];
    text += i % 9 == 8 ? ". " : " ";
  }
  return text;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double load() {
  double value = 0;
  std::ifstream("/proc/loadavg") >> value;
  return value;
}

GenerateRequest longAnswer(std::string text, int tokens, std::string conversation) {
  auto request = greedyChat({user(std::move(text))}, tokens, std::move(conversation));
  request.ignoreEnd = true;
  return request;
}

}  // namespace

class TestRealTimes : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { QVERIFY2(haveTestModel(), missingModelMessage().c_str()); }

  void theFirstForecastIsMeasured() {
    EngineHarness h;
    QVERIFY(h.load(testModelPath()).info);
    const auto before = h.idleSnapshot();
    QCOMPARE(before->memory.kvAllocatedBytes, std::uint64_t{0});
    QCOMPARE(before->blocksFree, static_cast<int>(before->blocks.size()));
    QCOMPARE(before->promptTokens, std::uint64_t{0});
    QCOMPARE(before->steps.size(), std::size_t{0});
    auto request = longAnswer(words(60, 1), 4, "a");
    const auto asked = h.wait(h.engine.forecast(request));
    QVERIFY(asked.forecast);
    QVERIFY(asked.forecast->ttftMs > 0);
    const auto fact = h.ask(request);
    QCOMPARE(asked.forecast->promptTokens, fact.report->promptTokens);
    QCOMPARE(asked.forecast->newTokens, fact.report->prefilledTokens);
    qInfo("first turn of %d tokens: %.1f ms foretold, %.1f ms taken", fact.report->promptTokens,
          asked.forecast->ttftMs, fact.report->ttftMs);
    QVERIFY(asked.forecast->ttftMs < 5 * fact.report->ttftMs);
    QVERIFY(asked.forecast->ttftMs > fact.report->ttftMs / 5);
  }

  void forecastAgainstFactOnTwentyTurns() {
    for (int attempt = 0; attempt < 2; ++attempt) {
      std::vector<double> asked, submitted;
      twentyTurns(asked, submitted);
      if (QTest::currentTestFailed()) return;
      const double error = median(asked), atSubmission = median(submitted);
      qInfo("median error of the TTFT: %.1f %% before Send, %.1f %% at submission (load %.1f)",
            100 * error, 100 * atSubmission, load());
      if (error <= 0.2 && atSubmission <= 0.2) return;
    }
    QFAIL("twice the median error was above 20 %");
  }

 private:
  /// Relative errors of 20 turns: new, continued, edited, long and short, every fourth while
  /// another chat is being answered.
  void twentyTurns(std::vector<double>& asked, std::vector<double>& submitted) {
    EngineHarness h;
    QVERIFY(h.load(testModelPath()).info);
    std::vector<ChatMessage> messages;
    for (int turn = 0; turn < 20; ++turn) {
      const int kind = turn % 5;
      if (kind == 0) messages.clear();                              // a new chat
      if (kind == 3) messages.resize(messages.size() / 2 / 2 * 2);  // an edit in the middle
      const int length = std::vector<int>{40, 6, 250, 90, 15}[static_cast<std::size_t>(kind)];
      messages.push_back(user(words(length + 8 * turn, turn)));
      auto request = greedyChat(messages, 24, "chat" + std::to_string(turn / 5));
      request.ignoreEnd = true;
      RequestId beside = 0;
      if (turn % 4 == 3) {
        beside = h.engine.generate(longAnswer(words(20, turn), 400, "beside"));
        h.waitFor(beside, [](const auto& heard) { return heard.tokens.size() >= 3; });
      }
      const auto foretold = h.wait(h.engine.forecast(request));
      QVERIFY(foretold.forecast);
      const auto fact = h.ask(request);
      QVERIFY(fact.report);
      if (beside != 0) {
        h.engine.cancel(beside);
        h.wait(beside);
      }
      const TurnReport& report = *fact.report;
      QCOMPARE(foretold.forecast->reusedTokens, report.reusedTokens);
      asked.push_back(std::abs(foretold.forecast->ttftMs / report.ttftMs - 1));
      submitted.push_back(std::abs(report.forecastTtftMs / report.ttftMs - 1));
      qInfo("turn %2d: %4d new of %4d tokens%s: %6.1f / %6.1f ms foretold, %6.1f ms taken",
            turn + 1, report.prefilledTokens, report.promptTokens,
            beside != 0 ? " beside another" : "", foretold.forecast->ttftMs, report.forecastTtftMs,
            report.ttftMs);
      messages.push_back({"assistant", report.text, report.tokenIds});
    }
  }
};

QTEST_GUILESS_MAIN(TestRealTimes)
#include "tst_real_times.moc"

// The cost model against machines whose true costs are known.
#include <QtTest>

#include <cmath>
#include <functional>
#include <random>

#include "engine/schedule/queue_model.h"
#include "engine/schedule/step_cost.h"

using namespace vitrine::engine;

namespace {

StepWork work(int tokens, int position, bool logits = true) {
  StepWork w;
  w.add(tokens, position, logits);
  return w;
}

StepWork decodes(int sequences, int position) {
  StepWork w;
  for (int i = 0; i < sequences; ++i) w.add(1, position, true);
  return w;
}

/// A machine that is bound by memory for few rows and by arithmetic for many.
double trueMs(const StepWork& w) {
  const double layers = std::max(6.0, 0.45 * w.rows);
  const double head = w.logitRows > 0 ? std::max(2.0, 0.15 * w.logitRows) : 0;
  return 0.3 + layers + head + 4e-4 * w.decodeReads + 1.2e-4 * w.prefillReads;
}

class Machine {
 public:
  explicit Machine(unsigned seed) : m_random(seed) {}
  double run(const StepWork& w) {
    std::normal_distribution<double> noise(1, 0.05);
    double ms = slowness * trueMs(w) * std::max(0.8, noise(m_random));
    if (m_random() % 100 < stallPercent) ms *= 8;
    return ms;
  }
  double slowness = 1;
  unsigned stallPercent = 0;

 private:
  std::mt19937 m_random;
};

void teachWarmUp(StepCost& cost, Machine& machine) {
  for (const StepWork& w : {work(1, 1), work(16, 0, false), work(1, 1023), work(64, 0)}) {
    cost.learn(w, machine.run(w));
  }
}

/// A day's mix: prompts in chunks, then answers, alone and together, at all depths.
void teachDay(StepCost& cost, Machine& machine, int turns) {
  for (int turn = 0; turn < turns; ++turn) {
    const int prompt = 20 + turn * 977 % 1500;
    const int sequences = 1 + turn % 5;
    for (int done = 0; done < prompt;) {
      const int chunk = std::min(256, prompt - done);
      const StepWork w = work(chunk, done, done + chunk == prompt);
      cost.learn(w, machine.run(w));
      done += chunk;
    }
    for (int i = 0; i < 40; ++i) {
      const StepWork w = decodes(sequences, prompt + i);
      cost.learn(w, machine.run(w));
    }
  }
}

double errorOf(const StepCost& cost, const StepWork& w, double slowness = 1) {
  return std::abs(cost.predictMs(w) / (slowness * trueMs(w)) - 1);
}

}  // namespace

class TestStepCost : public QObject {
  Q_OBJECT

 private slots:
  void aShortWarmUpIsEnoughForAFirstForecast() {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      Machine machine(seed);
      StepCost cost;
      QVERIFY(!cost.isReady());
      teachWarmUp(cost, machine);
      QVERIFY(cost.isReady());
      QVERIFY2(errorOf(cost, work(1, 100)) < 0.2, qPrintable(QString::number(seed)));
      QVERIFY2(errorOf(cost, work(60, 0)) < 0.2, qPrintable(QString::number(seed)));
      QVERIFY2(errorOf(cost, work(256, 0)) < 0.35, qPrintable(QString::number(seed)));
    }
  }

  void learnsShallowAndDeepShortAndLong_data() {
    QTest::addColumn<int>("tokens");
    QTest::addColumn<int>("position");
    QTest::addColumn<int>("sequences");
    QTest::newRow("decode at the beginning") << 1 << 10 << 1;
    QTest::newRow("decode deep") << 1 << 1900 << 1;
    QTest::newRow("five decode") << 1 << 400 << 5;
    QTest::newRow("short prompt") << 12 << 0 << 1;
    QTest::newRow("a chunk") << 256 << 0 << 1;
    QTest::newRow("a chunk far back") << 256 << 1280 << 1;
    QTest::newRow("a question after a long history") << 30 << 1500 << 1;
  }
  void learnsShallowAndDeepShortAndLong() {
    QFETCH(int, tokens);
    QFETCH(int, position);
    QFETCH(int, sequences);
    Machine machine(7);
    machine.stallPercent = 2;
    StepCost cost;
    teachWarmUp(cost, machine);
    teachDay(cost, machine, 40);
    const StepWork w = tokens == 1 ? decodes(sequences, position) : work(tokens, position);
    const double error = errorOf(cost, w);
    QVERIFY2(error < 0.15, qPrintable(QString("off by %1 %").arg(100 * error)));
  }

  void aStallHardlyMovesIt() {
    Machine machine(3);
    StepCost cost;
    teachWarmUp(cost, machine);
    teachDay(cost, machine, 10);
    const StepWork w = decodes(1, 300);
    const double before = cost.predictMs(w);
    cost.learn(w, 40 * trueMs(w));
    QVERIFY2(cost.predictMs(w) < 1.3 * before, qPrintable(QString::number(cost.predictMs(w))));
  }

  void aSlowerMachineIsFollowedInEveryTerm() {
    Machine machine(5);
    StepCost cost;
    teachWarmUp(cost, machine);
    teachDay(cost, machine, 20);
    machine.slowness = 2;
    // Decode steps alone are seen; what prompts take follows.
    const StepWork decode = decodes(1, 300);
    for (int i = 0; i < 15; ++i) cost.learn(decode, machine.run(decode));
    QVERIFY2(errorOf(cost, decode, 2) < 0.15,
             qPrintable(QString::number(errorOf(cost, decode, 2))));
    const double chunk = errorOf(cost, work(256, 0), 2);
    QVERIFY2(chunk < 0.3, qPrintable(QString::number(chunk)));
  }

  void eachWayOfRunningKeepsItsOwn() {
    StepCosts costs;
    Machine machine(1);
    StepCost& native = costs.use("native", {});
    teachWarmUp(native, machine);
    QVERIFY(!costs.use("int8", {}).isReady());
    QVERIFY(costs.use("native", {}).isReady());
    QCOMPARE(&costs.current(), &native);
  }

  void aPromptIsTheSumOfItsChunks() {
    Machine machine(1);
    StepCost cost;
    teachWarmUp(cost, machine);
    const double two = cost.predictMs(work(256, 100, false)) + cost.predictMs(work(44, 356, false));
    QVERIFY(std::abs(cost.predictPrefillMs(100, 300, 256) - two) < 1e-9 * two);
    QCOMPARE(cost.predictPrefillMs(100, 0, 256), 0.0);
  }

  void saysWhatMadeATokenLate() {
    // Alone, nothing unusual; alone, a stall.
    QCOMPARE(stallCause({10, 10, 11}, 0, 0), StallCause::kNone);
    QCOMPARE(stallCause({10, 10, 40}, 0, 0), StallCause::kSystem);
    // Company that costs nothing, that costs something, that brings a prompt.
    QCOMPARE(stallCause({10, 10.5, 11}, 0, 3), StallCause::kNone);
    QCOMPARE(stallCause({10, 15, 15}, 0, 7), StallCause::kLargerBatch);
    QCOMPARE(stallCause({10, 90, 95}, 256, 257), StallCause::kOthersPrefill);
    // A stall that is larger than what the others cost.
    QCOMPARE(stallCause({10, 15, 60}, 0, 7), StallCause::kSystem);
  }

  void theQueueIsPlayedByTheSchedulersRules() {
    StepCost cost;
    for (int i = 0; i < 3; ++i) cost.learn(work(1, 0), 10);
    const auto alone = [&](int computed, int pending) {
      double sum = 0;
      for (int done = 0; done < pending;) {
        const int chunk = std::min(64, pending - done);
        sum += cost.predictMs(work(chunk, computed + done, done + chunk == pending));
        done += chunk;
      }
      return sum;
    };
    const auto near = [](double a, double b) { return std::abs(a - b) < 1e-6 * b; };
    QueueModel model;
    model.prefillChunk = 64;
    model.waiting = {QueuedTurn{100, 150, 5}};
    QVERIFY(near(model.untilTokenOfLast(cost), alone(100, 150)));

    // Beside a chat that decodes, each step has one row more.
    model.running = {QueuedTurn{300, 1, 100}};
    StepWork first = work(64, 100, false), second = work(64, 164, false), third = work(22, 228);
    first.add(1, 300, true);
    second.add(1, 301, true);
    third.add(1, 302, true);
    QVERIFY(near(model.untilTokenOfLast(cost),
                 cost.predictMs(first) + cost.predictMs(second) + cost.predictMs(third)));

    // No place before the other's last three tokens; then alone.
    model.maxSequences = 1;
    model.running = {QueuedTurn{300, 1, 3}};
    const double others = alone(300, 1) + alone(301, 1) + alone(302, 1);
    QVERIFY(near(model.untilTokenOfLast(cost), others + alone(100, 150)));
    model.maxSequences = 16;
    model.batching = Batching::kStatic;
    QVERIFY(near(model.untilTokenOfLast(cost), others + alone(100, 150)));

    // The second of two prompts comes after the first; what remains is told for each.
    model.batching = Batching::kContinuous;
    model.waiting.clear();
    model.running = {QueuedTurn{0, 64, 9}, QueuedTurn{0, 64, 9}};
    StepWork both = work(64, 0);
    both.add(1, 64, true);
    QVERIFY(near(model.untilToken(cost, 0), alone(0, 64)));
    const double secondMs = model.untilToken(cost, 1);
    StepWork mixed = work(64, 0);
    mixed.add(1, 64, true);
    QVERIFY(near(secondMs, alone(0, 64) + cost.predictMs(mixed)));
  }
};

QTEST_GUILESS_MAIN(TestStepCost)
#include "tst_step_cost.moc"

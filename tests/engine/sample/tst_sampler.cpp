#include <QtTest>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "engine/sample/sampler.h"

using namespace vitrine::engine;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Every filter off, temperature 1.
SamplingParams plain() {
  SamplingParams params;
  params.temperature = 1;
  params.topK = 0;
  params.topP = 1;
  params.minP = 0;
  return params;
}

// Logits of the odds 40, 25, 15, 10, 5, 3, 1.5, 0.5 % at ids 100, 101, …, in a vocabulary of 512.
std::vector<float> loadedDie() {
  std::vector<float> logits(512, -1e9F);
  const float odds[] = {40, 25, 15, 10, 5, 3, 1.5F, 0.5F};
  for (int i = 0; i < 8; ++i) logits[100 + i] = std::log(odds[i] / 100) + 3;
  return logits;
}

std::map<TokenId, int> drawMany(const SamplingParams& params, int n,
                                const std::vector<float>& logits = loadedDie(),
                                const std::vector<TokenId>& history = {}) {
  Sampler sampler(params, 7);
  std::map<TokenId, int> counts;
  for (int i = 0; i < n; ++i) {
    auto copy = logits;
    ++counts[sampler.sample(copy, history).id];
  }
  return counts;
}

std::set<TokenId> faces(const std::map<TokenId, int>& counts) {
  std::set<TokenId> ids;
  for (const auto& [id, count] : counts) ids.insert(id);
  return ids;
}

std::set<TokenId> firstFaces(int n) {
  std::set<TokenId> ids;
  for (int i = 0; i < n; ++i) ids.insert(100 + i);
  return ids;
}

}  // namespace

class TestSampler : public QObject {
  Q_OBJECT

 private slots:
  void filtersKeepTheRightTokens_data() {
    QTest::addColumn<float>("temperature");
    QTest::addColumn<int>("topK");
    QTest::addColumn<float>("topP");
    QTest::addColumn<float>("minP");
    QTest::addColumn<int>("kept");
    QTest::newRow("temperature 0") << 0.F << 0 << 1.F << 0.F << 1;
    QTest::newRow("temperature 1e-30") << 1e-30F << 0 << 1.F << 0.F << 1;
    QTest::newRow("temperature denormal, filtered") << 1e-42F << 5 << 0.9F << 0.F << 1;
    QTest::newRow("top-p 0") << 1.F << 0 << 0.F << 0.F << 1;
    QTest::newRow("top-k 1") << 1.F << 1 << 1.F << 0.F << 1;
    QTest::newRow("min-p 1") << 1.F << 0 << 1.F << 1.F << 1;
    QTest::newRow("top-k 2") << 1.F << 2 << 1.F << 0.F << 2;
    QTest::newRow("top-p 0.6") << 1.F << 0 << 0.6F << 0.F << 2;
    QTest::newRow("min-p 0.2") << 1.F << 0 << 1.F << 0.2F << 4;
    QTest::newRow("top-k above vocabulary") << 1.F << 1000000000 << 1.F << 0.F << 8;
    QTest::newRow("top-k -1") << 1.F << -1 << 1.F << 0.F << 8;
    QTest::newRow("temperature 100") << 100.F << 0 << 1.F << 0.F << 8;
    // top-p sees what top-k left: 25 of 40 + 25 reaches 0.95 only with both.
    QTest::newRow("top-k 2, top-p 0.95") << 1.F << 2 << 0.95F << 0.F << 2;
    QTest::newRow("top-k 3, top-p 0.6") << 1.F << 3 << 0.6F << 0.F << 2;
    // min-p does not change what top-p counts: 0.79 of everything is C, of A to D it is C as well.
    QTest::newRow("top-p 0.79, min-p 0.2") << 1.F << 0 << 0.79F << 0.2F << 3;
    QTest::newRow("top-p 0.99, min-p 0.2") << 1.F << 0 << 0.99F << 0.2F << 4;
  }
  void filtersKeepTheRightTokens() {
    QFETCH(float, temperature);
    QFETCH(int, topK);
    QFETCH(float, topP);
    QFETCH(float, minP);
    QFETCH(int, kept);
    auto params = plain();
    params.temperature = temperature;
    params.topK = topK;
    params.topP = topP;
    params.minP = minP;
    QVERIFY(params.validate());
    QCOMPARE(faces(drawMany(params, 4000)), firstFaces(kept));
  }

  void drawsWithTheModelsOdds() {
    const int n = 20000;
    for (const bool sorted : {false, true}) {
      auto params = plain();
      if (sorted) params.topK = 100;
      const auto counts = drawMany(params, n);
      const double odds[] = {0.4, 0.25, 0.15, 0.1, 0.05, 0.03, 0.015, 0.005};
      for (int i = 0; i < 8; ++i) {
        const double expected = odds[i] * n;
        const double deviation = std::sqrt(expected * (1 - odds[i]));
        const int got = counts.count(100 + i) ? counts.at(100 + i) : 0;
        QVERIFY2(std::abs(got - expected) < 5 * deviation,
                 qPrintable(QString("face %1: %2 of %3").arg(i).arg(got).arg(expected)));
      }
    }
  }

  void temperatureFlattensAfterTheFilters() {
    auto params = plain();
    params.temperature = 100;
    params.topK = 4;
    const auto counts = drawMany(params, 8000);
    QCOMPARE(faces(counts), firstFaces(4));
    for (const auto& [id, count] : counts) QVERIFY(std::abs(count - 2000) < 250);
  }

  void topPOverAFlatVocabularyKeepsEnough() {
    std::vector<float> logits(5000, 1.5F);
    auto params = plain();
    params.topP = 0.5F;
    const auto counts = drawMany(params, 1000, logits);
    QVERIFY(counts.rbegin()->first < 2501);
    QVERIFY(counts.rbegin()->first > 2400);
  }

  void sameSeedGivesSameIds() {
    SamplingParams params;
    std::vector<TokenId> first;
    for (int run = 0; run < 2; ++run) {
      Sampler sampler(params, 42);
      QCOMPARE(sampler.seed(), std::uint64_t{42});
      std::vector<TokenId> ids;
      for (int i = 0; i < 64; ++i) {
        auto logits = loadedDie();
        ids.push_back(sampler.sample(logits, {}).id);
      }
      if (run == 0) first = ids;
      QCOMPARE(ids, first);
    }
    Sampler other(params, 43);
    std::vector<TokenId> ids;
    for (int i = 0; i < 64; ++i) {
      auto logits = loadedDie();
      ids.push_back(other.sample(logits, {}).id);
    }
    QVERIFY(ids != first);
  }

  void logprobsAreTheModelsOwn() {
    auto params = plain();
    params.temperature = 0;
    params.repeatPenalty = 50;
    params.presencePenalty = 2;
    Sampler sampler(params, 1);
    auto logits = loadedDie();
    const std::vector<TokenId> history = {100, 100, 5, 101};
    const auto token = sampler.sample(logits, history, 3, true);
    QCOMPARE(token.id, 102);  // the two before it are punished
    QVERIFY(std::abs(token.logprob - std::log(0.15)) < 1e-4);
    QCOMPARE(token.top.size(), std::size_t{3});
    const double odds[] = {0.4, 0.25, 0.15};
    for (int i = 0; i < 3; ++i) {
      QCOMPARE(token.top[i].id, 100 + i);
      QVERIFY(std::abs(token.top[i].logprob - std::log(odds[i])) < 1e-4);
    }
    // A punished token that is drawn all the same reports its unpunished probability.
    params.repeatPenalty = 1.01F;
    params.presencePenalty = 0;
    auto again = loadedDie();
    const auto best = Sampler(params, 1).sample(again, history, 0, true);
    QCOMPARE(best.id, 100);
    QVERIFY(std::abs(best.logprob - std::log(0.4)) < 1e-4);
  }

  void penaltiesFollowTheirFormulas() {
    auto params = plain();
    params.temperature = 0;
    // 2 × 0.3 = 0.6 > log(40/25) = 0.47: two occurrences push A below B, one does not.
    params.frequencyPenalty = 0.3F;
    QCOMPARE(faces(drawMany(params, 1, loadedDie(), {100})), std::set<TokenId>{100});
    QCOMPARE(faces(drawMany(params, 1, loadedDie(), {100, 100})), std::set<TokenId>{101});
    params.frequencyPenalty = 0;
    params.presencePenalty = 0.3F;
    QCOMPARE(faces(drawMany(params, 1, loadedDie(), {100, 100})), std::set<TokenId>{100});
    params.presencePenalty = 0.5F;
    QCOMPARE(faces(drawMany(params, 1, loadedDie(), {100})), std::set<TokenId>{101});
    // Outside the window nothing is punished.
    params.penaltyWindow = 2;
    QCOMPARE(faces(drawMany(params, 1, loadedDie(), {100, 1, 2})), std::set<TokenId>{100});
    params.penaltyWindow = -1;
    QCOMPARE(faces(drawMany(params, 1, loadedDie(), {100, 1, 2})), std::set<TokenId>{101});
    // Repetition lowers negative logits too.
    params = plain();
    params.temperature = 0;
    params.repeatPenalty = 1.5F;
    QCOMPARE(faces(drawMany(params, 1, {-1.F, -1.2F}, {0})), std::set<TokenId>{1});
    // Ids that are not in the vocabulary are no index.
    QCOMPARE(faces(drawMany(params, 1, {-1.F, -1.2F}, {-7, 2, 1 << 30})), std::set<TokenId>{0});
  }

  void brokenLogitsStillGiveAToken_data() {
    QTest::addColumn<std::vector<float>>("logits");
    QTest::addColumn<std::set<TokenId>>("allowed");
    QTest::newRow("all NaN") << std::vector<float>{kNan, kNan, kNan} << std::set<TokenId>{0, 1, 2};
    QTest::newRow("all -inf") << std::vector<float>{-kInf, -kInf} << std::set<TokenId>{0, 1};
    QTest::newRow("NaN around one")
        << std::vector<float>{kNan, kNan, -3.F, kNan} << std::set<TokenId>{2};
    QTest::newRow("+inf") << std::vector<float>{1.F, kInf, 2.F} << std::set<TokenId>{1};
    QTest::newRow("two +inf") << std::vector<float>{kInf, kInf, 2.F} << std::set<TokenId>{0, 1};
    QTest::newRow("huge") << std::vector<float>{3e38F, -3e38F} << std::set<TokenId>{0};
    QTest::newRow("one token") << std::vector<float>{0.F} << std::set<TokenId>{0};
  }
  void brokenLogitsStillGiveAToken() {
    QFETCH(std::vector<float>, logits);
    QFETCH(std::set<TokenId>, allowed);
    auto all = plain();
    auto filtered = SamplingParams{};
    auto topP = plain();
    topP.topP = 0.5F;
    auto minP = plain();
    minP.minP = 0.1F;
    auto best = plain();
    best.temperature = 0;
    for (auto params : {all, filtered, topP, minP, best}) {
      for (const float penalty : {1.0F, 1e-30F, 100.F}) {
        params.repeatPenalty = penalty;
        Sampler sampler(params, 3);
        for (int i = 0; i < 20; ++i) {
          auto copy = logits;
          const auto token = sampler.sample(copy, std::vector<TokenId>{0, 1}, 2, true);
          QVERIFY(token.id >= 0 && static_cast<std::size_t>(token.id) < logits.size());
          if (penalty == 1.0F) QVERIFY(allowed.count(token.id));
          QVERIFY(!std::isnan(token.logprob));
        }
      }
    }
  }

  void valuesWithoutMeaningAreRefused_data() {
    QTest::addColumn<QString>("field");
    QTest::addColumn<double>("value");
    for (const double value : {-1.0, 1e9, double(kNan), double(kInf)}) {
      for (const char* field : {"temperature", "top_p", "min_p", "repeat_penalty",
                                "presence_penalty", "frequency_penalty"}) {
        if (value == -1.0 && QString(field).endsWith("presence_penalty")) continue;
        if (value == -1.0 && QString(field).endsWith("frequency_penalty")) continue;
        QTest::addRow("%s %g", field, value) << field << value;
      }
    }
    QTest::newRow("repeat_penalty 0") << "repeat_penalty" << 0.0;
    QTest::newRow("presence_penalty 2.5") << "presence_penalty" << 2.5;
    QTest::newRow("top_k -2") << "top_k" << -2.0;
    QTest::newRow("window -2") << "window" << -2.0;
  }
  void bestTokensAloneDrawTheSame_data() {
    QTest::addColumn<float>("temperature");
    QTest::addColumn<int>("topK");
    QTest::addColumn<float>("topP");
    QTest::addColumn<float>("minP");
    QTest::addColumn<int>("needed");
    QTest::newRow("greedy") << 0.0F << 40 << 0.95F << 0.05F << 1;
    QTest::newRow("top_k 1") << 1.0F << 1 << 1.0F << 0.0F << 1;
    QTest::newRow("top_p 0") << 1.0F << 0 << 0.0F << 0.0F << 1;
    QTest::newRow("min_p 1") << 1.0F << 0 << 1.0F << 1.0F << 1;
    QTest::newRow("defaults") << 0.8F << 40 << 0.95F << 0.05F << 40;
    QTest::newRow("top_k alone") << 1.0F << 5 << 1.0F << 0.0F << 5;
    QTest::newRow("top_k and top_p") << 1.3F << 7 << 0.8F << 0.0F << 7;
    QTest::newRow("top_k and min_p") << 0.7F << 7 << 1.0F << 0.3F << 7;
  }
  void bestTokensAloneDrawTheSame() {
    QFETCH(float, temperature);
    QFETCH(int, topK);
    QFETCH(float, topP);
    QFETCH(float, minP);
    SamplingParams params;
    params.temperature = temperature;
    params.topK = topK;
    params.topP = topP;
    params.minP = minP;
    auto logits = loadedDie();
    logits[7] = logits[100];  // a tie, the smaller id first
    logits[8] = kNan;
    Sampler whole(params, 11), fromBest(params, 11);
    const int k = fromBest.candidatesNeeded(static_cast<int>(logits.size()), false);
    QTEST(k, "needed");
    std::vector<TokenLogit> best;
    for (int i = 0; i < static_cast<int>(logits.size()); ++i) {
      best.push_back({logits[i] == logits[i] ? logits[i] : -kInf, i});
    }
    std::stable_sort(best.begin(), best.end(),
                     [](const auto& a, const auto& b) { return a.logit > b.logit; });
    best.resize(static_cast<std::size_t>(k));
    for (int i = 0; i < 500; ++i) {
      auto copy = logits;
      QCOMPARE(fromBest.sampleBest(best), whole.sample(copy, {}).id);
    }
  }
  void wholeRowsAreAskedForWhereTheyAreNeeded() {
    SamplingParams params;
    QCOMPARE(Sampler(params, 1).candidatesNeeded(512, true), 0);  // probabilities
    QCOMPARE(Sampler(params, 1).candidatesNeeded(40, false), 0);  // top_k is no bound
    params.repeatPenalty = 1.1F;
    QCOMPARE(Sampler(params, 1).candidatesNeeded(512, false), 0);
    QCOMPARE(Sampler(plain(), 1).candidatesNeeded(512, false), 0);
  }
  void brokenBestTokensStillGiveATokenOfTheVocabulary() {
    Sampler sampler(SamplingParams{}, 1);
    const std::vector<TokenLogit> impossible{{-kInf, 3}, {-kInf, 4}};
    QCOMPARE(sampler.sampleBest(impossible), 0);
    const std::vector<TokenLogit> infinite{{kInf, 3}, {kInf, 4}, {1.0F, 5}};
    const TokenId id = sampler.sampleBest(infinite);
    QVERIFY(id == 3 || id == 4);
  }
  void valuesWithoutMeaningAreRefused() {
    QFETCH(QString, field);
    QFETCH(double, value);
    SamplingParams params;
    QVERIFY(params.validate());
    const auto number = static_cast<float>(value);
    if (field == "temperature") params.temperature = number;
    if (field == "top_p") params.topP = number;
    if (field == "min_p") params.minP = number;
    if (field == "repeat_penalty") params.repeatPenalty = number;
    if (field == "presence_penalty") params.presencePenalty = number;
    if (field == "frequency_penalty") params.frequencyPenalty = number;
    if (field == "top_k") params.topK = static_cast<int>(value);
    if (field == "window") params.penaltyWindow = static_cast<int>(value);
    const auto result = params.validate();
    QVERIFY(!result);
    QCOMPARE(result.error().code, ErrorCode::kInvalidArgument);
    QVERIFY(QString::fromStdString(result.error().message).contains(field));
  }
};

QTEST_GUILESS_MAIN(TestSampler)
#include "tst_sampler.moc"

#include <QTest>
#include <cmath>
#include <random>

#include "app/studio/range_watch.h"

using namespace vitrine;
using app::studio::RangeFinding;
using app::studio::RangeWatch;

namespace {

constexpr int kLayers = 3, kWidth = 64;

/// Normally distributed activations, of a site that is `wide` times as wide.
std::vector<float> draw(std::mt19937& random, int tokens, float wide) {
  std::normal_distribution<float> normal(0.0F, wide);
  std::vector<float> values(std::size_t(tokens) * kWidth);
  for (float& value : values) value = normal(random);
  return values;
}

engine::CalibrationProfile profileOf(std::mt19937& random, engine::ScaleMethod method,
                                     const std::string& id) {
  engine::CalibrationProfile profile;
  profile.id = id;
  profile.method = method;
  profile.percentile = 99.9;
  profile.keyMax.resize(kLayers);
  profile.sites.resize(std::size_t(engine::siteCount(kLayers)));
  for (engine::SiteStatistics& site : profile.sites) {
    const auto values = draw(random, 2048, 1.0F);
    site.channelMax.assign(kWidth, 0.0F);
    for (std::size_t i = 0; i < values.size(); ++i) {
      float& largest = site.channelMax[i % kWidth];
      largest = std::max(largest, std::fabs(values[i]));
    }
    site.histogram.add(values);
  }
  return profile;
}

/// A running model's counts: what a backend would report.
class Counts {
 public:
  explicit Counts(const engine::CalibrationProfile& profile) {
    for (std::size_t i = 0; i < profile.sites.size(); ++i) {
      const float limit = engine::staticLimit(profile.sites[i], profile.method, profile.percentile);
      use.push_back({int(i), 0, 0, 0, limit});
    }
  }
  void run(std::mt19937& random, int tokens, int wideSite = -1, float wide = 1.0F) {
    for (engine::SiteUse& site : use) {
      for (const float value : draw(random, tokens, site.site == wideSite ? wide : 1.0F)) {
        ++site.values;
        site.clipped += std::fabs(value) > site.limit ? 1 : 0;
        site.largest = std::max(site.largest, std::fabs(value));
      }
    }
  }
  std::vector<engine::SiteUse> use;
};

}  // namespace

class TestRangeWatch : public QObject {
  Q_OBJECT

 private slots:
  void matchedValuesAreNotTold_data() {
    QTest::addColumn<int>("method");
    QTest::newRow("max") << int(engine::ScaleMethod::kMax);
    QTest::newRow("percentile") << int(engine::ScaleMethod::kPercentile);
    QTest::newRow("mse") << int(engine::ScaleMethod::kMse);
  }
  void matchedValuesAreNotTold() {
    QFETCH(int, method);
    std::mt19937 random(7);
    const auto profile = profileOf(random, engine::ScaleMethod(method), "a");
    Counts counts(profile);
    RangeWatch watch;
    bool clipped = false;
    for (int i = 0; i < 40; ++i) {
      counts.run(random, 50);
      QVERIFY(watch.look(counts.use, profile).empty());
      for (const auto& site : counts.use) clipped |= site.clipped > 0;
    }
    QVERIFY(clipped);  // a little is always beyond: it was looked at
  }

  void aLayerThatLeavesIsToldOnce() {
    std::mt19937 random(8);
    const auto profile = profileOf(random, engine::ScaleMethod::kMax, "a");
    Counts counts(profile);
    RangeWatch watch;
    counts.run(random, 2000);  // thousands that fit do not hide what comes
    QVERIFY(watch.look(counts.use, profile).empty());
    const int site = engine::siteIndex(1, engine::LinearInput::kDown);
    std::vector<RangeFinding> found;
    for (int i = 0; i < 10; ++i) {
      counts.run(random, 40, site, 2.5F);
      for (const RangeFinding& finding : watch.look(counts.use, profile)) found.push_back(finding);
    }
    QCOMPARE(int(found.size()), 1);
    QCOMPARE(found[0].site, site);
    QCOMPARE(found[0].layer, 1);
    QVERIFY(found[0].clippedShare > app::studio::kFloor);
    QVERIFY(found[0].tokens >= app::studio::kLeastTokens);
    QVERIFY(found[0].largest > found[0].limit);
    // The same layer's other input is not told again, another layer is.
    counts.run(random, 100, engine::siteIndex(1, engine::LinearInput::kFfn), 2.5F);
    QVERIFY(watch.look(counts.use, profile).empty());
    counts.run(random, 100, engine::outputSite(kLayers), 2.5F);
    const auto output = watch.look(counts.use, profile);
    QCOMPARE(int(output.size()), 1);
    QCOMPARE(output[0].layer, -1);
  }

  void eachProfileTellsForItself() {
    std::mt19937 random(9);
    const auto first = profileOf(random, engine::ScaleMethod::kMax, "first");
    const auto second = profileOf(random, engine::ScaleMethod::kMax, "second");
    RangeWatch watch;
    for (const engine::CalibrationProfile* profile : {&first, &second}) {
      Counts counts(*profile);  // a switch counts from 0 again
      QVERIFY(watch.look(counts.use, *profile).empty());
      counts.run(random, 100, 0, 3.0F);
      QCOMPARE(int(watch.look(counts.use, *profile).size()), 1);
    }
    Counts counts(first);
    counts.run(random, 100, 0, 3.0F);
    QVERIFY(watch.look(counts.use, first).empty());
  }

  // Right after a switch, a snapshot may still hold the counts of before.
  void countsOfTheProfileBeforeAreNotJudged() {
    std::mt19937 random(11);
    const auto first = profileOf(random, engine::ScaleMethod::kMax, "first");
    const auto second = profileOf(random, engine::ScaleMethod::kMax, "second");
    RangeWatch watch;
    Counts before(first);
    QVERIFY(watch.look(before.use, first).empty());
    before.run(random, 100, 0, 3.0F);
    QCOMPARE(int(watch.look(before.use, first).size()), 1);
    QVERIFY(watch.look(before.use, second).empty());
    Counts after(second);
    after.run(random, 100);
    QVERIFY(watch.look(after.use, second).empty());
    after.run(random, 100, 0, 3.0F);
    QCOMPARE(int(watch.look(after.use, second).size()), 1);
  }

  void fewTokensOrValuesSayNothing() {
    const engine::SiteUse many{0, 100'000, 5'000, 9.0F, 3.0F};
    QVERIFY(app::studio::leavesRange(many, 1000, 0));
    QVERIFY(!app::studio::leavesRange(many, app::studio::kLeastTokens - 1, 0));
    const engine::SiteUse few{0, 2'000, app::studio::kLeastClipped - 1, 9.0F, 3.0F};
    QVERIFY(!app::studio::leavesRange(few, 1000, 0));
    // What the method itself clips is no news: 5 % live, of 2 % calibrated.
    QVERIFY(!app::studio::leavesRange(many, 1000, 0.02));
    QVERIFY(app::studio::leavesRange(many, 1000, 0.01));
  }

  void aMethodClipsOnPurpose() {
    std::mt19937 random(10);
    const auto profile = profileOf(random, engine::ScaleMethod::kMax, "a");
    const engine::SiteStatistics& site = profile.sites[0];
    QCOMPARE(app::studio::calibratedShare(site, engine::ScaleMethod::kMax, 99.9), 0.0);
    const double share = app::studio::calibratedShare(site, engine::ScaleMethod::kPercentile, 99.0);
    QVERIFY2(share > 0.002 && share < 0.02, qPrintable(QString::number(share)));
  }
};

QTEST_GUILESS_MAIN(TestRangeWatch)
#include "tst_range_watch.moc"

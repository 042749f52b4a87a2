// Histograms, the limits that they give, outlier columns, and profiles on disk.
#include <QtTest>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "engine/quant/calibration_profile.h"
#include "tests/engine/backend/backend_fixture.h"

using namespace vitrine::engine;
using namespace vitrine::test;

namespace {

SiteStatistics statisticsOf(std::span<const float> values, int width) {
  SiteStatistics site;
  site.channelMax.assign(static_cast<std::size_t>(width), 0.0F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& largest = site.channelMax[i % site.channelMax.size()];
    largest = std::max(largest, std::fabs(values[i]));
    site.sumOfSquares += static_cast<double>(values[i]) * values[i];
  }
  site.histogram.add(values);
  return site;
}

/// The mean squared error of INT8 with this limit.
double errorOf(std::span<const float> values, double limit) {
  const double step = limit / 127.0;
  double sum = 0.0;
  for (const double x : values) {
    const double q = std::clamp(std::nearbyint(x / step), -127.0, 127.0);
    sum += (x - q * step) * (x - q * step);
  }
  return sum / static_cast<double>(values.size());
}

/// A profile of a model with one layer, filled with numbers of no meaning.
CalibrationProfile sampleProfile() {
  CalibrationProfile p;
  p.name = "two \"texts\"\n";
  p.modelFingerprint = "0123456789abcdef";
  p.modelName = "täst";
  p.kvHeads = 1;
  p.sources = {"bundled: english", "a file"};
  p.tokens = 1234;
  p.method = ScaleMethod::kPercentile;
  p.percentile = 99.95;
  p.created = "2025-01-02T03:04:05Z";
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const int width : {8, 8, 8, 12, 8}) {
    std::vector<float> values(static_cast<std::size_t>(width) * 50);
    for (float& v : values) v = normal(random);
    p.sites.push_back(statisticsOf(values, width));
  }
  p.keyMax = {{0.1F, 1e-30F, 3e30F, 0.0F}};
  p.id = profileId(p);
  return p;
}

ModelConfig sampleConfig() {
  ModelConfig c;
  c.name = "another";
  c.nLayers = 1;
  c.dModel = 8;
  c.nHeads = 2;
  c.nKvHeads = 1;
  c.headDim = 4;
  c.dFfn = 12;
  c.rope.dims = 4;
  return c;
}

}  // namespace

class TestCalibrationProfile : public QObject {
  Q_OBJECT

 private slots:
  void edgesBelongToTheBinAbove() {
    for (const int bin : {1, 16, 100, 383, 384, 385, MagnitudeHistogram::kBins - 1}) {
      MagnitudeHistogram histogram;
      const float edge = MagnitudeHistogram::lowerEdge(bin);
      const float values[] = {edge, -edge, std::nextafter(edge, 0.0F)};
      histogram.add(values);
      QCOMPARE(histogram.bins()[static_cast<std::size_t>(bin)], std::uint64_t{2});
      QCOMPARE(histogram.bins()[static_cast<std::size_t>(bin) - 1], std::uint64_t{1});
    }
    QCOMPARE(MagnitudeHistogram::lowerEdge(24 * 16), 1.0F);
  }

  void everyValueIsCounted() {
    MagnitudeHistogram histogram;
    const float infinite = std::numeric_limits<float>::infinity();
    const float values[] = {0.0F, -0.0F, 1e-45F, 1e-30F, 1e30F, -infinite, std::nanf("")};
    histogram.add(values);
    QCOMPARE(histogram.count(), std::uint64_t{7});
    QCOMPARE(histogram.bins().front(), std::uint64_t{4});
    QCOMPARE(histogram.bins().back(), std::uint64_t{3});
    MagnitudeHistogram twice = histogram;
    twice.add(histogram);
    QCOMPARE(twice.count(), std::uint64_t{14});
    QCOMPARE(MagnitudeHistogram().quantile(0.5), 0.0F);
    QCOMPARE(MagnitudeHistogram().shareAbove(0.5F), 0.0);
  }

  void binsAgreeWithLogarithms() {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> exponent(-20.0F, 20.0F);
    for (int i = 0; i < 20000; ++i) {
      const float value = std::exp2(exponent(random));
      MagnitudeHistogram histogram;
      histogram.add({&value, 1});
      const auto bins = histogram.bins();
      const auto bin =
          static_cast<int>(std::find(bins.begin(), bins.end(), std::uint64_t{1}) - bins.begin());
      QVERIFY(MagnitudeHistogram::lowerEdge(bin) <= value);
      QVERIFY(value < MagnitudeHistogram::lowerEdge(bin + 1));
    }
  }

  void quantilesOfAnEvenSpread() {
    std::vector<float> values;
    for (int i = 1; i <= 10000; ++i) values.push_back(static_cast<float>(i) * 1e-3F);
    MagnitudeHistogram histogram;
    histogram.add(values);
    for (const double share : {0.01, 0.25, 0.5, 0.9, 0.999}) {
      const float found = histogram.quantile(share);
      QVERIFY(found >= 10.0 * share && found <= 10.0 * share * 1.045);
      QVERIFY(std::fabs(histogram.shareAbove(found) - (1.0 - share)) < 0.045);
    }
    QCOMPARE(histogram.shareAbove(10.5F), 0.0);
  }

  void coarseSitesAreThoseThatFewColumnsRule() {
    CalibrationProfile profile;
    profile.method = ScaleMethod::kMax;
    const SiteStatistics even = statisticsOf(std::array{1.0F, 0.5F, 2.0F, 1.0F}, 4);
    const SiteStatistics ruled = statisticsOf(std::array{1.0F, 0.5F, 100.0F, 1.0F}, 4);
    profile.sites = {even, ruled, even};
    QCOMPARE(coarseSites(profile, 8.0F), 1);
    QCOMPARE(coarseSites(profile, 1.0F), 0);
    QCOMPARE(coarseSites(profile, 127.0F), 3);
  }

  // Values in [-1, 1] and one of 20 in ten thousand: the maximum wastes the range on it.
  void methodsTreatRareLargeValuesAsTheySay() {
    std::mt19937 random(3);
    std::uniform_real_distribution<float> even(-1.0F, 1.0F);
    std::vector<float> values(100000);
    for (float& v : values) v = even(random);
    for (std::size_t i = 0; i < values.size(); i += 10007) values[i] = 20.0F;
    const SiteStatistics site = statisticsOf(values, 50);
    QCOMPARE(staticLimit(site, ScaleMethod::kMax, 99.9), 20.0F);
    const float percentile = staticLimit(site, ScaleMethod::kPercentile, 99.9);
    QVERIFY(percentile >= 0.999F && percentile < 1.05F);
    QCOMPARE(staticLimit(site, ScaleMethod::kPercentile, 100.0), 20.0F);
  }

  void leastSquaresIsWhereTheErrorIsLeast_data() {
    QTest::addColumn<int>("kind");
    QTest::newRow("even") << 0;
    QTest::newRow("normal") << 1;
    QTest::newRow("long tails") << 2;
    QTest::newRow("one value far from the others") << 3;
  }
  void leastSquaresIsWhereTheErrorIsLeast() {
    QFETCH(int, kind);
    std::mt19937 random(11);
    std::uniform_real_distribution<float> even(-1.0F, 1.0F);
    std::normal_distribution<float> normal;
    std::vector<float> values(100000);
    for (float& v : values) {
      const float x = normal(random);
      v = kind == 0 || kind == 3 ? even(random) : kind == 1 ? x : x * x * x;
    }
    if (kind == 3) values[1234] = 20.0F;
    const SiteStatistics site = statisticsOf(values, 40);
    const float limit = staticLimit(site, ScaleMethod::kMse, 0.0);
    double least = std::numeric_limits<double>::max();
    for (double share = 1.0; share > 0.02; share *= 0.98) {
      least = std::min(least, errorOf(values, share * site.absMax()));
    }
    QVERIFY(limit <= site.absMax());
    QVERIFY2(errorOf(values, limit) <= 1.03 * least, qPrintable(QString::number(limit)));
    if (kind == 0) QVERIFY(limit > 0.95F * site.absMax());
    if (kind == 3) QVERIFY(limit > 5.0F && limit < 18.0F);
  }

  void nothingSeenGivesNoLimit() {
    const std::vector<float> zeros(64, 0.0F);
    const SiteStatistics site = statisticsOf(zeros, 8);
    for (const auto method : {ScaleMethod::kMax, ScaleMethod::kPercentile, ScaleMethod::kMse}) {
      QCOMPARE(staticLimit(site, method, 99.0), 0.0F);
    }
    QVERIFY(outlierColumns(site, 2.0F).empty());
  }

  void outlierColumnsAreTheLargest() {
    SiteStatistics site;
    site.channelMax.assign(64, 1.0F);
    for (int i = 0; i < 20; ++i) site.channelMax[static_cast<std::size_t>(i)] = 0.0F;  // dead
    site.channelMax[40] = 6.0F;
    site.channelMax[63] = 5.9F;
    site.channelMax[21] = 100.0F;
    QCOMPARE(outlierColumns(site, 6.0F), (std::vector<int>{21, 40}));
    // Twelve of 64 are beyond the threshold: an eighth stays, the largest.
    for (int i = 50; i < 62; ++i) {
      site.channelMax[static_cast<std::size_t>(i)] = 10.0F + static_cast<float>(i);
    }
    QCOMPARE(outlierColumns(site, 2.0F), (std::vector<int>{21, 55, 56, 57, 58, 59, 60, 61}));
  }

  void profilesComeBackBitForBit() {
    QTemporaryDir folder;
    const auto path = std::filesystem::path(folder.path().toStdString()) / "profile.json";
    CalibrationProfile p = sampleProfile();
    for (const bool badText : {false, true}) {
      if (badText) p.sources[1] = "caf\xE9";  // a file name in another encoding
      p.id = profileId(p);
      valueOf(saveProfile(p, path));
      const CalibrationPtr back = valueOf(loadProfile(path));
      QCOMPARE(QString::fromStdString(back->id), QString::fromStdString(p.id));
      QCOMPARE(back->name, p.name);
      QCOMPARE(back->modelName, p.modelName);
      QCOMPARE(back->created, p.created);
      QCOMPARE(back->tokens, p.tokens);
      QVERIFY(back->method == p.method && back->percentile == p.percentile);
      QVERIFY(back->keyMax == p.keyMax);
      QCOMPARE(back->sites.size(), p.sites.size());
      for (std::size_t i = 0; i < p.sites.size(); ++i) {
        QVERIFY(back->sites[i].channelMax == p.sites[i].channelMax);
        QVERIFY(back->sites[i].sumOfSquares == p.sites[i].sumOfSquares);
        QVERIFY(std::ranges::equal(back->sites[i].histogram.bins(), p.sites[i].histogram.bins()));
      }
    }
    QCOMPARE(QDir(folder.path()).entryList(QDir::Files).size(), 1);  // nothing left beside it
    QVERIFY(!saveProfile(p, path / "below a file").has_value());
  }

  void theIdIsOfWhatCounts() {
    const CalibrationProfile p = sampleProfile();
    CalibrationProfile other = p;
    other.name = "renamed";
    other.created = "later";
    QCOMPARE(profileId(other), p.id);
    other.method = ScaleMethod::kMse;
    QVERIFY(profileId(other) != p.id);
    other = p;
    other.sites[2].channelMax[1] += 1e-6F;
    QVERIFY(profileId(other) != p.id);
  }

  void aFileThatEndsAnywhereIsRefused() {
    QTemporaryDir folder;
    const auto path = std::filesystem::path(folder.path().toStdString()) / "profile.json";
    valueOf(saveProfile(sampleProfile(), path));
    const std::string whole = readFile(path);
    for (std::size_t n = 0; n + 2 < whole.size(); n += n < 400 ? 1 : 97) {
      writeFile(path, whole.substr(0, n));
      QVERIFY2(!loadProfile(path).has_value(), qPrintable(QString::number(n)));
    }
  }

  void damagedFilesAreNamed_data() {
    QTest::addColumn<QString>("from");
    QTest::addColumn<QString>("to");
    QTest::addColumn<QString>("named");
    const auto row = [](const char* name, const char* from, const char* to, const char* named) {
      QTest::newRow(name) << from << to << named;
    };
    row("another format", "vitrine calibration", "notes", "\"format\"");
    row("a later version", "\"version\":1", "\"version\":2", "version 2");
    row("a version that is text", "\"version\":1", "\"version\":\"1\"", "\"version\"");
    row("no id", "\"id\":", "\"di\":", "\"id\" is missing");
    row("tokens that are negative", "\"tokens\":1234", "\"tokens\":-5", "\"tokens\"");
    row("tokens beyond any", "\"tokens\":1234", "\"tokens\":18446744073709551615", "\"tokens\"");
    row("tokens that are a list", "\"tokens\":1234", "\"tokens\":[1]", "\"tokens\"");
    row("an unknown method", "\"percentile\",", "\"median\",", "\"median\"");
    row("a percentile above 100", "99.95", "101", "\"percentile\"");
    row("NaN", "99.95", "NaN", "JSON");
    row("a number beyond FP64", "99.95", "1e999", "JSON");
    row("a range beyond FP32", "1e-30", "1e39", "no number");
    row("a negative range", "1e-30", "-1", "no number");
    row("a range that is text", "1e-30", "\"1\"", "no number");
    row("sources that are numbers", "\"a file\"", "7", "\"sources\"");
    row("no heads", "\"kv_heads\":1", "\"kv_heads\":0", "\"kv_heads\"");
    row("a site too few", "{\"name\":\"output\"", "{\"mane\":\"output\"", "\"name\" is missing");
    row("sites in another order", "layers.0.ffn", "layers.0.down", "layers.0.ffn");
    row("a changed number", "\"tokens\":1234", "\"tokens\":1235", "changed or damaged");
    row("another model", "0123456789abcdef", "0123456789abcdee", "changed or damaged");
    row("layers that are no list", "\"key_max\":[", "\"key_max\":1,\"x\":[", "\"key_max\"");
    row("two layers of keys", "\"key_max\":[", "\"key_max\":[[1,1,1,1],", "sites");
    row("a histogram that begins outside", "\"first\":", "\"first\":9", "\"first\"");
    row("a count that is negative", "\"counts\":[", "\"counts\":[-1,", "count");
  }
  void damagedFilesAreNamed() {
    QFETCH(QString, from);
    QFETCH(QString, to);
    QFETCH(QString, named);
    QTemporaryDir folder;
    const auto path = std::filesystem::path(folder.path().toStdString()) / "profile.json";
    valueOf(saveProfile(sampleProfile(), path));
    std::string text = readFile(path);
    const std::size_t at = text.find(from.toStdString());
    QVERIFY(at != std::string::npos);
    text.replace(at, from.toStdString().size(), to.toStdString());
    writeFile(path, text);
    const auto loaded = loadProfile(path);
    QVERIFY(!loaded);
    QVERIFY(loaded.error().code == ErrorCode::kInvalidFile);
    QVERIFY2(loaded.error().message.find(named.toStdString()) != std::string::npos,
             loaded.error().message.c_str());
    QVERIFY(loaded.error().message.find("profile.json") != std::string::npos);
  }

  void otherFilesAreRefused() {
    QTemporaryDir folder;
    const auto path = std::filesystem::path(folder.path().toStdString()) / "profile.json";
    QVERIFY(loadProfile(path).error().code == ErrorCode::kNotFound);
    QVERIFY(loadProfile(folder.path().toStdString()).error().code == ErrorCode::kNotFound);
    for (const std::string& text :
         {std::string(), std::string("[]"), std::string("null"), std::string("\0\1\2", 3),
          std::string(200000, '['), std::string("{\"format\":\"vitrine calibration\"}")}) {
      writeFile(path, text);
      QVERIFY(loadProfile(path).error().code == ErrorCode::kInvalidFile);
    }
    // More than is read: a hole of 300 MiB takes no room.
    writeFile(path, "{}");
    std::filesystem::resize_file(path, std::uintmax_t{300} << 20);
    const auto huge = loadProfile(path);
    QVERIFY(huge.error().code == ErrorCode::kInvalidFile);
    QVERIFY2(huge.error().message.find("300 MiB") != std::string::npos,
             huge.error().message.c_str());
  }

  void aForeignModelIsNamed() {
    CalibrationProfile p = sampleProfile();
    const ModelConfig config = sampleConfig();
    valueOf(checkProfile(p, p.modelFingerprint, config));
    const auto message = [&](const CalibrationProfile& profile, const std::string& fingerprint,
                             const ModelConfig& c) {
      const auto result = checkProfile(profile, fingerprint, c);
      return result ? std::string() : result.error().message;
    };
    const auto says = [](const std::string& text, const char* what) {
      return text.find(what) != std::string::npos;
    };
    QVERIFY(says(message(p, "other", config), "another model (täst)"));
    QVERIFY(says(message(p, "other", config), "(another)"));
    ModelConfig heads = config;
    heads.nKvHeads = 2;
    QVERIFY(says(message(p, p.modelFingerprint, heads), "1 KV heads"));
    ModelConfig wider = config;
    wider.dFfn = 13;
    QVERIFY(says(message(p, p.modelFingerprint, wider), "12 columns of layers.0.down"));
    ModelConfig deeper = config;
    deeper.nLayers = 2;
    QVERIFY(says(message(p, p.modelFingerprint, deeper), "5 sites"));
    CalibrationProfile broken = p;
    broken.sites[1].channelMax[3] = std::nanf("");
    QVERIFY(says(message(broken, p.modelFingerprint, config), "layers.0.o"));
    broken = p;
    broken.keyMax[0][1] = std::numeric_limits<float>::infinity();
    QVERIFY(says(message(broken, p.modelFingerprint, config), "keys of layer 0"));
  }
};

QTEST_APPLESS_MAIN(TestCalibrationProfile)
#include "tst_calibration_profile.moc"

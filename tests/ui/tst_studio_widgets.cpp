// The studio's drawings and figures offscreen, without a model.
#include <QSignalSpy>
#include <QSlider>
#include <QTest>
#include <cmath>

#include "tests/ui/window_fixture.h"
#include "ui/studio/bar_chart.h"
#include "ui/studio/column_chart.h"
#include "ui/studio/demo_section.h"
#include "ui/studio/heat_map.h"
#include "ui/studio/histogram_view.h"
#include "ui/studio/profile_comparison.h"
#include "ui/studio/studio_words.h"
#include "ui/theme/theme.h"

using namespace vitrine;
using namespace vitrine::ui;

namespace {

/// A site that saw `count` values of each of these magnitudes.
engine::SiteStatistics siteOf(const std::vector<float>& magnitudes, int count = 1000) {
  engine::SiteStatistics site;
  site.channelMax = magnitudes;
  for (const float magnitude : magnitudes) {
    site.histogram.add(std::vector<float>(std::size_t(count), magnitude));
  }
  return site;
}

engine::CalibrationProfile profileOf(std::vector<engine::SiteStatistics> sites) {
  engine::CalibrationProfile profile;
  profile.sites = std::move(sites);
  return profile;
}

}  // namespace

class TestStudioWidgets : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { Theme::instance().install(*qApp); }

  void aHandfulOf20sRuinsOneScale() {
    const OutlierDemo demo = makeOutlierDemo(20);
    QCOMPARE(demo.outliers.size(), std::size_t(5));
    // One scale: steps of 20/127, so 13 levels lie within [-1, 1].
    QVERIFY(std::abs(demo.oneScale.step - 20.0 / 127.0) < 1e-6);
    QCOMPARE(demo.oneScale.levels, 13);
    // Uniform rounding: the error is step / sqrt(12).
    QVERIFY(std::abs(demo.oneScale.error - demo.oneScale.step / std::sqrt(12.0)) < 0.004);
    // Apart and clipped: nearly all of the 255 levels (512 values), steps of about 1/127.
    for (const DemoWay* way : {&demo.apart, &demo.percentile}) {
      QVERIFY(way->step < 1.0 / 126 && way->step > 0.9 / 127);
      QVERIFY2(way->levels > 180, qPrintable(QString::number(way->levels)));
      QVERIFY(way->error < demo.oneScale.error / 15);
    }
    const std::size_t outlier = std::size_t(demo.outliers.front());
    QCOMPARE(demo.apart.restored[outlier], 20.0F);                 // kept
    QVERIFY(std::abs(demo.percentile.restored[outlier]) <= 1.0F);  // clipped
    // Groups: only those with an outlier have the large step.
    QVERIFY(demo.groups.step < 1.0 / 120);
    QVERIFY(std::abs(demo.groups.largestStep - 20.0 / 127.0) < 1e-6);
    QVERIFY(demo.groups.error < demo.oneScale.error && demo.groups.error > demo.apart.error);
  }

  void theSliderComputesTheDemonstrationAgain() {
    DemoSection section;
    section.resize(1000, 700);
    section.show();
    const QStringList at20 = section.figures(0);
    QCOMPARE(at20[2], QString("13 of 255"));
    section.slider()->setFocus();
    section.slider()->setValue(100);
    QCOMPARE(section.figures(0)[2], QString("3 of 255"));
    QVERIFY(section.figures(0)[0] != at20[0]);
    QCOMPARE(section.figures(3), (section.slider()->setValue(20), section.figures(3)));
    section.slider()->setValue(1);  // no outliers to speak of: all ways are alike
    QVERIFY(std::abs(section.demo().oneScale.error - section.demo().apart.error) < 1e-4);
    section.slider()->setValue(20);
    for (const bool dark : {true, false}) {
      Theme::instance().setMode(dark ? ThemeMode::kDark : ThemeMode::kLight);
      WindowFixture::grab(&section, dark ? "studio-demo-dark" : "studio-demo-light");
    }
  }

  void theHeatMapGroupsChannelsByTheirLargest() {
    HeatMap map;
    map.resize(434, 200);
    map.setEmptyText("nothing yet");
    map.show();
    QCOMPARE(map.accessibleDescription(), QString("nothing yet"));
    std::vector<HeatMap::Row> rows;
    for (int r = 0; r < 6; ++r) {
      HeatMap::Row row{100 + r, QString::number(r), QString("Layer %1").arg(r),
                       std::vector<float>(1000, 0.5F)};
      rows.push_back(row);
    }
    rows[2].values[701] = 80.0F;
    map.setRows(rows);
    QCOMPARE(map.channelsOfCell(), 6);
    QCOMPARE(map.columnCount(), 167);
    const int column = 701 / 6;
    QCOMPARE(map.cellValue(2, column), 80.0F);
    QCOMPARE(map.cellValue(2, column + 1), 0.5F);
    QVERIFY2(map.cellText(2, column).contains("80.0, in 701"), qPrintable(map.cellText(2, column)));
    QVERIFY(map.accessibleDescription().contains("Layer 2, channel 701"));

    QSignalSpy chosen(&map, &HeatMap::chosenByPerson);
    QSignalSpy pointed(&map, &HeatMap::pointed);
    QTest::mouseMove(&map, map.cellRect(2, column).center().toPoint());
    QTRY_VERIFY(!pointed.isEmpty() && !pointed.last().first().toString().isEmpty());
    QVERIFY(pointed.last().first().toString().contains("Layer 2"));
    QTest::mouseClick(&map, Qt::LeftButton, {}, map.cellRect(4, 3).center().toPoint());
    QCOMPARE(chosen.last().first().toInt(), 104);
    map.setChosen(104);
    QTest::keyClick(&map, Qt::Key_Up);
    QTest::keyClick(&map, Qt::Key_Return);
    QCOMPARE(chosen.last().first().toInt(), 103);
    // The cell of the outlier is painted unlike its neighbours.
    QImage image = map.grab().toImage();
    const auto at = [&](int row, int c) {
      return image.pixelColor(map.cellRect(row, c).center().toPoint() * image.devicePixelRatio());
    };
    QVERIFY(at(2, column) != at(2, column + 2));
    map.resize(1200, 200);
    QCOMPARE(map.channelsOfCell(), 2);
    map.resize(2200, 200);
    QCOMPARE(map.channelsOfCell(), 1);
    QVERIFY(map.cellText(0, 5).contains("channel 5"));
  }

  void theHistogramTellsWhatAScaleClips() {
    HistogramView view;
    view.resize(560, 220);
    view.show();
    engine::SiteStatistics site = siteOf({0.01F, 0.1F, 1.0F, 20.0F});
    const auto figures = scaleFigures(site, 75.0);
    QCOMPARE(figures.size(), std::size_t(3));
    QCOMPARE(figures[0].limit, 20.0F);
    QCOMPARE(figures[0].clippedShare, 0.0);
    // Steps of 20/127: 0.01 is under half of one, 0.1 is not.
    QVERIFY(std::abs(figures[0].zeroShare - 0.25) < 1e-9);
    QVERIFY(figures[1].limit >= 1.0F && figures[1].limit < 1.1F);
    QVERIFY(std::abs(figures[1].clippedShare - 0.25) < 1e-9);
    QVERIFY(figures[2].limit <= 20.0F);
    view.setHistogram(site.histogram, 20.0,
                      {{"max", 20.0, false}, {"percentile", double(figures[1].limit), true}});
    QVERIFY(view.accessibleDescription().contains("4,000 values"));
    QVERIFY(view.accessibleDescription().contains("percentile ends at 1.0"));
    const QString text = view.textAt(int(view.xOf(1.02)));
    QVERIFY2(text.contains("1,000 values (25.0 %)"), qPrintable(text));
    QVERIFY(view.xOf(20.0) > view.xOf(1.0) && view.xOf(1.0) > view.xOf(0.01));
    QVERIFY(!view.grab().isNull());
  }

  void profilesAreComparedSiteBySite() {
    const auto own = profileOf({siteOf({1.0F, 2.0F}), siteOf({4.0F, 4.0F}), siteOf({1.0F, 1.0F})});
    const auto text =
        profileOf({siteOf({1.0F, 1.0F}), siteOf({2.0F, 16.0F}), siteOf({1.0F, 1.0F})});
    const auto sites = compareProfiles(own, text);
    QCOMPARE(sites.size(), std::size_t(3));
    QCOMPARE(sites[0].site, 1);
    QVERIFY(std::abs(sites[0].clippedShare - 0.5) < 1e-9);
    QCOMPARE(sites[0].largest, 16.0F);
    QCOMPARE(sites[0].ratio(), 4.0);
    QCOMPARE(sites[1].site, 0);
    QVERIFY(std::abs(sites[1].unusedRange - 0.5) < 1e-6);
    QCOMPARE(sites[2].clippedShare, 0.0);
    QCOMPARE(sites[2].unusedRange, 0.0);
    for (const SiteMismatch& site : compareProfiles(own, own)) {
      QCOMPARE(site.clippedShare, 0.0);
      QCOMPARE(site.ratio(), 1.0);
    }
    QVERIFY(compareProfiles(own, profileOf({})).empty());
  }

  void columnsAboveTheThresholdAreMarked() {
    ColumnChart chart(160);
    chart.resize(400, 160);
    chart.show();
    std::vector<float> values(64, 1.0F);
    values[7] = 30.0F;
    chart.setValues("Input", values, std::vector<float>(64, 2.0F));
    const QImage before = chart.grab().toImage();
    chart.setThreshold(6.0F, "threshold 6");
    QVERIFY(chart.grab().toImage() != before);
    QVERIFY(chart.accessibleDescription().contains("30.0 in channel 7"));
    QVERIFY(chart.accessibleDescription().contains("threshold 6"));
    QVERIFY2(chart.textAt(60).contains("before 2.00"), qPrintable(chart.textAt(60)));
    chart.clear("nothing");
    QCOMPARE(chart.accessibleName(), QString("nothing"));
    QVERIFY(chart.textAt(60).isEmpty());
  }

  void barsAreReadByKeys() {
    BarChart chart(160);
    chart.resize(400, 160);
    chart.show();
    chart.setBars({{"0", 0.5, false, "layer 0"}, {"1", 1.5, true, "layer 1"}});
    QSignalSpy pointed(&chart, &BarChart::pointed);
    chart.setFocus();
    QTest::keyClick(&chart, Qt::Key_Right);
    QTest::keyClick(&chart, Qt::Key_Right);
    QCOMPARE(pointed.last().first().toString(), QString("layer 1"));
    QVERIFY(std::abs(chart.barRect(1).height() / chart.barRect(0).height() - 3.0) < 0.01);
    QVERIFY(chart.accessibleDescription().contains("layer 1"));
  }

  void figuresAreWrittenForPeople() {
    QCOMPARE(magnitudeText(0), QString("0"));
    QCOMPARE(magnitudeText(0.0123), QString("0.0123"));
    QCOMPARE(magnitudeText(1.2345), QString("1.23"));
    QCOMPARE(magnitudeText(184.2), QString("184"));
    QCOMPARE(tinyShareText(0), QString("0 %"));
    QCOMPARE(tinyShareText(0.000001), QString("under 0.001 %"));
    QCOMPARE(tinyShareText(0.00012), QString("0.012 %"));
    QCOMPARE(tinyShareText(0.25), QString("25.0 %"));
    QCOMPARE(siteWords(engine::siteIndex(3, engine::LinearInput::kDown), 30),
             QString("Layer 3, into down"));
    QCOMPARE(siteWords(engine::outputSite(30), 30), QString("Into the output"));
  }
};

QTEST_MAIN(TestStudioWidgets)
#include "tst_studio_widgets.moc"

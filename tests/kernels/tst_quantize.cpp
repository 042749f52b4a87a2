// INT8 rounding: zero, tiny, huge and broken values (one function for weights, activations, KV).
#include <QtTest>

#include <cmath>
#include <limits>

#include "kernels/api/half.h"
#include "kernels/api/quantize.h"
#include "tests/kernels/random_data.h"

using namespace vitrine;
using namespace vitrine::test;

namespace {

constexpr float kTiny = std::numeric_limits<float>::denorm_min();

std::vector<float> scaled(std::uint64_t seed, float scale) {
  Random random(seed);
  std::vector<float> values(32);
  for (float& v : values) v = scale * random.unit();
  return values;
}

std::vector<float> withFirst(float first, std::vector<float> rest) {
  rest.front() = first;
  return rest;
}

}  // namespace

class TestQuantize : public QObject {
  Q_OBJECT

 private slots:
  void rowsThatMustBecomeZero_data() {
    QTest::addColumn<float>("value");
    QTest::newRow("zero") << 0.0F;
    QTest::newRow("minus zero") << -0.0F;
    QTest::newRow("subnormal, scale cannot be inverted") << 1e-41F;
    QTest::newRow("smallest number") << kTiny;
    QTest::newRow("smallest number, negative") << -kTiny;
  }
  void rowsThatMustBecomeZero() {
    QFETCH(float, value);
    const std::vector<float> x(32, value);
    std::vector<std::int8_t> q(32, 55);
    QCOMPARE(kernels::quantizeInt8(x.data(), q.data(), 32), 0.0F);
    QCOMPARE(q, std::vector<std::int8_t>(32, 0));
  }

  void errorIsAtMostHalfAStep_data() {
    QTest::addColumn<std::vector<float>>("x");
    QTest::newRow("plain") << scaled(1, 2.5F);
    QTest::newRow("one value") << withFirst(3.5F, std::vector<float>(32, 0.0F));
    QTest::newRow("largest is negative") << withFirst(-8.0F, scaled(2, 1.0F));
    QTest::newRow("all the same") << std::vector<float>(32, -2.25F);
    QTest::newRow("outlier") << withFirst(1000.0F, scaled(3, 0.01F));
    QTest::newRow("scale below FP16") << scaled(4, 1e-7F);
    QTest::newRow("scale subnormal in FP16") << scaled(5, 1e-4F);
    QTest::newRow("scale at the end of FP16") << withFirst(65504.0F * 127.0F, scaled(6, 1e6F));
    QTest::newRow("scale beyond FP16") << withFirst(1e7F, scaled(7, 1e6F));
    QTest::newRow("largest number") << std::vector<float>(32, 3.4e38F);
    QTest::newRow("smallest scale that can be inverted") << scaled(8, 127.0F * 0x1p-126F);
    QTest::newRow("subnormal scale that can be inverted") << scaled(9, 127.0F * 0x1.8p-128F);
    std::vector<float> ties;
    for (int i = -16; i < 16; ++i) ties.push_back(0.5F * static_cast<float>(i));
    QTest::newRow("halves") << ties;
  }
  void errorIsAtMostHalfAStep() {
    QFETCH(std::vector<float>, x);
    std::vector<std::int8_t> q(x.size());
    const float scale = kernels::quantizeInt8(x.data(), q.data(), static_cast<int>(x.size()));
    float largest = 0.0F;
    for (float v : x) largest = std::max(largest, std::fabs(v));
    QCOMPARE(scale, largest / 127.0F);  // kept in FP32, whatever FP16 could hold
    bool reachedEnd = false;
    for (std::size_t i = 0; i < x.size(); ++i) {
      QVERIFY2(q[i] >= -127, qPrintable(QString::number(q[i])));
      reachedEnd = reachedEnd || std::abs(q[i]) >= 126;
      const double error = std::fabs(static_cast<double>(x[i]) - static_cast<double>(scale) * q[i]);
      // Half a step, the rounding of x/s (127 · 2^-23 steps), and that of a subnormal scale.
      const double allowed = scale * (0.5 + 4e-5) + 127.0 * kTiny;
      QVERIFY2(error <= allowed, qPrintable(QString("value %1 = %2: error %3 with scale %4")
                                                .arg(i)
                                                .arg(x[i])
                                                .arg(error)
                                                .arg(scale)));
    }
    QVERIFY(reachedEnd);
  }

  void bytesAreTheNearestSteps() {
    // Scale 1: what lies at .5 goes to the even side, the ends stay inside.
    const std::vector<float> x{127.0F, -127.0F, 0.49F, -0.49F, 0.5F,
                               1.5F,   -0.5F,   -1.5F, 63.5F,  64.4F};
    const std::vector<std::int8_t> wanted{127, -127, 0, 0, 0, 2, 0, -2, 64, 64};
    std::vector<std::int8_t> q(x.size());
    QCOMPARE(kernels::quantizeInt8(x.data(), q.data(), static_cast<int>(x.size())), 1.0F);
    QCOMPARE(q, wanted);
  }

  void brokenValuesStayVisible_data() {
    QTest::addColumn<float>("value");
    QTest::newRow("NaN") << std::numeric_limits<float>::quiet_NaN();
    QTest::newRow("infinity") << std::numeric_limits<float>::infinity();
    QTest::newRow("minus infinity") << -std::numeric_limits<float>::infinity();
  }
  void brokenValuesStayVisible() {
    QFETCH(float, value);
    const std::vector<float> x = withFirst(value, scaled(10, 1.0F));
    std::vector<std::int8_t> q(32);
    const float scale = kernels::quantizeInt8(x.data(), q.data(), 32);
    QVERIFY(!std::isfinite(scale));
    for (std::int8_t v : q) QVERIFY(v >= -127);
  }

  void lastGroupMayBeShort() {
    Random random(11);
    const std::vector<float> x = random.normals(80);
    std::vector<std::int8_t> q(80), tail(16);
    std::vector<float> scales(3);
    kernels::quantizeInt8Groups(x.data(), q.data(), scales.data(), 80, 32);
    QCOMPARE(kernels::quantizeInt8(x.data() + 64, tail.data(), 16), scales[2]);
    QCOMPARE(std::vector<std::int8_t>(q.begin() + 64, q.end()), tail);
  }

  void allHalvesSurvive() {
    for (int bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const float value = kernels::halfToFloat(half);
      if (std::isnan(value)) {
        QVERIFY(std::isnan(kernels::halfToFloat(kernels::floatToHalf(value))));
        continue;
      }
      QCOMPARE(kernels::floatToHalf(value), half);
    }
  }

  void halvesRoundToNearestEven() {
    Random random(12);
    for (int i = 0; i < 200000; ++i) {
      const auto bits = static_cast<std::uint32_t>(random.next());
      const float value = std::bit_cast<float>(bits);
      if (!std::isfinite(value) || std::fabs(value) > 65504.0F) continue;
      const int exponent = std::max(value == 0.0F ? -14 : std::ilogb(value), -14);
      const double step = std::ldexp(1.0, exponent - 10);
      const double wanted = std::nearbyint(value / step) * step;
      QCOMPARE(static_cast<double>(kernels::halfToFloat(kernels::floatToHalf(value))), wanted);
    }
  }

  void saturatedHalvesStayFinite() {
    QCOMPARE(kernels::halfToFloat(kernels::floatToHalfSaturated(70000.0F)), 65504.0F);
    QCOMPARE(kernels::halfToFloat(kernels::floatToHalfSaturated(-3e38F)), -65504.0F);
    QCOMPARE(kernels::halfToFloat(kernels::floatToHalfSaturated(1.5F)), 1.5F);
    QVERIFY(std::isinf(kernels::halfToFloat(
        kernels::floatToHalfSaturated(std::numeric_limits<float>::infinity()))));
  }
};

QTEST_APPLESS_MAIN(TestQuantize)
#include "tst_quantize.moc"

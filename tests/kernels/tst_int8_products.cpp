// Products in integers against exact integers, bit for bit: packed weights, prepared rows and sums
// of every instruction set must be those of kernels/api and kernels/reference.
#include <QtTest>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/api/int8_weights.h"
#include "kernels/api/quantize.h"
#include "kernels/reference/dequantize.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/cpu_ops.h"
#include "tests/kernels/random_data.h"

using namespace vitrine::test;
using namespace vitrine;
namespace cpu = vitrine::kernels::cpu;
using cpu::ActivationFormat;
using cpu::WeightFormat;

namespace {

enum class Scales { kGroup32, kGroup64, kGroup128, kRow, kTensor };
enum class Input { kInt16, kInt8, kInt8Fixed };
constexpr const char* kScaleNames[] = {"groups of 32", "groups of 64", "groups of 128",
                                       "a scale a row", "a scale a matrix"};
constexpr const char* kInputNames[] = {"A16", "A8", "A8 with a fixed scale"};
constexpr float kFixedScale = 0.011F;  // 127 of them are 1.4: about one value in ten is beyond

int groupSizeOf(Scales scales) {
  return scales == Scales::kGroup32    ? 32
         : scales == Scales::kGroup64  ? 64
         : scales == Scales::kGroup128 ? 128
                                       : cpu::kWholeRow;
}

/// W [out, in] in INT8 by the rules of kernels/api/int8_weights.h alone.
struct Integers {
  Integers(const Floats& w, int out, int in, Scales scales) {
    const int group = groupSizeOf(scales) == cpu::kWholeRow ? in : groupSizeOf(scales);
    float unused = 0.0F;
    const float largest = kernels::largestMagnitude(w.data(), static_cast<int>(w.size()));
    for (int o = 0; o < out; ++o) {
      for (int first = 0; first < in; first += group) {
        const float* x = w.data() + static_cast<std::ptrdiff_t>(o) * in + first;
        const int n = std::min(group, in - first);
        const auto scale = scales == Scales::kTensor
                               ? kernels::int8ScaleOf(largest, kernels::kUsualOutputScale, unused)
                               : kernels::int8WeightScale(x, n, kernels::kUsualOutputScale, unused);
        values.push_back(scale.value);
        for (int i = 0; i < n; ++i) {
          q.push_back(static_cast<std::int8_t>(kernels::int8Weight(x[i], scale.value)));
        }
      }
    }
    matrix = {q.data(), values.data(), out, in, group};
  }
  std::vector<std::int8_t> q;
  Floats values;
  kernels::Int8Matrix matrix;
};

/// Rows of x in integers by the rules of kernels/api/quantize.h alone.
struct Rows {
  Rows(const Floats& x, int rows, int in, Input input, bool perRow) {
    const int group = perRow && input != Input::kInt16 ? in : 32;
    std::vector<std::int8_t> narrow(static_cast<std::size_t>(in));
    for (int r = 0; r < rows; ++r) {
      for (int first = 0; first < in; first += group) {
        const float* p = x.data() + static_cast<std::ptrdiff_t>(r) * in + first;
        const int n = std::min(group, in - first);
        if (input == Input::kInt16) {
          const float scale = kernels::largestMagnitude(p, n) / 32512.0F;
          scales.push_back(scale);
          const float inverse = scale > 0.0F ? 1.0F / scale : 0.0F;
          for (int i = 0; i < n; ++i) {
            q.push_back(static_cast<std::int16_t>(std::nearbyint(p[i] * inverse)));
          }
          continue;
        }
        scales.push_back(input == Input::kInt8
                             ? kernels::quantizeInt8(p, narrow.data(), n)
                             : kernels::quantizeInt8Static(p, narrow.data(), n, kFixedScale, &use));
        q.insert(q.end(), narrow.begin(), narrow.begin() + n);
      }
    }
    view = {q.data(), scales.data(), group};
  }
  std::vector<std::int16_t> q;
  Floats scales;
  kernels::Int8Use use;
  kernels::reference::IntegerRows view;
};

cpu::FileMatrix fileOf(const Floats& w, int out, int in) {
  return {TensorType::kF32, out, in, static_cast<std::size_t>(in) * sizeof(float),
          reinterpret_cast<const std::byte*>(w.data())};
}

int packedInteger(const cpu::PackedMatrix& m, int r, int c) {
  return static_cast<int>(m.tile(r / 16)[m.dataOffset + (c / 4 * 16 + r % 16) * 4 + c % 4]) - 128;
}

std::vector<cpu::Isa> supported() {
  std::vector<cpu::Isa> all;
  for (cpu::Isa isa : {cpu::Isa::kPortable, cpu::Isa::kAvx2, cpu::Isa::kAvx512}) {
    if (cpu::isSupported(isa)) all.push_back(isa);
  }
  return all;
}

bool same(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

class TestInt8Products : public QObject {
  Q_OBJECT

 private slots:
  void productsAreTheExactIntegers_data() {
    QTest::addColumn<int>("isa");
    QTest::addColumn<int>("scales");
    QTest::addColumn<int>("input");
    for (cpu::Isa isa : supported()) {
      for (int s = 0; s < 5; ++s) {
        for (int i = 0; i < 3; ++i) {
          QTest::addRow("%s, %s, %s", cpu::shortName(isa), kScaleNames[s], kInputNames[i])
              << static_cast<int>(isa) << s << i;
        }
      }
    }
  }
  void productsAreTheExactIntegers() {
    QFETCH(int, isa);
    QFETCH(int, scales);
    QFETCH(int, input);
    const auto instructions = static_cast<cpu::Isa>(isa);
    const cpu::CpuKernels& kernels = cpu::kernelsFor(instructions);
    const auto how = static_cast<Scales>(scales);
    const auto in8 = static_cast<Input>(input);
    Random random(21);
    for (auto [rows, out, in] : {std::tuple{1, 1, 32},
                                 {1, 70, 96},
                                 {2, 129, 576},
                                 {3, 40, 100},
                                 {13, 33, 576},
                                 {40, 50, 160},
                                 {27, 18, 1536}}) {
      Floats w = random.normals(static_cast<std::size_t>(out) * in, 0.05F);
      for (int i = 0; i < 20; ++i) w[static_cast<std::size_t>(i)] = 0.0F;
      w[w.size() / 2] = 1.7F;  // an outlier among the weights
      Floats x = random.normals(static_cast<std::size_t>(rows) * in);
      x[x.size() / 3] = -31.0F;  // and one in a row
      std::fill(x.end() - in / 2, x.end(), 0.0F);
      const Integers integers(w, out, in, how);
      const PackedCopy packed(fileOf(w, out, in), WeightFormat::kInt8, groupSizeOf(how),
                              how == Scales::kTensor);
      for (int o = 0; o < out; ++o) {
        for (int c = 0; c < in; ++c) {
          QCOMPARE(packedInteger(packed.matrix, o, c),
                   int{integers.q[static_cast<std::size_t>(o * in + c)]});
        }
      }
      const Rows exact(x, rows, in, in8, packed.matrix.scalePerRow);
      Floats wanted(static_cast<std::size_t>(rows) * out);
      const bool fused = instructions != cpu::Isa::kPortable;
      kernels::reference::linearIntegers(exact.view, integers.matrix, wanted.data(), rows, fused);
      const float fixed = in8 == Input::kInt8Fixed ? kFixedScale : 0.0F;
      const Floats got =
          multiply(kernels, packed.matrix, x.data(), rows, in8 != Input::kInt16, fixed);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        QVERIFY2(std::memcmp(&got[i], &wanted[i], sizeof(float)) == 0,
                 qPrintable(QString("%1 x %2 x %3, output %4: got %5, exact %6")
                                .arg(rows)
                                .arg(out)
                                .arg(in)
                                .arg(i)
                                .arg(static_cast<double>(got[i]), 0, 'g', 9)
                                .arg(static_cast<double>(wanted[i]), 0, 'g', 9)));
      }
    }
  }

  void rowsOfAnyNumberHaveTheSameBits() {
    Random random(22);
    const int out = 70, in = 1000, most = 40;
    const Floats w = random.normals(static_cast<std::size_t>(out) * in, 0.1F);
    const Floats x = random.normals(static_cast<std::size_t>(most) * in);
    for (cpu::Isa isa : supported()) {
      const cpu::CpuKernels& kernels = cpu::kernelsFor(isa);
      const PackedCopy packed(fileOf(w, out, in), WeightFormat::kInt8, cpu::kWholeRow);
      for (const float fixed : {0.0F, kFixedScale}) {
        const Floats all = multiply(kernels, packed.matrix, x.data(), most, true, fixed);
        for (int rows : {1, 2, 3, 5, 6, 11, 12, 13, 24, 25, 39}) {
          const int first = most - rows;
          const Floats some =
              multiply(kernels, packed.matrix, x.data() + first * in, rows, true, fixed);
          QVERIFY(same(some, {all.begin() + first * out, all.end()}));
        }
      }
    }
  }

  void longestRowStaysInsideAnInt32() {
    const int in = kernels::kMostSummedColumns / 32 * 32;
    for (cpu::Isa isa : supported()) {
      for (const float sign : {1.0F, -1.0F}) {
        const Floats w(static_cast<std::size_t>(in), sign * 0.5F);
        const Floats x(static_cast<std::size_t>(in), 2.0F);
        const PackedCopy packed(fileOf(w, 1, in), WeightFormat::kInt8, cpu::kWholeRow);
        const Integers integers(w, 1, in, Scales::kRow);
        QCOMPARE(int{integers.q.front()}, sign > 0.0F ? 127 : -127);
        const Rows rows(x, 1, in, Input::kInt8, true);
        Floats wanted(1);
        kernels::reference::linearIntegers(rows.view, integers.matrix, wanted.data(), 1, true);
        QVERIFY(same(multiply(cpu::kernelsFor(isa), packed.matrix, x.data(), 1, true), wanted));
        QVERIFY(std::fabs(wanted[0] - sign * static_cast<float>(in)) < 0.01F * in);
      }
    }
  }

  void aFixedScaleCountsWhatItMeets() {
    Random random(23);
    const int rows = 9, in = 300;
    Floats x = random.normals(static_cast<std::size_t>(rows) * in);
    x[700] = -9.5F;
    for (bool perRow : {false, true}) {
      const Rows exact(x, rows, in, Input::kInt8Fixed, perRow);
      QCOMPARE(exact.use.values, static_cast<std::uint64_t>(rows) * in);
      QVERIFY(exact.use.clipped > 100 && exact.use.clipped < exact.use.values / 2);
      QCOMPARE(exact.use.largest, 9.5F);
      std::uint64_t beyond = 0;
      for (float v : x) beyond += std::fabs(v) > 127.0F * kFixedScale ? 1U : 0U;
      QCOMPARE(exact.use.clipped, beyond);
      for (cpu::Isa isa : supported()) {
        kernels::Int8Use use;
        const PreparedRows prepared(cpu::kernelsFor(isa),
                                    perRow ? ActivationFormat::kInt8Row : ActivationFormat::kInt8,
                                    x.data(), rows, in, kFixedScale, &use);
        QCOMPARE(use.values, exact.use.values);
        QCOMPARE(use.clipped, exact.use.clipped);
        QCOMPARE(use.largest, exact.use.largest);
      }
    }
  }

  void tinyHugeAndBrokenRows_data() {
    QTest::addColumn<float>("value");
    QTest::newRow("zero") << 0.0F;
    QTest::newRow("smallest number") << std::numeric_limits<float>::denorm_min();
    QTest::newRow("scale cannot be inverted") << 1e-40F;
    QTest::newRow("small") << 1e-36F;
    QTest::newRow("largest number") << 3.4e38F;
    QTest::newRow("infinity") << std::numeric_limits<float>::infinity();
    QTest::newRow("NaN") << std::numeric_limits<float>::quiet_NaN();
  }
  void tinyHugeAndBrokenRows() {
    QFETCH(float, value);
    Floats x(96, value * 0.25F);
    x[50] = value;
    for (cpu::Isa isa : supported()) {
      const cpu::CpuKernels& kernels = cpu::kernelsFor(isa);
      std::vector<std::int8_t> q(96);
      const float wanted = kernels::quantizeInt8(x.data(), q.data(), 96);
      const PreparedRows dynamic(kernels, ActivationFormat::kInt8Row, x.data(), 1, 96);
      const PreparedRows fixed(kernels, ActivationFormat::kInt8Row, x.data(), 1, 96, 0.5F);
      const PreparedRows groups(kernels, ActivationFormat::kInt8, x.data(), 1, 96, 0.5F);
      if (!std::isfinite(value)) {  // seen in every output, not hidden
        QVERIFY(!std::isfinite(dynamic.scales[0]));
        QVERIFY(!std::isfinite(fixed.scales[0]));
        QVERIFY(!std::isfinite(groups.scales[0]));
        continue;
      }
      QCOMPARE(dynamic.scales[0], wanted);
      QCOMPARE(fixed.scales[0], 0.5F);
      int sum = 0;
      for (std::int8_t v : q) sum += v;
      QCOMPARE(dynamic.offsets[0], -128 * sum);
      QCOMPARE(fixed.offsets[0], value > 1.0F ? -128 * 96 * 127 : 0);
    }
  }

  void weightsAreChangedOnTheirWay() {
    Random random(24);
    const int out = 21, in = 160;
    const auto bytes = random.fileRows(TensorType::kQ8_0, out, in, 0.1F);
    Floats rowScale(out), columnScale(in);
    for (float& v : rowScale) v = 1.0F + 0.5F * random.unit();
    for (float& v : columnScale) v = 1.0F + 0.5F * random.unit();
    const std::vector<int> outliers{0, 31, 32, 77, 159};
    cpu::FileMatrix from{TensorType::kQ8_0, out, in, bytes.size() / out, bytes.data()};
    Floats w(static_cast<std::size_t>(out) * in);
    for (int o = 0; o < out; ++o) {
      kernels::reference::dequantize(TensorType::kQ8_0, bytes.data() + from.rowBytes * o,
                                     w.data() + o * in, in);
      for (int i = 0; i < in; ++i) w[o * in + i] = rowScale[o] * w[o * in + i] * columnScale[i];
    }
    from.change = {rowScale.data(), columnScale.data(), nullptr, 0};

    // The outlier columns alone, side by side.
    from.columns = outliers.data();
    from.columnCount = static_cast<int>(outliers.size());
    const PackedCopy some(from, WeightFormat::kF16);
    QCOMPARE(some.matrix.cols, 5);
    for (int o = 0; o < out; ++o) {
      for (int c = 0; c < 32; ++c) {
        std::uint16_t half;
        std::memcpy(&half, some.matrix.tile(o / 16) + (c * 16 + o % 16) * 2, 2);
        const float wanted = c < 5 ? w[o * in + outliers[static_cast<std::size_t>(c)]] : 0.0F;
        QCOMPARE(half, kernels::floatToHalf(wanted));
      }
    }
    from.columns = nullptr;

    // The rest, with zeros in their place.
    from.change.zeroColumns = outliers.data();
    from.change.zeroCount = static_cast<int>(outliers.size());
    for (int o = 0; o < out; ++o) {
      for (int c : outliers) w[o * in + c] = 0.0F;
    }
    for (Scales scales : {Scales::kGroup32, Scales::kRow, Scales::kTensor}) {
      const PackedCopy packed(from, WeightFormat::kInt8, groupSizeOf(scales),
                              scales == Scales::kTensor);
      const Integers integers(w, out, in, scales);
      QCOMPARE(packed.matrix.outputScale, kernels::kUsualOutputScale);
      for (int o = 0; o < out; ++o) {
        for (int c = 0; c < in; ++c) {
          QCOMPARE(packedInteger(packed.matrix, o, c), int{integers.q[o * in + c]});
        }
      }
    }
    // A file's own integers stay only where nothing is changed.
    from.change = {};
    QCOMPARE(cpu::planMatrix(from, WeightFormat::kInt8, 32).outputScale, 1.0F);
    QCOMPARE(cpu::planMatrix(from, WeightFormat::kInt8, cpu::kWholeRow).outputScale,
             kernels::kUsualOutputScale);
  }
};

QTEST_APPLESS_MAIN(TestInt8Products)
#include "tst_int8_products.moc"

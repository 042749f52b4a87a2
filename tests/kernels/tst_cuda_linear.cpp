// What the table of operations does not say about the CUDA products: bits that do not depend on the
// number of rows, exact integer sums, every group size, accumulation, the gated product, padding.
#include <QtTest>

#include <bit>
#include <cmath>

#include "kernels/api/half.h"
#include "kernels/cuda/check.h"
#include "tests/kernels/cuda_linear_ops.h"
#include "tests/kernels/random_data.h"

using namespace vitrine::test;
using vitrine::kernels::cuda::CudaError;
using vitrine::kernels::cuda::RowType;
using vitrine::kernels::cuda::WeightFormat;
namespace cuda = vitrine::kernels::cuda;

namespace {

struct Mode {
  const char* name;
  WeightFormat weights;
  RowType rows;
  int groupSize;  ///< 0: a scale a row
};
constexpr Mode kModes[] = {
    {"FP16", WeightFormat::kFp16, RowType::kFp16, 0},
    {"BF16", WeightFormat::kBf16, RowType::kBf16, 0},
    {"W8A16 32", WeightFormat::kInt8, RowType::kFp16, 32},
    {"W8A16 64", WeightFormat::kInt8, RowType::kFp16, 64},
    {"W8A16 128", WeightFormat::kInt8, RowType::kFp16, 128},
    {"W8A16 row", WeightFormat::kInt8, RowType::kFp16, 0},
    {"W8A8 32", WeightFormat::kInt8, RowType::kInt8, 32},
    {"W8A8 64", WeightFormat::kInt8, RowType::kInt8, 64},
    {"W8A8 128", WeightFormat::kInt8, RowType::kInt8, 128},
    {"W8A8 row", WeightFormat::kInt8, RowType::kInt8, 0},
};
constexpr const Mode& kW8A16Row = kModes[5];
constexpr const Mode& kW8A8Row = kModes[9];
static_assert(kW8A16Row.groupSize == 0 && kW8A16Row.rows == RowType::kFp16);
static_assert(kW8A8Row.groupSize == 0 && kW8A8Row.rows == RowType::kInt8);

struct Shape {
  int out, in;
};

/// Weights and rows of one product.
struct Product {
  Product(const Mode& mode, int rowCount, Shape shape, std::uint64_t seed)
      : random(seed),
        rows(rowCount),
        w(mode.weights, mode.groupSize,
          random.normals(static_cast<std::size_t>(shape.out) * shape.in, 0.1F), shape.out,
          shape.in),
        x(deviceRows(mode.rows, random.normals(static_cast<std::size_t>(rowCount) * shape.in),
                     rowCount, shape.in, mode.groupSize)) {}

  /// Σ x · W over what the device holds, in double, and Σ |x · W|, of every `step`-th output.
  void exact(std::vector<double>& sums, std::vector<double>& magnitudes, int step = 1) const {
    const Floats held = x.values();
    for (int r = 0; r < rows; ++r) {
      for (int o = 0; o < w.view.out; o += step) {
        double sum = 0.0, magnitude = 0.0;
        for (int i = 0; i < w.view.in; ++i) {
          const double v =
              static_cast<double>(held[static_cast<std::size_t>(r) * x.view.stride + i]) *
              w.values[static_cast<std::size_t>(o) * w.view.in + i];
          sum += v;
          magnitude += std::fabs(v);
        }
        sums.push_back(sum);
        magnitudes.push_back(magnitude);
      }
    }
  }

  Random random;
  int rows;
  DeviceMatrix w;
  DeviceRows x;
};

bool sameBits(const float* a, const float* b, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  }
  return true;
}

void compare(const Floats& got, const std::vector<double>& wanted,
             const std::vector<double>& magnitudes, double relative) {
  QCOMPARE(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = 1e-30 + relative * magnitudes[i];
    if (std::fabs(got[i] - wanted[i]) <= allowed) continue;
    QFAIL(qPrintable(QString("element %1 of %2: got %3, wanted %4, allowed error %5")
                         .arg(i)
                         .arg(got.size())
                         .arg(got[i], 0, 'g', 9)
                         .arg(wanted[i], 0, 'g', 9)
                         .arg(allowed)));
  }
}

/// A row of data for every mode and shape.
void modesAndShapes(std::initializer_list<Shape> shapes) {
  QTest::addColumn<int>("mode");
  QTest::addColumn<int>("out");
  QTest::addColumn<int>("in");
  for (int m = 0; m < static_cast<int>(std::size(kModes)); ++m) {
    for (const Shape& shape : shapes) {
      QTest::addRow("%s, %d x %d", kModes[m].name, shape.out, shape.in)
          << m << shape.out << shape.in;
    }
  }
}

}  // namespace

class TestCudaLinear : public QObject {
  Q_OBJECT

 private slots:
  // One, two and four warps an output; whole steps and parts of one; odd outputs and inputs.
  void rowsDoNotChangeEachOther_data() {
    modesAndShapes({{1, 1}, {33, 72}, {18, 576}, {5, 2120}, {3, 4160}});
  }
  void rowsDoNotChangeEachOther() {
    QFETCH(int, mode);
    QFETCH(int, out);
    QFETCH(int, in);
    const Product p(kModes[mode], cuda::kGemvRows, {out, in}, 11);
    const Floats all = multiply(p.w, p.x, cuda::kGemvRows);
    std::vector<double> sums, magnitudes;
    p.exact(sums, magnitudes);
    compare(all, sums, magnitudes, 2e-6);
    for (int rows = 1; rows < cuda::kGemvRows; ++rows) {
      const Floats some = multiply(p.w, p.x, rows);
      QVERIFY2(sameBits(some.data(), all.data(), some.size()), qPrintable(QString::number(rows)));
    }
  }

  // Cuts of 64 rows, outputs and columns, and one more.
  void manyRows_data() { modesAndShapes({{1, 1}, {17, 96}, {64, 64}, {130, 1090}}); }
  void manyRows() {
    QFETCH(int, mode);
    QFETCH(int, out);
    QFETCH(int, in);
    for (int rows : {9, 64, 65}) {
      const Product p(kModes[mode], rows, {out, in}, 12);
      std::vector<double> sums, magnitudes;
      p.exact(sums, magnitudes);
      // Widened weights are rounded to FP16.
      const bool widened =
          kModes[mode].weights == WeightFormat::kInt8 && kModes[mode].rows == RowType::kFp16;
      compare(multiply(p.w, p.x, rows), sums, magnitudes, widened ? 5e-4 : 2e-6);
    }
  }

  // More outputs than one tile of the workspace holds.
  void manyRowsInTiles() {
    {
      const Product p(kW8A16Row, 9, {130, 131072}, 13);
      QVERIFY(cuda::linearWorkspaceBytes(p.w.view, RowType::kFp16, 9) <
              std::size_t{130} * 131072 * 2);
      constexpr int kStep = 43;  // the last of them in the second tile, of two
      std::vector<double> sums, magnitudes;
      p.exact(sums, magnitudes, kStep);
      const Floats y = multiply(p.w, p.x, 9);
      Floats some;
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (i % p.w.view.out % kStep == 0) some.push_back(y[i]);
      }
      compare(some, sums, magnitudes, 5e-4);
    }
    {
      const Product p(kW8A8Row, 4096, {2068, 1}, 14);
      QVERIFY(cuda::linearWorkspaceBytes(p.w.view, RowType::kInt8, 4096) <
              std::size_t{4096} * 2068 * 4);
      std::vector<double> sums, magnitudes;
      p.exact(sums, magnitudes);
      compare(multiply(p.w, p.x, 4096), sums, magnitudes, 2e-6);
    }
  }

  // Integers with scales of one: what comes out is the sum itself.
  void integerSumsAreExact_data() {
    QTest::addColumn<int>("groupSize");
    for (int group : {32, 64, 128, 0}) QTest::addRow("group %d", group) << group;
  }
  void integerSumsAreExact() {
    QFETCH(int, groupSize);
    constexpr int kOut = 21, kIn = 1100, kRows = 70;
    Random random(15);
    const auto integers = [&](int count) {
      Floats values;
      for (int i = 0; i < count * kIn; ++i) {
        // A 127 in each group makes its scale one; the first row of all 127 is the largest sum.
        const bool largest = i % kIn % 32 == 0 || i < kIn;
        values.push_back(largest ? 127.0F : static_cast<float>(random.below(255) - 127));
      }
      return values;
    };
    const Floats weights = integers(kOut), rows = integers(kRows);
    const DeviceMatrix w(WeightFormat::kInt8, groupSize, weights, kOut, kIn);
    const DeviceRows x = deviceRows(RowType::kInt8, rows, kRows, kIn, groupSize);
    for (int count : {1, 3, 8, 9, kRows}) {
      const Floats y = multiply(w, x, count);
      for (int r = 0; r < count; ++r) {
        for (int o = 0; o < kOut; ++o) {
          std::int64_t sum = 0;
          for (int i = 0; i < kIn; ++i) {
            sum += static_cast<std::int64_t>(rows[static_cast<std::size_t>(r) * kIn + i]) *
                   static_cast<std::int64_t>(weights[static_cast<std::size_t>(o) * kIn + i]);
          }
          // A sum of groups is exact in FP32 below 2^24; a whole row's is rounded once.
          QVERIFY(groupSize == 0 || std::abs(sum) < (1 << 24) || (r == 0 && o == 0));
          if (groupSize == 0 || std::abs(sum) < (1 << 24)) {
            QCOMPARE(y[static_cast<std::size_t>(r) * kOut + o], static_cast<float>(sum));
          }
        }
      }
    }
  }

  // A scale a row: one integer sum over all columns, scaled once; every bit is known.
  void rowScaledInt8IsTheIntegerReference_data() {
    QTest::addColumn<int>("out");
    QTest::addColumn<int>("in");
    for (auto [out, in] : {std::pair{1, 1}, {33, 64}, {19, 72}, {18, 192}, {7, 2304}, {130, 577}}) {
      QTest::addRow("%d x %d", out, in) << out << in;
    }
  }
  void rowScaledInt8IsTheIntegerReference() {
    QFETCH(int, out);
    QFETCH(int, in);
    constexpr int kRows = 70;
    const Product p(kW8A8Row, kRows, {out, in}, 22);
    const auto qx = p.x.quantized();
    const Floats sx = p.x.scales();
    const auto stride = static_cast<std::size_t>(p.w.view.stride);
    Floats wanted;
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t o = 0; o < static_cast<std::size_t>(out); ++o) {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < stride; ++i) {
          sum += std::int64_t{qx[r * stride + i]} * p.w.q[o * stride + i];
        }
        const float scale = sx[r] * vitrine::kernels::halfToFloat(p.w.bits[o]);
        wanted.push_back(static_cast<float>(sum) * scale * p.w.view.outputScale);
      }
    }
    for (int rows : {1, 2, 3, 5, 8, 9, kRows}) {
      const Floats y = multiply(p.w, p.x, rows);
      QVERIFY2(sameBits(y.data(), wanted.data(), y.size()), qPrintable(QString::number(rows)));
    }
  }

  // A scale a row: the integer sum is the same on every way, and so is the rest.
  void rowScaledInt8HasTheSameBitsForAnyNumberOfRows() {
    const Product p(kW8A8Row, 20, {37, 700}, 16);
    const Floats many = multiply(p.w, p.x, 20);
    const Floats few = multiply(p.w, p.x, 7);
    QVERIFY(sameBits(few.data(), many.data(), few.size()));
  }

  void resultsAreAdded_data() { modesAndShapes({{19, 130}, {2, 2304}}); }
  void resultsAreAdded() {
    QFETCH(int, mode);
    QFETCH(int, out);
    QFETCH(int, in);
    for (int rows : {1, 5, 13}) {
      Product p(kModes[mode], rows, {out, in}, 17);
      const Floats start = p.random.normals(static_cast<std::size_t>(rows) * out);
      const Floats product = multiply(p.w, p.x, rows);
      const Floats sum = multiply(p.w, p.x, rows, start);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        // A library may add to the start before it has all of the product.
        const float wanted = start[i] + product[i];
        QVERIFY(std::fabs(sum[i] - wanted) <= (rows > cuda::kGemvRows ? 1e-5F : 0.0F));
      }
    }
  }

  void gatedProductIsTheTwoSteps_data() { modesAndShapes({{2, 8}, {2 * 37, 200}, {2 * 6, 2304}}); }
  void gatedProductIsTheTwoSteps() {
    QFETCH(int, mode);
    QFETCH(int, out);
    QFETCH(int, in);
    const int width = out / 2;
    const Product p(kModes[mode], cuda::kGemvRows, {out, in}, 18);
    for (bool gelu : {false, true}) {
      for (int rows : {1, 2, 3, 8}) {
        const Floats steps = multiply(p.w, p.x, rows);
        const Floats fused = multiplyGated(p.w, p.x, rows, gelu, RowType::kFp32);
        const Floats fp16 = multiplyGated(p.w, p.x, rows, gelu, RowType::kFp16);
        const Floats bf16 = multiplyGated(p.w, p.x, rows, gelu, RowType::kBf16);
        const int stride = static_cast<int>(fused.size()) / rows;
        QCOMPARE(stride, cuda::roundUp(width, cuda::kColumnPad));
        for (int r = 0; r < rows; ++r) {
          for (int i = 0; i < stride; ++i) {
            const std::size_t at = static_cast<std::size_t>(r) * stride + i;
            if (i >= width) {
              QCOMPARE(fused[at], 0.0F);
              QCOMPARE(fp16[at], 0.0F);
              QCOMPARE(bf16[at], 0.0F);
              continue;
            }
            const double g = steps[static_cast<std::size_t>(r) * out + i];
            const double up = steps[static_cast<std::size_t>(r) * out + width + i];
            const double u = std::sqrt(2.0 / 3.14159265358979) * (g + 0.044715 * g * g * g);
            const double act = gelu ? g / 2 * (1 + std::tanh(u)) : g / (1 + std::exp(-g));
            QVERIFY2(std::fabs(fused[at] - act * up) <= 1e-6 + 1e-5 * std::fabs(act * up),
                     qPrintable(QString("%1 %2").arg(fused[at]).arg(act * up)));
            using namespace vitrine::kernels;
            QCOMPARE(fp16[at], halfToFloat(floatToHalfSaturated(fused[at])));
            QCOMPARE(bf16[at], bfloat16ToFloat(floatToBfloat16(fused[at])));
          }
        }
      }
    }
  }

  void gatedProductSaturates() {
    const Floats w = {300.0F, 300.0F};
    const DeviceMatrix matrix(WeightFormat::kFp16, 0, w, 2, 1);
    const DeviceRows x = deviceRows(RowType::kFp16, {1.0F, -1e4F, 1e4F}, 3, 1);
    const Floats y = multiplyGated(matrix, x, 3, false, RowType::kFp16);
    QCOMPARE(y[0], 65504.0F);
    QCOMPARE(y[64], 0.0F);
    QCOMPARE(y[128], 65504.0F);
  }

  // A broken row is seen and stays alone, also where the count of rows is rounded up.
  void nanStaysInItsRow_data() { modesAndShapes({{6, 320}}); }
  void nanStaysInItsRow() {
    QFETCH(int, mode);
    QFETCH(int, out);
    QFETCH(int, in);
    for (int rows : {3, 5, 11}) {
      Product p(kModes[mode], rows, {out, in}, 19);
      Floats x = p.random.normals(static_cast<std::size_t>(rows) * in);
      x[static_cast<std::size_t>(rows - 1) * in + 7] = std::nanf("");
      const DeviceRows broken = deviceRows(kModes[mode].rows, x, rows, in, kModes[mode].groupSize);
      const Floats y = multiply(p.w, broken, rows);
      for (std::size_t i = 0; i < y.size(); ++i) {
        QCOMPARE(std::isnan(y[i]), i >= static_cast<std::size_t>(rows - 1) * out);
      }
    }
  }

  void nothingElseIsWritten_data() { modesAndShapes({{7, 100}}); }
  void nothingElseIsWritten() {
    QFETCH(int, mode);
    QFETCH(int, out);
    QFETCH(int, in);
    for (int rows : {1, 3, 10}) {
      const Product p(kModes[mode], rows, {out, in}, 20);
      constexpr int kStride = 29;
      const auto y = filled<float>(static_cast<std::size_t>(rows + 1) * kStride);
      const auto workspace =
          filled<std::byte>(cuda::linearWorkspaceBytes(p.w.view, p.x.view.type, rows));
      cuda::LinearParams params;
      params.weights = p.w.view;
      params.x = p.x.view;
      params.rows = rows;
      params.y = y.data();
      params.yStride = kStride;
      cuda::linear(testStream(), testBlas(), params, workspace.data());
      const Floats got = toHost(y);
      for (int i = 0; i < static_cast<int>(got.size()); ++i) {
        QCOMPARE(std::isnan(got[i]), i / kStride >= rows || i % kStride >= out);
      }
    }
  }

  void wrongArgumentsAreRefused() {
    const Product p(kModes[2], 2, {4, 64}, 21);
    const auto y = filled<float>(64);
    cuda::LinearParams good;
    good.weights = p.w.view;
    good.x = p.x.view;
    good.rows = 2;
    good.y = y.data();
    good.yStride = 4;
    const auto refuses = [&](auto&& change) {
      cuda::LinearParams params = good;
      change(params);
      QVERIFY_THROWS_EXCEPTION(CudaError, cuda::linear(testStream(), testBlas(), params, nullptr));
    };
    refuses([](auto& q) { q.rows = 0; });
    refuses([](auto& q) { q.yStride = 3; });
    refuses([](auto& q) { q.y = nullptr; });
    refuses([](auto& q) { q.x.stride = 128; });
    refuses([](auto& q) { q.x.type = RowType::kBf16; });
    refuses([](auto& q) { q.weights.groupSize = 16; });
    refuses([](auto& q) { q.weights.scales = nullptr; });
    refuses([](auto& q) { q.weights.stride = q.x.stride = 48; });
    refuses([](auto& q) { q.weights.values = static_cast<const char*>(q.weights.values) + 8; });
    cuda::GatedLinearParams gated;
    gated.weights = p.w.view;
    gated.x = p.x.view;
    gated.rows = cuda::kGemvRows + 1;
    gated.y = p.x.view;
    QVERIFY_THROWS_EXCEPTION(CudaError, cuda::gatedLinear(testStream(), gated));
  }
};

QTEST_APPLESS_MAIN(TestCudaLinear)
#include "tst_cuda_linear.moc"

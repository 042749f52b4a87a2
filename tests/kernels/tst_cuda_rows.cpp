// What the table of operations does not cover of kernels/cuda/rows.h: every form of rows exactly as
// the host rounds and quantizes, zeros in the padding, the row index.
#include <QtTest>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "kernels/api/half.h"
#include "kernels/api/quantize.h"
#include "kernels/cuda/rows.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/cuda_ops.h"
#include "tests/kernels/random_data.h"

using namespace vitrine::test;
namespace cuda = vitrine::kernels::cuda;
using cuda::RowType;
using vitrine::kernels::TensorType;

namespace {

enum class Operation { kConvert, kNorm, kSilu, kGelu };
constexpr std::pair<Operation, const char*> kOperations[] = {{Operation::kConvert, "convert"},
                                                             {Operation::kNorm, "norm"},
                                                             {Operation::kSilu, "silu"},
                                                             {Operation::kGelu, "gelu"}};

/// Rows that make trouble: zeros, beyond FP16, too small for a scale, infinite, not a number.
Floats troublesome(Random& random, int rows, int width) {
  Floats x = random.normals(static_cast<std::size_t>(rows) * width);
  const auto set = [&](int row, int from, int count, float value) {
    if (row >= rows) return;
    for (int i = from; i < std::min(width, from + count); ++i) {
      x[static_cast<std::size_t>(row) * width + i] = value;
    }
  };
  set(0, 64, 64, 0.0F);
  set(1, 0, width, 0.0F);
  set(1, 32, 3, 1e-44F);
  set(1, 96, 3, 1e-37F);
  set(2, 0, 1, 70000.0F);
  set(2, 1, 1, -1e30F);
  set(2, 128, 1, std::numeric_limits<float>::quiet_NaN());
  set(2, 200, 1, -std::numeric_limits<float>::infinity());
  set(0, 300, 1, 65519.9F);
  set(0, 301, 1, 65520.0F);
  return x;
}

/// The operation's result in the form `type`, padding included. `prepare` may ask for more.
DeviceRows run(Operation operation, const Floats& x, int rows, int width, RowType type,
               int groupSize, const std::function<void(cuda::Rows&)>& prepare = {}) {
  DeviceRows y(type, rows, width, groupSize);
  if (prepare) prepare(y.view);
  const auto input = onDevice(x);
  if (operation == Operation::kConvert) {
    cuda::convertRows(testStream(), input.data(), width, width, rows, y.view);
  } else if (operation == Operation::kNorm) {
    Random random(77);
    const auto weight = onDevice(random.normals(static_cast<std::size_t>(width)));
    cuda::rmsNorm(testStream(), {input.data(), nullptr, weight.data(), rows, width, 1e-5F, y.view});
    y.values();  // the weights live until the kernel is done
  } else {
    Floats both;
    for (int r = 0; r < rows; ++r) {
      const auto first = x.begin() + static_cast<std::ptrdiff_t>(r) * width;
      both.insert(both.end(), first, first + width);
      for (int i = 0; i < width; ++i) both.push_back(i % 3 == 0 ? 2.0F : -1.0F);
    }
    const auto gateUp = onDevice(both);
    cuda::gate(testStream(), {gateUp.data(), rows, width, operation == Operation::kGelu, y.view});
    y.values();
  }
  cuda::check(cudaStreamSynchronize(testStream()), "running the operation");
  return y;
}

template <typename T>
bool sameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// NaN equals NaN, whatever its bits.
bool sameValues(const Floats& a, const Floats& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))) return false;
  }
  return true;
}

/// Outlier columns of rows, and the place of their values.
struct OutlierColumns {
  OutlierColumns(const std::vector<std::int32_t>& list, int rows, int rowStride)
      : columns(onDevice(list)) {
    std::vector<std::uint32_t> bits(static_cast<std::size_t>(rowStride / 32), 0);
    for (int c : list) bits[static_cast<std::size_t>(c / 32)] |= 1U << (c % 32);
    isOutlier = onDevice(bits);
    view.count = static_cast<int>(list.size());
    view.stride = cuda::roundUp(view.count, cuda::kColumnPad);
    values = filled<std::uint16_t>(static_cast<std::size_t>(rows) * view.stride);
    view.columns = columns.data();
    view.isOutlier = isOutlier.data();
    view.values = values.data();
  }

  vitrine::kernels::cuda::DeviceBuffer<std::int32_t> columns;
  vitrine::kernels::cuda::DeviceBuffer<std::uint32_t> isOutlier;
  vitrine::kernels::cuda::DeviceBuffer<std::uint16_t> values;
  cuda::Outliers view;
};

/// INT8 of a row by a fixed scale, and what is counted of it. kernels/api/quantize.h in plain
/// words.
struct StaticRow {
  std::vector<std::int8_t> q;
  float scale = 0.0F;
  std::uint64_t clipped = 0;
  std::uint32_t largest = 0;  // bits
};
StaticRow quantizedBy(float scale, const float* x, int n) {
  StaticRow row;
  row.scale = scale;
  for (int i = 0; i < n; ++i) {
    const float v = std::isnan(x[i]) ? 127.0F : std::nearbyint(x[i] * (1.0F / scale));
    row.q.push_back(static_cast<std::int8_t>(std::clamp(v, -127.0F, 127.0F)));
    row.clipped += !(std::fabs(x[i]) <= 127.0F * scale);
    row.largest = std::max(row.largest, std::bit_cast<std::uint32_t>(std::fabs(x[i])));
    if (!std::isfinite(x[i]) && !std::isnan(row.scale)) row.scale = std::fabs(x[i]);
  }
  return row;
}

void operationsAndSizes(std::initializer_list<std::pair<int, int>> sizes) {
  QTest::addColumn<int>("operation");
  QTest::addColumn<int>("rows");
  QTest::addColumn<int>("width");
  for (const auto& [operation, name] : kOperations) {
    for (auto [rows, width] : sizes) {
      QTest::addRow("%s %d x %d", name, rows, width)
          << static_cast<int>(operation) << rows << width;
    }
  }
}

}  // namespace

class TestCudaRows : public QObject {
  Q_OBJECT

 private slots:
  void rowsAreRoundedAndQuantizedAsOnTheHost_data() {
    operationsAndSizes({{1, 1},
                        {2, 7},
                        {1, 32},
                        {3, 64},
                        {3, 65},
                        {2, 96},
                        {3, 576},
                        {5, 1000},
                        {3, 1024},
                        {3, 1025},
                        {2, 1537},
                        {3, 5000}});
  }
  void rowsAreRoundedAndQuantizedAsOnTheHost() {
    QFETCH(int, operation);
    QFETCH(int, rows);
    QFETCH(int, width);
    const auto what = static_cast<Operation>(operation);
    Random random(static_cast<std::uint64_t>(width));
    const Floats x = troublesome(random, rows, width);
    const DeviceRows plain = run(what, x, rows, width, RowType::kFp32, 0);
    const Floats wanted = plain.values();
    const int stride = plain.view.stride;
    for (int r = 0; r < rows; ++r) {
      for (int i = width; i < stride; ++i) QCOMPARE(wanted[r * stride + i], 0.0F);
    }
    if (what == Operation::kConvert) {
      for (int r = 0; r < rows; ++r) {
        QVERIFY(sameValues({x.begin() + r * width, x.begin() + (r + 1) * width},
                           {wanted.begin() + r * stride, wanted.begin() + r * stride + width}));
      }
    }

    if (what == Operation::kSilu || what == Operation::kGelu) {
      for (int r = 0; r < rows; ++r) {
        Floats y(x.begin() + r * width, x.begin() + (r + 1) * width), up(y.size());
        for (int i = 0; i < width; ++i) up[i] = i % 3 == 0 ? 2.0F : -1.0F;
        const auto gated = what == Operation::kGelu ? vitrine::kernels::reference::geglu
                                                    : vitrine::kernels::reference::swiglu;
        gated(y.data(), up.data(), y.data(), y.size());
        for (int i = 0; i < width; ++i) {
          const float got = wanted[r * stride + i];
          QVERIFY(got == y[i] || std::isnan(y[i]) == std::isnan(got));
          if (std::isfinite(y[i])) {
            QVERIFY(std::fabs(got - y[i]) <= 1e-6F + 1e-5F * std::fabs(y[i]));
          }
        }
      }
    }

    Floats halves, bf16;
    for (float v : wanted) {
      halves.push_back(vitrine::kernels::halfToFloat(vitrine::kernels::floatToHalfSaturated(v)));
      bf16.push_back(vitrine::kernels::bfloat16ToFloat(vitrine::kernels::floatToBfloat16(v)));
    }
    QVERIFY(sameValues(run(what, x, rows, width, RowType::kFp16, 0).values(), halves));
    QVERIFY(sameValues(run(what, x, rows, width, RowType::kBf16, 0).values(), bf16));

    for (int group : {32, 64, 128, 0}) {
      const DeviceRows y = run(what, x, rows, width, RowType::kInt8, group);
      std::vector<std::int8_t> q(wanted.size());
      Floats scales(static_cast<std::size_t>(rows) * y.view.groups());
      for (int r = 0; r < rows; ++r) {
        vitrine::kernels::quantizeInt8Groups(wanted.data() + r * stride, q.data() + r * stride,
                                             scales.data() + r * y.view.groups(), stride,
                                             groupColumns(stride, group));
      }
      QVERIFY2(sameValues(y.scales(), scales), qPrintable(QString("group %1").arg(group)));
      QVERIFY2(sameBits(y.quantized(), q), qPrintable(QString("group %1").arg(group)));
    }
  }

  void staticScalesClipAndCount_data() {
    operationsAndSizes({{1, 1}, {3, 65}, {4, 192}, {5, 1000}, {3, 5000}});
  }
  void staticScalesClipAndCount() {
    QFETCH(int, operation);
    QFETCH(int, rows);
    QFETCH(int, width);
    const auto what = static_cast<Operation>(operation);
    Random random(static_cast<std::uint64_t>(width) + 1);
    const Floats x = troublesome(random, rows, width);
    const DeviceRows plain = run(what, x, rows, width, RowType::kFp32, 0);
    const Floats wanted = plain.values();
    const int stride = plain.view.stride;
    constexpr float kScale = 0.013F;
    for (int group : {32, 64, 128, 0}) {
      // The second row may be padding of a graph: written, but not counted.
      for (const bool padded : {false, true}) {
        std::vector<std::int32_t> positions(static_cast<std::size_t>(rows), 7);
        if (padded && rows > 1) positions[1] = -1;
        const auto onDevicePositions = onDevice(positions);
        const auto use = onDevice(std::vector<cuda::StaticUse>{{100, 10, 1}});
        const DeviceRows y = run(what, x, rows, width, RowType::kInt8, group, [&](cuda::Rows& to) {
          to.staticScale = kScale;
          to.use = use.data();
          to.positions = padded ? onDevicePositions.data() : nullptr;
        });
        std::uint64_t values = 100, clipped = 10;
        std::uint32_t largest = 1;
        const auto q = y.quantized();
        const Floats scales = y.scales();
        for (int r = 0; r < rows; ++r) {
          const StaticRow row = quantizedBy(kScale, wanted.data() + r * stride, stride);
          const auto first = q.begin() + static_cast<std::ptrdiff_t>(r) * stride;
          QVERIFY(std::equal(row.q.begin(), row.q.end(), first));
          for (int g = 0; g < y.view.groups(); ++g) {
            const float got = scales[static_cast<std::size_t>(r * y.view.groups() + g)];
            QVERIFY(got == row.scale || (std::isnan(got) && std::isnan(row.scale)));
          }
          if (positions[static_cast<std::size_t>(r)] < 0) continue;
          values += static_cast<std::uint64_t>(width);
          clipped += row.clipped;
          largest = std::max(largest, row.largest);
        }
        const cuda::StaticUse counted = toHost(use).front();
        QCOMPARE(std::uint64_t{counted.values}, values);
        QCOMPARE(std::uint64_t{counted.clipped}, clipped);
        // Of two NaNs either may be the largest.
        QVERIFY(counted.largest == largest ||
                (largest > 0x7F800000U && counted.largest > 0x7F800000U));
      }
    }
  }

  void outlierColumnsLieBeside_data() {
    operationsAndSizes({{1, 1}, {3, 65}, {4, 192}, {3, 1025}, {2, 5000}});
  }
  void outlierColumnsLieBeside() {
    QFETCH(int, operation);
    QFETCH(int, rows);
    QFETCH(int, width);
    const auto what = static_cast<Operation>(operation);
    Random random(static_cast<std::uint64_t>(width) + 2);
    const Floats x = troublesome(random, rows, width);
    const DeviceRows plain = run(what, x, rows, width, RowType::kFp32, 0);
    const Floats wanted = plain.values();
    const int stride = plain.view.stride;
    std::vector<std::int32_t> few, many;
    for (int c : {0, 3, 31, 32, 62, 64, 130, 131, 1024, width - 1}) {
      if (c < width && (few.empty() || c > few.back())) few.push_back(c);
    }
    for (int c = 1; c < width && many.size() < 70; c += 2) many.push_back(c);
    for (const auto& list : {few, many}) {
      if (list.empty()) continue;
      Floats rest = wanted;
      for (int r = 0; r < rows; ++r) {
        for (int c : list) rest[static_cast<std::size_t>(r * stride + c)] = 0.0F;
      }
      for (const float staticScale : {0.0F, 0.013F}) {
        for (int group : {32, 128, 0}) {
          const OutlierColumns outliers(list, rows, stride);
          const auto use = onDevice(std::vector<cuda::StaticUse>{{}});
          const DeviceRows y =
              run(what, x, rows, width, RowType::kInt8, group, [&](cuda::Rows& to) {
                to.outliers = outliers.view;
                to.staticScale = staticScale;
                to.use = use.data();
              });
          const auto q = y.quantized();
          const Floats scales = y.scales();
          const auto beside = toHost(outliers.values);
          for (int r = 0; r < rows; ++r) {
            const float* restOfRow = rest.data() + static_cast<std::ptrdiff_t>(r) * stride;
            std::vector<std::int8_t> row(static_cast<std::size_t>(stride));
            if (staticScale > 0.0F) {
              row = quantizedBy(staticScale, restOfRow, stride).q;
            } else {
              Floats rowScales(static_cast<std::size_t>(y.view.groups()));
              vitrine::kernels::quantizeInt8Groups(restOfRow, row.data(), rowScales.data(), stride,
                                                   groupColumns(stride, group));
              const auto first = scales.begin() + static_cast<std::ptrdiff_t>(r) * y.view.groups();
              QVERIFY(sameValues({first, first + y.view.groups()}, rowScales));
            }
            const auto first = q.begin() + static_cast<std::ptrdiff_t>(r) * stride;
            QVERIFY(std::equal(row.begin(), row.end(), first));
            for (std::size_t i = 0; i < static_cast<std::size_t>(outliers.view.stride); ++i) {
              const float value =
                  i < list.size() ? wanted[static_cast<std::size_t>(r * stride + list[i])] : 0.0F;
              const float got = vitrine::kernels::halfToFloat(
                  beside[static_cast<std::size_t>(r * outliers.view.stride) + i]);
              QVERIFY(sameValues({got}, {vitrine::kernels::halfToFloat(
                                            vitrine::kernels::floatToHalfSaturated(value))}));
            }
          }
          const std::size_t counted = static_cast<std::size_t>(width) - list.size();
          QCOMPARE(std::size_t{toHost(use).front().values},
                   staticScale > 0.0F ? counted * static_cast<std::size_t>(rows) : 0);
        }
      }
    }
  }

  /// All ones have a norm of one, so that the weights are the result before it is rounded.
  void normRoundsAsTheHost() {
    constexpr int kDim = 64;
    Floats weight(kDim, 1.0F);
    const float ties[] = {0x1.01p0F, 0x1.03p0F, -0x1.01p3F, 0x1.05p-4F};  // half of a BF16 step
    std::copy(std::begin(ties), std::end(ties), weight.begin());
    const float large[] = {65504.0F, 65519.0F, 65520.0F, 1e6F, -1e30F};
    std::copy(std::begin(large), std::end(large), weight.begin() + 8);
    const auto x = onDevice(Floats(kDim, 1.0F)), onDeviceWeight = onDevice(weight);
    const auto norm = [&](RowType type) {
      const DeviceRows y(type, 1, kDim);
      cuda::rmsNorm(testStream(), {x.data(), nullptr, onDeviceWeight.data(), 1, kDim, 0, y.view});
      return y.values();
    };
    QVERIFY(sameValues(norm(RowType::kFp32), weight));
    Floats halves, bf16;
    for (float v : weight) {
      halves.push_back(vitrine::kernels::halfToFloat(vitrine::kernels::floatToHalfSaturated(v)));
      bf16.push_back(vitrine::kernels::bfloat16ToFloat(vitrine::kernels::floatToBfloat16(v)));
    }
    QCOMPARE(halves[11], 65504.0F);
    QVERIFY(sameValues(norm(RowType::kFp16), halves));
    QVERIFY(sameValues(norm(RowType::kBf16), bf16));
  }

  void normTakesTheRowsOfTheIndex() {
    Random random(5);
    constexpr int kRows = 6, kDim = 130;
    const Floats x = random.normals(kRows * kDim), weight = random.normals(kDim);
    const auto onDeviceX = onDevice(x), onDeviceWeight = onDevice(weight);
    const std::vector<std::int32_t> index = {5, 0, -1, 3, 3};
    const auto indexOnDevice = onDevice(index);
    const DeviceRows all(RowType::kFp32, kRows, kDim);
    cuda::rmsNorm(testStream(),
                  {onDeviceX.data(), nullptr, onDeviceWeight.data(), kRows, kDim, 1e-6F, all.view});
    const DeviceRows some(RowType::kFp32, 5, kDim);
    cuda::rmsNorm(testStream(), {onDeviceX.data(), indexOnDevice.data(), onDeviceWeight.data(), 5,
                                 kDim, 1e-6F, some.view});
    const Floats wanted = all.values(), got = some.values();
    for (std::size_t r = 0; r < index.size(); ++r) {
      for (int i = 0; i < all.view.stride; ++i) {
        const float value =
            index[r] < 0 ? 0.0F : wanted[static_cast<std::size_t>(index[r] * all.view.stride + i)];
        QCOMPARE(got[r * static_cast<std::size_t>(all.view.stride) + i], value);
      }
    }
  }

  void aRowDoesNotDependOnTheOthers() {
    Random random(6);
    for (int width : {96, 1600}) {
      const Floats x = random.normals(static_cast<std::size_t>(9 * width));
      const DeviceRows together = run(Operation::kNorm, x, 9, width, RowType::kInt8, 32);
      const auto q = together.quantized();
      for (int r = 0; r < 9; ++r) {
        const Floats row(x.begin() + r * width, x.begin() + (r + 1) * width);
        const DeviceRows alone = run(Operation::kNorm, row, 1, width, RowType::kInt8, 32);
        const auto first = q.begin() + r * together.view.stride;
        QVERIFY(alone.quantized() == std::vector<std::int8_t>(first, first + alone.view.stride));
      }
    }
  }

  void convertTakesColumnsOfWiderRows() {
    Random random(8);
    constexpr int kRows = 3, kStride = 71, kWidth = 33;
    const Floats x = random.normals(kRows * kStride);
    const auto input = onDevice(x);
    const DeviceRows y(RowType::kFp32, kRows, kWidth);
    cuda::convertRows(testStream(), input.data(), kStride, kWidth, kRows, y.view);
    const Floats got = y.values();
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < 64; ++i) {
        QCOMPARE(got[r * 64 + i], i < kWidth ? x[r * kStride + i] : 0.0F);
      }
    }
  }

  void embeddingOfOddRowsAndOfNoToken() {
    Random random(9);
    for (TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16}) {
      constexpr int kVocab = 5, kDim = 131;
      const auto table = random.fileRows(type, kVocab, kDim);
      const auto onDeviceTable = onDevice(table);
      const std::size_t rowBytes = table.size() / kVocab;
      const std::vector<std::int32_t> tokens = {4, -1, 0};
      const auto onDeviceTokens = onDevice(tokens);
      const auto x = filled<float>(tokens.size() * kDim);
      cuda::embed(testStream(), {type, onDeviceTable.data(), rowBytes, kDim}, onDeviceTokens.data(),
                  3, 1.0F, x.data());
      const Floats got = toHost(x);
      const std::vector<std::int32_t> real = {4, 0};
      Floats wanted(2 * kDim);
      vitrine::kernels::reference::embedding(type, table.data(), rowBytes, real.data(), 2, kDim,
                                             1.0F, wanted.data());
      QVERIFY(Floats(got.begin(), got.begin() + kDim) ==
              Floats(wanted.begin(), wanted.begin() + kDim));
      QVERIFY(Floats(got.begin() + kDim, got.begin() + 2 * kDim) == Floats(kDim, 0.0F));
      QVERIFY(Floats(got.begin() + 2 * kDim, got.end()) ==
              Floats(wanted.begin() + kDim, wanted.end()));
    }
  }

  void noRowsAreNoWork() {
    const auto memory = filled<float>(64);
    const DeviceRows y(RowType::kFp16, 1, 64);
    cuda::convertRows(testStream(), memory.data(), 64, 64, 0, y.view);
    cuda::rmsNorm(testStream(), {memory.data(), nullptr, memory.data(), 0, 64, 1e-5F, y.view});
    cuda::gate(testStream(), {memory.data(), 0, 32, false, y.view});
    for (float v : y.values()) QVERIFY(std::isnan(v));  // as DeviceRows filled it
  }

  void brokenArgumentsAreNamed() {
    const auto memory = filled<float>(1024);
    DeviceRows y(RowType::kInt8, 1, 128, 32);
    const auto convert = [&](int width, const cuda::Rows& to, const float* from) {
      cuda::convertRows(testStream(), from, 128, width, 1, to);
    };
    cuda::Rows odd = y.view;
    odd.groupSize = 48;
    QVERIFY_EXCEPTION_THROWN(convert(128, odd, memory.data()), cuda::CudaError);
    cuda::Rows narrow = y.view;
    narrow.stride = 100;
    QVERIFY_EXCEPTION_THROWN(convert(100, narrow, memory.data()), cuda::CudaError);
    QVERIFY_EXCEPTION_THROWN(convert(129, y.view, memory.data()), cuda::CudaError);
    QVERIFY_EXCEPTION_THROWN(convert(128, y.view, memory.data() + 1), cuda::CudaError);
    cuda::Rows scaleless = y.view;
    scaleless.scales = nullptr;
    QVERIFY_EXCEPTION_THROWN(convert(128, scaleless, memory.data()), cuda::CudaError);
    cuda::Rows negative = y.view;
    negative.staticScale = -1.0F;
    QVERIFY_EXCEPTION_THROWN(convert(128, negative, memory.data()), cuda::CudaError);
    const OutlierColumns outliers({5}, 1, 128);
    for (int broken = 0; broken < 3; ++broken) {
      cuda::Rows placeless = y.view;
      placeless.outliers = outliers.view;
      if (broken == 0) placeless.outliers.values = nullptr;
      if (broken == 1) placeless.outliers.stride = 32;
      if (broken == 2) placeless.outliers.count = 129;
      QVERIFY_EXCEPTION_THROWN(convert(128, placeless, memory.data()), cuda::CudaError);
    }
    try {
      convert(128, odd, memory.data());
    } catch (const cuda::CudaError& error) {
      QVERIFY(QString(error.what()).contains("groups"));
    }
    // Nothing of this was launched, and the stream still works.
    convert(128, y.view, memory.data());
    QCOMPARE(y.quantized().size(), std::size_t{128});
  }
};

QTEST_APPLESS_MAIN(TestCudaRows)
#include "tst_cuda_rows.moc"

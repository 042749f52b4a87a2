#include "tests/device/checks_int8.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <string>

#include "kernels/api/half.h"
#include "kernels/api/quantize.h"
#include "kernels/cuda/rows.h"
#include "tests/kernels/cuda_linear_ops.h"
#include "tests/kernels/random_data.h"

namespace vitrine::device {

namespace cuda = kernels::cuda;
using namespace test;

namespace {

void note(Int8Checks& checks, const std::string& name, bool passed) {
  ++checks.ran;
  if (passed) return;
  ++checks.failed;
  std::printf("FAIL INT8 %s\n", name.c_str());
}

/// One scale a row: every bit of the result is known.
void checkRowScales(Int8Checks& checks, int out, int in) {
  constexpr int kRows = 70;
  Random random(31);
  const DeviceMatrix w(cuda::WeightFormat::kInt8, cuda::kWholeRow,
                       random.normals(static_cast<std::size_t>(out) * in, 0.1F), out, in);
  const DeviceRows x =
      deviceRows(cuda::RowType::kInt8, random.normals(static_cast<std::size_t>(kRows) * in), kRows,
                 in, cuda::kWholeRow);
  const auto q = x.quantized();
  const Floats scales = x.scales();
  const auto stride = static_cast<std::size_t>(w.view.stride);
  for (int rows : {1, 2, 4, 8, 9, kRows}) {
    const Floats y = multiply(w, x, rows);
    bool same = true;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t r = i / static_cast<std::size_t>(out),
                        o = i % static_cast<std::size_t>(out);
      std::int64_t sum = 0;
      for (std::size_t c = 0; c < stride; ++c) {
        sum += std::int64_t{q[r * stride + c]} * w.q[o * stride + c];
      }
      const float scale = scales[r] * kernels::halfToFloat(w.bits[o]);
      const float wanted = static_cast<float>(sum) * scale * w.view.outputScale;
      same = same && std::bit_cast<std::uint32_t>(y[i]) == std::bit_cast<std::uint32_t>(wanted);
    }
    note(checks,
         "a scale a row, " + std::to_string(rows) + " x " + std::to_string(out) + " x " +
             std::to_string(in),
         same);
  }
}

/// A static scale and outlier columns beside: integers, counters and FP16 columns.
void checkStaticRows(Int8Checks& checks, int width, int groupSize) {
  constexpr int kRows = 5, kStep = 37;
  constexpr float kScale = 0.017F;
  Random random(32);
  const Floats x = random.normals(static_cast<std::size_t>(kRows) * width);
  const auto input = onDevice(x);
  std::vector<std::int32_t> columns;
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(cuda::roundUp(width, 64) / 32), 0);
  for (int c = 0; c < width; c += kStep) {
    columns.push_back(c);
    bits[static_cast<std::size_t>(c / 32)] |= 1U << (c % 32);
  }
  const auto onDeviceColumns = onDevice(columns);
  const auto onDeviceBits = onDevice(bits);
  const auto use = onDevice(std::vector<cuda::StaticUse>{{}});
  DeviceRows y(cuda::RowType::kInt8, kRows, width, groupSize);
  const int count = static_cast<int>(columns.size());
  const int beside = cuda::roundUp(count, cuda::kColumnPad);
  const auto values = filled<std::uint16_t>(static_cast<std::size_t>(kRows) * beside);
  y.view.staticScale = kScale;
  y.view.use = use.data();
  y.view.outliers = {count, beside, onDeviceColumns.data(), onDeviceBits.data(), values.data()};
  cuda::convertRows(testStream(), input.data(), width, width, kRows, y.view);

  const auto q = y.quantized();
  const auto halves = toHost(values);
  const cuda::StaticUse counted = toHost(use).front();
  kernels::Int8Use wanted;
  bool same = true;
  for (int r = 0; r < kRows; ++r) {
    Floats row(x.begin() + static_cast<std::ptrdiff_t>(r) * width,
               x.begin() + static_cast<std::ptrdiff_t>(r + 1) * width);
    for (int i = 0; i < count; ++i) {
      float& outlier = row[static_cast<std::size_t>(columns[static_cast<std::size_t>(i)])];
      same =
          same && halves[static_cast<std::size_t>(r * beside + i)] == kernels::floatToHalf(outlier);
      outlier = 0.0F;
    }
    std::vector<std::int8_t> integers(row.size());
    kernels::quantizeInt8Static(row.data(), integers.data(), width, kScale, &wanted);
    same = same && std::equal(integers.begin(), integers.end(),
                              q.begin() + static_cast<std::ptrdiff_t>(r) * y.view.stride);
  }
  for (float scale : y.scales()) same = same && scale == kScale;
  same = same && counted.clipped == wanted.clipped && wanted.clipped > 0 &&
         counted.values == static_cast<std::uint64_t>(kRows) * (width - count) &&
         counted.largest == std::bit_cast<std::uint32_t>(wanted.largest);
  note(checks, "static scale and outliers, " + std::to_string(width) + " columns", same);
}

}  // namespace

Int8Checks checkInt8Forms() {
  Int8Checks checks;
  for (auto [out, in] : {std::pair{18, 64}, {33, 577}, {130, 2304}}) {
    checkRowScales(checks, out, in);
  }
  for (auto [width, group] : {std::pair{200, 128}, {1100, 32}, {5000, cuda::kWholeRow}}) {
    checkStaticRows(checks, width, group);
  }
  return checks;
}

}  // namespace vitrine::device

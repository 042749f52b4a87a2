#include "tests/kernels/cuda_linear_ops.h"

#include <cmath>

#include "kernels/api/half.h"
#include "kernels/reference/dequantize.h"

namespace vitrine::test {

namespace cuda = kernels::cuda;
using cuda::RowType;
using cuda::WeightFormat;

namespace {

/// The smallest FP16 number that is at least s.
std::uint16_t halfAtLeast(float s) {
  const std::uint16_t h = kernels::floatToHalf(s);
  return kernels::halfToFloat(h) < s ? static_cast<std::uint16_t>(h + 1) : h;
}

float largestMagnitude(const float* x, int n) {
  float largest = 0.0F;
  for (int i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  return largest;
}

void addBias(Floats& y, const Floats& bias) {
  for (std::size_t i = 0; i < y.size() && !bias.empty(); ++i) y[i] += bias[i % bias.size()];
}

}  // namespace

DeviceMatrix::DeviceMatrix(WeightFormat format, int groupSize, const Floats& w, int out, int in) {
  view.format = format;
  view.out = out;
  view.in = in;
  view.paddedOut = cuda::roundUp(out, cuda::kOutputPad);
  view.stride = cuda::roundUp(in, cuda::kColumnPad);
  values.resize(w.size());
  const std::size_t stored = static_cast<std::size_t>(view.paddedOut) * view.stride;
  const auto stride = static_cast<std::size_t>(view.stride);
  if (format != WeightFormat::kInt8) {
    bits.assign(stored, 0);
    for (int o = 0; o < out; ++o) {
      for (int i = 0; i < in; ++i) {
        const float v = w[static_cast<std::size_t>(o) * in + i];
        const std::uint16_t b = format == WeightFormat::kFp16 ? kernels::floatToHalfSaturated(v)
                                                              : kernels::floatToBfloat16(v);
        bits[o * stride + i] = b;
        values[static_cast<std::size_t>(o) * in + i] =
            format == WeightFormat::kFp16 ? kernels::halfToFloat(b) : kernels::bfloat16ToFloat(b);
      }
    }
    bitsMemory = onDevice(bits);
    view.values = bitsMemory.data();
    return;
  }
  view.groupSize = groupSize;
  const int columns = groupColumns(view.stride, groupSize);
  q.assign(stored, 0);
  bits.assign(static_cast<std::size_t>(view.paddedOut) * view.groups(), 0);
  const float largest = largestMagnitude(w.data(), static_cast<int>(w.size())) / 127.0F;
  view.outputScale = largest > 0.0F ? std::ldexp(1.0F, std::ilogb(largest) - 8) : 0x1p-12F;
  for (int o = 0; o < out; ++o) {
    for (int g = 0; g < view.groups(); ++g) {
      const int first = g * columns;
      const int count = std::min(columns, in - first);
      if (count <= 0) break;
      const float* x = w.data() + static_cast<std::size_t>(o) * in + first;
      const std::uint16_t half =
          halfAtLeast(largestMagnitude(x, count) / 127.0F / view.outputScale);
      bits[static_cast<std::size_t>(o) * view.groups() + g] = half;
      const float scale = kernels::halfToFloat(half) * view.outputScale;
      for (int i = 0; i < count; ++i) {
        const float rounded = scale > 0.0F ? std::nearbyint(x[i] / scale) : 0.0F;
        q[o * stride + first + i] = static_cast<std::int8_t>(rounded);
        values[static_cast<std::size_t>(o) * in + first + i] = rounded * scale;
      }
    }
  }
  qMemory = onDevice(q);
  bitsMemory = onDevice(bits);
  view.values = qMemory.data();
  view.scales = bitsMemory.data();
}

cuda::Blas& testBlas() {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  static const cuda::DeviceBuffer<std::byte> workspace(kBytes);
  static cuda::Blas blas(testStream(), workspace.data(), kBytes);
  return blas;
}

Floats multiply(const DeviceMatrix& w, const DeviceRows& x, int rows, const Floats& start) {
  const auto size = static_cast<std::size_t>(rows) * w.view.out;
  const cuda::DeviceBuffer<float> y = start.empty() ? filled<float>(size) : onDevice(start);
  const auto workspace = filled<std::byte>(cuda::linearWorkspaceBytes(w.view, x.view.type, rows));
  cuda::LinearParams params;
  params.weights = w.view;
  params.x = x.view;
  params.rows = rows;
  params.y = y.data();
  params.yStride = w.view.out;
  params.accumulate = !start.empty();
  cuda::linear(testStream(), testBlas(), params, workspace.data());
  return toHost(y);
}

Floats multiplyGated(const DeviceMatrix& w, const DeviceRows& x, int rows, bool gelu,
                     RowType type) {
  const DeviceRows y(type, rows, w.view.out / 2);
  cuda::GatedLinearParams params;
  params.weights = w.view;
  params.x = x.view;
  params.rows = rows;
  params.gelu = gelu;
  params.y = y.view;
  cuda::gatedLinear(testStream(), params);
  return y.values();
}

void addCudaLinearOps(OpBackend& ops) {
  ops.linear = [](const LinearInput& in) {
    // As the backend holds them: BF16 files in BF16, all others in FP16.
    const bool bf16 = in.type == TensorType::kBF16;
    Floats weight(static_cast<std::size_t>(in.out) * in.in);
    const std::size_t rowBytes = in.weight.size() / static_cast<std::size_t>(in.out);
    for (int o = 0; o < in.out; ++o) {
      kernels::reference::dequantize(in.type, in.weight.data() + rowBytes * o,
                                     weight.data() + static_cast<std::size_t>(o) * in.in, in.in);
    }
    const DeviceMatrix w(bf16 ? WeightFormat::kBf16 : WeightFormat::kFp16, 0, weight, in.out,
                         in.in);
    const DeviceRows x = deviceRows(bf16 ? RowType::kBf16 : RowType::kFp16, in.x, in.rows, in.in);
    Floats y = multiply(w, x, in.rows);
    addBias(y, in.bias);
    return y;
  };
  ops.int8Linear = [](const Int8LinearInput& in) {
    const DeviceMatrix w(WeightFormat::kInt8, in.groupSize, in.weight, in.out, in.in);
    const DeviceRows x = deviceRows(in.int8Activations ? RowType::kInt8 : RowType::kFp16, in.x,
                                    in.rows, in.in, in.groupSize);
    Floats y = multiply(w, x, in.rows);
    addBias(y, in.bias);
    return y;
  };
  // BF16 rows are rounded to 8 bits, a unit of 2^-8 each; FP16 ones and their weights to 11.
  ops.linearTolerance = 3e-3;
  // The scales of INT8 groups are FP16 here, rounded up: other integers than the reference's.
  // tst_cuda_linear compares with the integers themselves.
  ops.int8LinearTolerance = 2e-2;
  ops.int8Linear64Tolerance = 2e-2;
}

}  // namespace vitrine::test

#include "kernels/reference/reference.h"

#include <cmath>
#include <vector>

#include "kernels/api/quantize.h"
#include "kernels/reference/dequantize.h"

namespace vitrine::kernels::reference {

// Sixteen partial sums, then their sum from first to last. The order is fixed by n alone, and the
// compiler can keep the partial sums in vector registers.
float dot(const float* a, const float* b, int n) {
  constexpr int kLanes = 16;
  float partial[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) partial[l] += a[i + l] * b[i + l];
  }
  for (int l = 0; i < n; ++i, ++l) partial[l] += a[i] * b[i];
  float sum = 0.0F;
  for (float p : partial) sum += p;
  return sum;
}

void embedding(TensorType type, const std::byte* table, std::size_t rowBytes,
               const std::int32_t* tokens, int rows, int dim, float scale, float* y) {
  for (int r = 0; r < rows; ++r) {
    float* row = y + static_cast<std::size_t>(r) * dim;
    dequantize(type, table + static_cast<std::size_t>(tokens[r]) * rowBytes, row, dim);
    for (int i = 0; i < dim; ++i) row[i] *= scale;
  }
}

namespace {

// Outputs are the outer loop, so that a weight row is read once for all rows of x.
void linearRow(const float* x, const float* weightRow, float bias, float* y, int rows, int out,
               int in) {
  for (int r = 0; r < rows; ++r) {
    y[static_cast<std::size_t>(r) * out] =
        dot(x + static_cast<std::size_t>(r) * in, weightRow, in) + bias;
  }
}

}  // namespace

void linear(const float* x, const float* weight, const float* bias, float* y, int rows, int out,
            int in) {
  for (int o = 0; o < out; ++o) {
    linearRow(x, weight + static_cast<std::size_t>(o) * in, bias != nullptr ? bias[o] : 0.0F, y + o,
              rows, out, in);
  }
}

void linearFile(const float* x, TensorType type, const std::byte* weight, std::size_t rowBytes,
                const float* bias, float* y, int rows, int out, int in) {
  std::vector<float> row(static_cast<std::size_t>(in));
  for (int o = 0; o < out; ++o) {
    dequantize(type, weight + static_cast<std::size_t>(o) * rowBytes, row.data(), in);
    linearRow(x, row.data(), bias != nullptr ? bias[o] : 0.0F, y + o, rows, out, in);
  }
}

void linearInt8(const float* x, const Int8Matrix& weight, const float* bias, float* y, int rows) {
  std::vector<float> row(static_cast<std::size_t>(weight.in));
  for (int o = 0; o < weight.out; ++o) {
    const std::int8_t* q = weight.q + static_cast<std::size_t>(o) * weight.in;
    const float* scales = weight.scales + static_cast<std::size_t>(o) * weight.groups();
    for (int i = 0; i < weight.in; ++i) {
      row[i] = scales[i / weight.groupSize] * static_cast<float>(q[i]);
    }
    linearRow(x, row.data(), bias != nullptr ? bias[o] : 0.0F, y + o, rows, weight.out, weight.in);
  }
}

void linearInt8Activations(const float* x, const Int8Matrix& weight, const float* bias, float* y,
                           int rows) {
  const int in = weight.in;
  std::vector<std::int8_t> qx(static_cast<std::size_t>(in));
  std::vector<float> sx(static_cast<std::size_t>(weight.groups()));
  for (int r = 0; r < rows; ++r) {
    quantizeInt8Groups(x + static_cast<std::size_t>(r) * in, qx.data(), sx.data(), in,
                       weight.groupSize);
    for (int o = 0; o < weight.out; ++o) {
      const std::int8_t* q = weight.q + static_cast<std::size_t>(o) * in;
      const float* scales = weight.scales + static_cast<std::size_t>(o) * weight.groups();
      float sum = 0.0F;
      for (int g = 0; g < weight.groups(); ++g) {
        const int begin = g * weight.groupSize;
        const int end = begin + weight.groupSize < in ? begin + weight.groupSize : in;
        std::int32_t products = 0;
        for (int i = begin; i < end; ++i) products += qx[i] * q[i];
        sum += sx[g] * scales[g] * static_cast<float>(products);
      }
      y[static_cast<std::size_t>(r) * weight.out + o] = sum + (bias != nullptr ? bias[o] : 0.0F);
    }
  }
}

void linearIntegers(const IntegerRows& x, const Int8Matrix& weight, float* y, int rows,
                    bool fused) {
  const int in = weight.in;
  const int groups = x.groups(in);
  for (int r = 0; r < rows; ++r) {
    const std::int16_t* qx = x.q + static_cast<std::size_t>(r) * in;
    const float* sx = x.scales + static_cast<std::size_t>(r) * groups;
    for (int o = 0; o < weight.out; ++o) {
      const std::int8_t* q = weight.q + static_cast<std::size_t>(o) * in;
      const float* scales = weight.scales + static_cast<std::size_t>(o) * weight.groups();
      float sum = 0.0F;
      for (int g = 0; g < groups; ++g) {
        const int begin = g * x.groupSize;
        const int end = begin + x.groupSize < in ? begin + x.groupSize : in;
        std::int32_t products = 0;
        for (int i = begin; i < end; ++i) products += qx[i] * q[i];
        const auto integer = static_cast<float>(products);
        const float scale = scales[begin / weight.groupSize] * sx[g];
        sum = fused ? std::fma(integer, scale, sum) : integer * scale + sum;
      }
      y[static_cast<std::size_t>(r) * weight.out + o] = sum;
    }
  }
}

}  // namespace vitrine::kernels::reference

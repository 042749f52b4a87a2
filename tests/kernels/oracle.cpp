#include "tests/kernels/oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace vitrine::test {
namespace {

/// IEEE binary16 by its definition.
double half(const std::byte* p) {
  const int bits = static_cast<int>(p[0]) | static_cast<int>(p[1]) << 8;
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

/// A value rounded to binary16, nearest even, and widened again.
double roundedToHalf(double x) {
  if (x == 0.0) return 0.0;
  const int exponent = std::max(std::ilogb(x), -14);
  const double step = std::ldexp(1.0, exponent - 10);
  return std::clamp(std::nearbyint(x / step) * step, -65504.0, 65504.0);
}

/// Symmetric INT8 of a group, widened again. Scale and quotient are rounded to FP32 as the header
/// says, so that ties fall the same way; the product is exact.
void roundToInt8(double* x, int n) {
  double largest = 0.0;
  for (int i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  const auto scale = static_cast<float>(largest) / 127.0F;
  const float inverse = 1.0F / scale;
  for (int i = 0; i < n; ++i) {
    if (largest == 0.0 || !std::isfinite(inverse)) {
      x[i] = 0.0;
      continue;
    }
    const float quotient = std::clamp(static_cast<float>(x[i]) * inverse, -127.0F, 127.0F);
    x[i] = static_cast<double>(scale) * std::nearbyint(quotient);
  }
}

void roundToInt8Groups(std::vector<double>& row, int groupSize) {
  const int n = static_cast<int>(row.size());
  for (int i = 0; i < n; i += groupSize) roundToInt8(row.data() + i, std::min(groupSize, n - i));
}

std::vector<double> widened(const float* x, int n) {
  return {x, x + n};
}

void push(Exact& to, double value, double magnitude) {
  to.value.push_back(value);
  to.magnitude.push_back(magnitude);
}

void push(Exact& to, double value) {
  push(to, value, std::fabs(value));
}

void pushDot(Exact& to, const std::vector<double>& a, const std::vector<double>& b, double bias) {
  double sum = bias;
  double magnitude = std::fabs(bias);
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
    magnitude += std::fabs(a[i] * b[i]);
  }
  push(to, sum, magnitude);
}

}  // namespace

std::vector<double> exactRow(TensorType type, const std::byte* data, int n) {
  std::vector<double> row(static_cast<std::size_t>(n));
  const auto info = kernels::tensorTypeInfo(type);
  for (int i = 0; i < n; ++i) {
    const std::byte* block =
        data + static_cast<std::size_t>(i / info.blockValues) * info.blockBytes;
    const int in = i % info.blockValues;
    switch (type) {
      case TensorType::kF32: {
        float value;
        std::memcpy(&value, block, sizeof value);
        row[i] = value;
        break;
      }
      case TensorType::kF16:
        row[i] = half(block);
        break;
      case TensorType::kBF16: {
        const unsigned bits =
            (static_cast<unsigned>(block[0]) | static_cast<unsigned>(block[1]) << 8) << 16;
        float value;
        std::memcpy(&value, &bits, sizeof value);
        row[i] = value;
        break;
      }
      case TensorType::kQ8_0:
        row[i] = half(block) * static_cast<std::int8_t>(block[2 + in]);
        break;
      case TensorType::kQ4_0: {
        const int byte = static_cast<int>(block[2 + in % 16]);
        row[i] = half(block) * ((in < 16 ? byte & 15 : byte >> 4) - 8);
        break;
      }
      case TensorType::kQ4_1: {
        const int byte = static_cast<int>(block[4 + in % 16]);
        row[i] = half(block) * (in < 16 ? byte & 15 : byte >> 4) + half(block + 2);
        break;
      }
    }
  }
  return row;
}

Exact exact(const EmbeddingInput& in) {
  Exact y;
  const auto info = kernels::tensorTypeInfo(in.type);
  const std::size_t bytes = static_cast<std::size_t>(in.dim / info.blockValues) * info.blockBytes;
  for (std::int32_t token : in.tokens) {
    for (double v : exactRow(in.type, in.table.data() + bytes * token, in.dim)) {
      push(y, v * in.scale);
    }
  }
  return y;
}

Exact exact(const RmsNormInput& in) {
  Exact y;
  for (int r = 0; r < in.rows; ++r) {
    const float* x = in.x.data() + static_cast<std::size_t>(r) * in.dim;
    double squares = 0.0;
    for (int i = 0; i < in.dim; ++i) squares += static_cast<double>(x[i]) * x[i];
    const double root = std::sqrt(squares / in.dim + static_cast<double>(in.eps));
    for (int i = 0; i < in.dim; ++i) push(y, x[i] / root * in.weight[i]);
  }
  return y;
}

Exact exact(const LinearInput& in) {
  Exact y;
  const auto info = kernels::tensorTypeInfo(in.type);
  const std::size_t bytes = static_cast<std::size_t>(in.in / info.blockValues) * info.blockBytes;
  for (int r = 0; r < in.rows; ++r) {
    const auto x = widened(in.x.data() + static_cast<std::size_t>(r) * in.in, in.in);
    for (int o = 0; o < in.out; ++o) {
      pushDot(y, x, exactRow(in.type, in.weight.data() + bytes * o, in.in),
              in.bias.empty() ? 0.0 : in.bias[o]);
    }
  }
  return y;
}

Exact exact(const Int8LinearInput& in) {
  std::vector<std::vector<double>> weight;
  for (int o = 0; o < in.out; ++o) {
    weight.push_back(widened(in.weight.data() + static_cast<std::size_t>(o) * in.in, in.in));
    roundToInt8Groups(weight.back(), in.groupSize);
  }
  Exact y;
  for (int r = 0; r < in.rows; ++r) {
    auto x = widened(in.x.data() + static_cast<std::size_t>(r) * in.in, in.in);
    if (in.int8Activations) roundToInt8Groups(x, in.groupSize);
    for (int o = 0; o < in.out; ++o) pushDot(y, x, weight[o], in.bias.empty() ? 0.0 : in.bias[o]);
  }
  return y;
}

Exact exact(const RopeInput& in) {
  Exact y;
  for (float v : in.x) push(y, v);
  for (int r = 0; r < in.rows; ++r) {
    for (int h = 0; h < in.nHeads; ++h) {
      const std::size_t first = (static_cast<std::size_t>(r) * in.nHeads + h) * in.headDim;
      for (int i = 0; i < in.dims / 2; ++i) {
        double angle = in.positions[r] / static_cast<double>(in.linearScale) /
                       std::pow(static_cast<double>(in.base), 2.0 * i / in.dims);
        if (!in.freqFactors.empty()) angle /= in.freqFactors[i];
        const std::size_t a = first + (in.halves ? i : 2 * i);
        const std::size_t b = in.halves ? a + in.dims / 2 : a + 1;
        const double u = in.x[a];
        const double v = in.x[b];
        y.value[a] = u * std::cos(angle) - v * std::sin(angle);
        y.value[b] = u * std::sin(angle) + v * std::cos(angle);
        y.magnitude[a] = y.magnitude[b] = std::fabs(u) + std::fabs(v);
      }
    }
  }
  return y;
}

Exact exact(const HadamardInput& in) {
  Exact y;
  int block = 1;
  while (in.headDim % (2 * block) == 0) block *= 2;
  const double factor = 1.0 / std::sqrt(block);
  for (std::size_t i = 0; i < in.x.size(); ++i) {
    const std::size_t first = i / block * block;
    double sum = 0.0;
    double magnitude = 0.0;
    for (std::size_t j = 0; j < static_cast<std::size_t>(block); ++j) {
      const bool minus = std::popcount((i - first) & j) % 2 != 0;
      sum += minus ? -in.x[first + j] : in.x[first + j];
      magnitude += std::fabs(in.x[first + j]);
    }
    push(y, sum * factor, magnitude * factor);
  }
  return y;
}

Exact exact(const AttentionInput& in) {
  // K and V as the cache holds them.
  const auto cached = [&](const Floats& values) {
    std::vector<double> rounded(values.begin(), values.end());
    for (std::size_t i = 0; i < rounded.size(); i += in.headDim) {
      if (in.int8) {
        roundToInt8(rounded.data() + i, in.headDim);
      } else {
        for (int d = 0; d < in.headDim; ++d) rounded[i + d] = roundedToHalf(rounded[i + d]);
      }
    }
    return rounded;
  };
  const std::vector<double> k = cached(in.k);
  const std::vector<double> v = cached(in.v);
  const int group = in.nHeads / in.nKvHeads;
  Exact y;
  for (int r = 0; r < in.rows; ++r) {
    const int position = in.length - in.rows + r;
    for (int h = 0; h < in.nHeads; ++h) {
      const float* q = in.q.data() + (static_cast<std::size_t>(r) * in.nHeads + h) * in.headDim;
      std::vector<double> weight(static_cast<std::size_t>(position) + 1, 0.0);
      double total = 0.0;
      for (int j = 0; j <= position; ++j) {
        if (in.window > 0 && j <= position - in.window) continue;
        const std::size_t row =
            (static_cast<std::size_t>(j) * in.nKvHeads + h / group) * in.headDim;
        double score = 0.0;
        for (int d = 0; d < in.headDim; ++d) score += q[d] * k[row + d];
        score *= in.scale;
        if (in.softcap > 0.0F) score = in.softcap * std::tanh(score / in.softcap);
        weight[j] = std::exp(score);
        total += weight[j];
      }
      for (int d = 0; d < in.headDim; ++d) {
        double sum = 0.0;
        double magnitude = 0.0;
        for (int j = 0; j <= position; ++j) {
          const std::size_t row =
              (static_cast<std::size_t>(j) * in.nKvHeads + h / group) * in.headDim;
          sum += weight[j] / total * v[row + d];
          magnitude += weight[j] / total * std::fabs(v[row + d]);
        }
        push(y, sum, magnitude);
      }
    }
  }
  return y;
}

Exact exact(const GateInput& in) {
  Exact y;
  for (std::size_t i = 0; i < in.gate.size(); ++i) {
    const double g = in.gate[i];
    const double silu = g / (1.0 + std::exp(-g));
    const double gelu =
        0.5 * g * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (g + 0.044715 * g * g * g)));
    // The tail of both is a difference of near numbers: measure against |gate · up|.
    push(y, (in.gelu ? gelu : silu) * in.up[i], std::fabs(g * in.up[i]));
  }
  return y;
}

Exact exact(const AddInput& in) {
  Exact y;
  for (std::size_t i = 0; i < in.y.size(); ++i) push(y, static_cast<double>(in.y[i]) + in.x[i]);
  return y;
}

Exact exact(const SoftmaxInput& in) {
  const double largest = *std::max_element(in.x.begin(), in.x.end());
  double sum = 0.0;
  for (float x : in.x) sum += std::exp(x - largest);
  Exact y;
  for (float x : in.x) push(y, std::exp(x - largest) / sum);
  return y;
}

}  // namespace vitrine::test

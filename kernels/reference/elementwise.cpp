#include <cmath>
#include <vector>

#include "kernels/api/hadamard.h"
#include "kernels/reference/reference.h"

namespace vitrine::kernels::reference {

void rmsNorm(const float* x, const float* weight, float* y, int rows, int dim, float eps) {
  for (int r = 0; r < rows; ++r, x += dim, y += dim) {
    const float mean = dot(x, x, dim) / static_cast<float>(dim);
    const float inverse = 1.0F / std::sqrt(mean + eps);
    for (int i = 0; i < dim; ++i) y[i] = x[i] * inverse * weight[i];
  }
}

void rope(float* x, const std::int32_t* positions, const RopeParams& params) {
  const int pairs = params.dims / 2;
  std::vector<float> cosines(static_cast<std::size_t>(pairs));
  std::vector<float> sines(static_cast<std::size_t>(pairs));
  for (int r = 0; r < params.rows; ++r) {
    for (int i = 0; i < pairs; ++i) {
      double angle = static_cast<double>(positions[r]) / params.linearScale *
                     std::pow(static_cast<double>(params.base), -2.0 * i / params.dims);
      if (params.freqFactors != nullptr) angle /= params.freqFactors[i];
      cosines[i] = static_cast<float>(std::cos(angle));
      sines[i] = static_cast<float>(std::sin(angle));
    }
    for (int h = 0; h < params.nHeads; ++h, x += params.headDim) {
      for (int i = 0; i < pairs; ++i) {
        float& u = params.halves ? x[i] : x[2 * i];
        float& v = params.halves ? x[i + pairs] : x[2 * i + 1];
        const float rotatedU = u * cosines[i] - v * sines[i];
        v = u * sines[i] + v * cosines[i];
        u = rotatedU;
      }
    }
  }
}

void hadamard(float* x, int rows, int headDim) {
  const int block = hadamardBlock(headDim);
  for (int first = 0; first < rows * headDim; first += block) {
    for (int distance = 1; distance < block; distance *= 2) {
      for (int i = first; i < first + block; ++i) {
        if ((i - first) & distance) continue;
        const float sum = x[i] + x[i + distance];
        x[i + distance] = x[i] - x[i + distance];
        x[i] = sum;
      }
    }
    for (int i = first; i < first + block; ++i) x[i] *= hadamardFactor(block);
  }
}

void swiglu(const float* gate, const float* up, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
}

void geglu(const float* gate, const float* up, float* y, std::size_t n) {
  constexpr float kRootTwoOverPi = 0.7978845608028654F;
  for (std::size_t i = 0; i < n; ++i) {
    const float g = gate[i];
    const float inner = kRootTwoOverPi * (g + 0.044715F * g * g * g);
    y[i] = 0.5F * g * (1.0F + std::tanh(inner)) * up[i];
  }
}

void add(float* y, const float* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] += x[i];
}

void softmax(float* x, int n) {
  float largest = x[0];
  for (int i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  float sum = 0.0F;
  for (int i = 0; i < n; ++i) {
    x[i] = std::exp(x[i] - largest);
    sum += x[i];
  }
  for (int i = 0; i < n; ++i) x[i] /= sum;
}

void softcap(float* x, float cap, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] = cap * std::tanh(x[i] / cap);
}

}  // namespace vitrine::kernels::reference

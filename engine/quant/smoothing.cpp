#include "engine/quant/smoothing.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/dequantize.h"

namespace vitrine::engine {
namespace {

constexpr double kMostOctaves = 12.0;

bool isUsable(float magnitude) {
  return magnitude > 0.0F && std::isfinite(magnitude);
}

double mean(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

float fromOctaves(double octaves) {
  return static_cast<float>(std::exp2(std::clamp(octaves, -kMostOctaves, kMostOctaves)));
}

/// 2^(log2 of each − their mean) over those that are usable; 1 for the others.
void divideByGeometricMean(std::span<float> magnitudes) {
  std::vector<double> octaves;
  for (const float m : magnitudes) {
    if (isUsable(m)) octaves.push_back(std::log2(static_cast<double>(m)));
  }
  const double middle = mean(octaves);
  for (float& m : magnitudes) {
    m = isUsable(m) ? fromOctaves(std::log2(static_cast<double>(m)) - middle) : 1.0F;
  }
}

}  // namespace

void growColumnMaxima(const TensorView& matrix, std::span<float> maxima) {
  std::vector<float> row(static_cast<std::size_t>(matrix.cols));
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    kernels::reference::dequantize(matrix.type,
                                   matrix.data + matrix.rowBytes() * static_cast<std::size_t>(r),
                                   row.data(), matrix.cols);
    for (std::size_t i = 0; i < row.size(); ++i) maxima[i] = std::max(maxima[i], std::fabs(row[i]));
  }
}

std::vector<float> smoothingFactors(std::span<const float> inputMax,
                                    std::span<const float> weightMax, float alpha) {
  const double a = alpha;
  std::vector<double> octaves;        // of s, where both sides are usable
  std::vector<double> smoothedInput;  // of max|x| / s there
  const auto octavesOf = [&](std::size_t i) {
    return a * std::log2(static_cast<double>(inputMax[i])) -
           (1.0 - a) * std::log2(static_cast<double>(weightMax[i]));
  };
  for (std::size_t i = 0; i < inputMax.size(); ++i) {
    if (!isUsable(inputMax[i]) || !isUsable(weightMax[i])) continue;
    octaves.push_back(octavesOf(i));
    smoothedInput.push_back(std::log2(static_cast<double>(inputMax[i])) - octaves.back());
  }
  const double middle = mean(octaves), middleInput = mean(smoothedInput);
  std::vector<float> factors(inputMax.size(), 1.0F);
  if (octaves.empty()) return factors;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (!isUsable(inputMax[i])) continue;
    const double s = isUsable(weightMax[i])
                         ? octavesOf(i)
                         : std::log2(static_cast<double>(inputMax[i])) - middleInput;
    factors[i] = fromOctaves(s - middle);
  }
  return factors;
}

std::vector<float> keyFactors(const ModelConfig& config, std::span<const float> keyMax,
                              bool shared) {
  const auto headDim = static_cast<std::size_t>(config.headDim);
  const auto nHeads = static_cast<std::size_t>(config.nKvHeads);
  const auto pairs = static_cast<std::size_t>(config.rope.dims / 2);
  std::vector<float> factors(keyMax.begin(), keyMax.end());
  if (shared) {
    for (std::size_t d = 0; d < headDim; ++d) {
      float largest = 0.0F;
      for (std::size_t h = 0; h < nHeads; ++h)
        largest = std::max(largest, factors[h * headDim + d]);
      for (std::size_t h = 0; h < nHeads; ++h) factors[h * headDim + d] = largest;
    }
  }
  for (std::size_t h = 0; h < nHeads; ++h) {
    const std::span<float> head = std::span(factors).subspan(h * headDim, headDim);
    for (std::size_t i = 0; i < pairs; ++i) {
      const bool halves = config.rope.style == RopeStyle::kHalves;
      float& u = halves ? head[i] : head[2 * i];
      float& v = halves ? head[i + pairs] : head[2 * i + 1];
      u = v = std::max(u, v);
    }
    for (float& factor : head) factor = std::sqrt(factor);
    divideByGeometricMean(head);
  }
  return factors;
}

std::vector<float> inverses(std::span<const float> factors) {
  std::vector<float> values(factors.size());
  std::transform(factors.begin(), factors.end(), values.begin(),
                 [](float factor) { return 1.0F / factor; });
  return values;
}

}  // namespace vitrine::engine

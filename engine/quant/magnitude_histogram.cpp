#include "engine/quant/magnitude_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace vitrine::engine {
namespace {

constexpr int kMantissaBits = 23;
constexpr std::uint32_t kMantissaMask = (1U << kMantissaBits) - 1;
constexpr int kGuessBits = 7;  // a bin is wider than 2^-7 of an octave: one edge a guess at most

/// Where an octave is cut, as bits of a mantissa, and for each run of mantissas the last cut at or
/// before its beginning. A logarithm a value would cost more than the model's own arithmetic.
struct Octave {
  std::array<std::uint32_t, MagnitudeHistogram::kPerOctave + 1> edges{};
  std::array<std::uint8_t, 1 << kGuessBits> guess{};

  Octave() {
    for (int i = 0; i < MagnitudeHistogram::kPerOctave; ++i) {
      const auto edge = static_cast<float>(std::exp2(i / double{MagnitudeHistogram::kPerOctave}));
      edges[static_cast<std::size_t>(i)] = std::bit_cast<std::uint32_t>(edge) & kMantissaMask;
    }
    edges.back() = kMantissaMask + 1;
    for (std::uint32_t i = 0; i < guess.size(); ++i) {
      const auto above =
          std::upper_bound(edges.begin(), edges.end(), i << (kMantissaBits - kGuessBits));
      guess[i] = static_cast<std::uint8_t>(above - edges.begin() - 1);
    }
  }
};

const Octave& octave() {
  static const Octave table;
  return table;
}

}  // namespace

void MagnitudeHistogram::add(std::span<const float> values) {
  const Octave& table = octave();
  for (const float value : values) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
    const std::uint32_t mantissa = bits & kMantissaMask;
    const int exponent = static_cast<int>(bits >> kMantissaBits) - 127;
    int within = table.guess[mantissa >> (kMantissaBits - kGuessBits)];
    within += mantissa >= table.edges[static_cast<std::size_t>(within) + 1] ? 1 : 0;
    const int bin = (exponent - kLowestExponent) * kPerOctave + within;
    ++m_bins[static_cast<std::size_t>(std::clamp(bin, 0, kBins - 1))];
  }
}

void MagnitudeHistogram::add(const MagnitudeHistogram& other) {
  for (std::size_t i = 0; i < m_bins.size(); ++i) m_bins[i] += other.m_bins[i];
}

std::uint64_t MagnitudeHistogram::count() const {
  return std::accumulate(m_bins.begin(), m_bins.end(), std::uint64_t{0});
}

float MagnitudeHistogram::lowerEdge(int bin) {
  const auto within = static_cast<float>(std::exp2((bin % kPerOctave) / double{kPerOctave}));
  return std::ldexp(within, kLowestExponent + bin / kPerOctave);
}

float MagnitudeHistogram::quantile(double share) const {
  const std::uint64_t n = count();
  if (n == 0) return 0.0F;
  const double wanted =
      std::max(1.0, std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(n)));
  std::uint64_t below = 0;
  for (int i = 0; i < kBins; ++i) {
    below += m_bins[static_cast<std::size_t>(i)];
    if (static_cast<double>(below) >= wanted) return lowerEdge(i + 1);
  }
  return lowerEdge(kBins);
}

double MagnitudeHistogram::shareAbove(float magnitude) const {
  const std::uint64_t n = count();
  if (n == 0) return 0.0;
  std::uint64_t above = 0;
  for (int i = kBins - 1; i >= 0 && lowerEdge(i) >= magnitude; --i) {
    above += m_bins[static_cast<std::size_t>(i)];
  }
  return static_cast<double>(above) / static_cast<double>(n);
}

}  // namespace vitrine::engine

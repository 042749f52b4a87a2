#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace vitrine::engine {

/// How often |x| fell where: bins of equal ratio, 16 an octave, from 2^-24 to 2^24. Smaller values
/// (zero too) and larger ones count in the first and last bin.
class MagnitudeHistogram final {
 public:
  static constexpr int kPerOctave = 16;
  static constexpr int kLowestExponent = -24, kHighestExponent = 24;
  static constexpr int kBins = (kHighestExponent - kLowestExponent) * kPerOctave;

  void add(std::span<const float> values);
  void add(const MagnitudeHistogram& other);

  std::uint64_t count() const;
  std::span<const std::uint64_t> bins() const { return m_bins; }
  std::span<std::uint64_t> bins() { return m_bins; }
  /// Bin i holds lowerEdge(i) ≤ |x| < lowerEdge(i + 1).
  static float lowerEdge(int bin);
  /// The magnitude that `share` of the values (0 to 1) do not exceed: the upper edge of a bin. 0
  /// for no values.
  float quantile(double share) const;
  /// Share of values beyond `magnitude`: those of the bins that lie wholly beyond it.
  double shareAbove(float magnitude) const;

 private:
  std::array<std::uint64_t, kBins> m_bins{};
};

}  // namespace vitrine::engine

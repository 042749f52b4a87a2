#pragma once

#include <cstdint>

namespace cuda_on_cpu {

/// A small generator (xorshift64*): the same numbers from the same seed everywhere.
class Random final {
 public:
  explicit Random(std::uint64_t seed = 1) : m_state((seed + 1) * 0x9E3779B97F4A7C15ULL | 1U) {}
  std::uint64_t next() {
    m_state ^= m_state >> 12;
    m_state ^= m_state << 25;
    m_state ^= m_state >> 27;
    return m_state * 0x2545F4914F6CDD1DULL;
  }
  /// In [0, n).
  unsigned below(unsigned n) { return static_cast<unsigned>(((next() >> 32) * n) >> 32); }

 private:
  std::uint64_t m_state;
};

}  // namespace cuda_on_cpu

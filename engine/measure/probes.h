#pragma once

#include <cstdint>
#include <string>

namespace vitrine::engine {

/// What this machine can do at most, measured: a speed is judged as a share of these. Each takes
/// some tenths of a second to a second and uses all its threads; run them on an idle machine.

/// Bytes a second that `threads` threads together read from memory: the best of `passes` sums over
/// a buffer far larger than the caches (`bytes` in all; written before, so that its pages exist).
/// 0 where the buffer cannot be had.
double probeReadBandwidth(int threads, std::uint64_t bytes = std::uint64_t{1} << 30,
                          int passes = 3);

struct PeakRate {
  double operationsPerSecond = 0.0;  ///< multiplications and additions, all threads together
  std::string instruction;  ///< what did it: "AVX-512 VNNI", "AVX-512 BF16", "FP32 FMA", …
};
/// Products of 8-bit integers summed in 32 bits, registers only.
PeakRate probeInt8Peak(int threads);
/// Products of BF16 pairs summed in FP32; FP32 multiply-add where the processor has no BF16.
PeakRate probeBf16Peak(int threads);

}  // namespace vitrine::engine

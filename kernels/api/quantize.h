#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace vitrine::kernels {

/// Symmetric INT8 of one group: s = max|x| / 127, q = round(x / s) in −127 … 127, x ≈ s·q.
/// The one rounding rule of this program: weights, activations and the KV cache all use it.
///
/// x [n], q [n]; returns s, in FP32 and never narrower (FP16 can hold neither the tiny nor the
/// huge ones). A group of zeros gives s = 0 and zeros. So does a group whose scale is too small to
/// invert (below 2^-128): its values are far under anything that FP32 sums would keep. A NaN or an
/// infinity in x makes s NaN or infinite, so that a broken value is seen and not hidden.
/// |x − s·q| ≤ s/2, plus the rounding of the FP32 arithmetic.
///
/// `static`: each source file compiles it for its own instruction set (loops vectorize), with the
/// same result: multiply by 1/s, round half to even.
static inline float quantizeInt8(const float* x, std::int8_t* q, int n) {
  // The largest magnitude, compared as integers: the order is the same and NaN is the largest.
  std::uint32_t largest = 0;
  for (int i = 0; i < n; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFU;
    largest = magnitude > largest ? magnitude : largest;
  }
  const float scale = std::bit_cast<float>(largest) / 127.0F;
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  if (scale == 0.0F || inverse == std::numeric_limits<float>::infinity()) {
    for (int i = 0; i < n; ++i) q[i] = 0;
    return 0.0F;
  }
  constexpr float kRound = 12582912.0F;  // 1.5 · 2^23: adding it leaves no fraction bits
  for (int i = 0; i < n; ++i) {
    float v = x[i] * inverse;
    v = v <= 127.0F ? v : 127.0F;
    v = v >= -127.0F ? v : -127.0F;
    q[i] = static_cast<std::int8_t>(static_cast<std::int32_t>((v + kRound) - kRound));
  }
  return scale;
}

/// What a scale that was fixed beforehand met.
struct Int8Use {
  std::uint64_t values = 0;
  std::uint64_t clipped = 0;  ///< |x| > 127 · scale
  float largest = 0.0F;       ///< |x|
};

/// The same with a scale that was fixed beforehand (> 0 and invertible): what lies beyond ±127
/// steps becomes ±127. x [n], q [n]; `use` (may be null) counts on. Returns the scale, or where x
/// holds a NaN or an infinity, that.
static inline float quantizeInt8Static(const float* x, std::int8_t* q, int n, float scale,
                                       Int8Use* use) {
  const float limit = 127.0F * scale;
  const float inverse = 1.0F / scale;
  std::uint32_t largest = 0;
  std::uint64_t clipped = 0;
  constexpr float kRound = 12582912.0F;
  for (int i = 0; i < n; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFU;
    largest = magnitude > largest ? magnitude : largest;
    clipped += magnitude > std::bit_cast<std::uint32_t>(limit) ? 1U : 0U;
    float v = x[i] * inverse;
    v = v <= 127.0F ? v : 127.0F;
    v = v >= -127.0F ? v : -127.0F;
    q[i] = static_cast<std::int8_t>(static_cast<std::int32_t>((v + kRound) - kRound));
  }
  if (use != nullptr) {
    use->values += static_cast<std::uint64_t>(n);
    use->clipped += clipped;
    if (largest > std::bit_cast<std::uint32_t>(use->largest)) {
      use->largest = std::bit_cast<float>(largest);
    }
  }
  return largest >= 0x7F800000U ? std::bit_cast<float>(largest) : scale;
}

/// A row in groups of `groupSize`; the last group may be shorter.
/// x, q [n]; scales [ceil(n / groupSize)].
static inline void quantizeInt8Groups(const float* x, std::int8_t* q, float* scales, int n,
                                      int groupSize) {
  for (int i = 0, g = 0; i < n; i += groupSize, ++g) {
    scales[g] = quantizeInt8(x + i, q + i, n - i < groupSize ? n - i : groupSize);
  }
}

}  // namespace vitrine::kernels

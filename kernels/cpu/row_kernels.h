// Norm, gated activation and preparation of activations: one row at a time. Included once by each
// rows_<instruction set>.cpp, after its simd_*.h, with VITRINE_CPU_NAMESPACE set.

#include <bit>

#include "kernels/api/hadamard.h"
#include "kernels/cpu/kernel_functions.h"
#include "kernels/cpu/vector_math.h"

namespace vitrine::kernels::cpu {
namespace {

/// Calls body(first, count) for each 16 values, the last perhaps fewer.
template <typename Body>
inline void forVectors(int n, Body body) {
  int i = 0;
  for (; i + 16 <= n; i += 16) body(i, 16);
  if (i < n) body(i, n - i);
}
inline F loadSome(const float* p, int n) {
  return n == 16 ? Simd::load(p) : Simd::loadFirst(p, n);
}
inline void storeSome(float* p, F v, int n) {
  n == 16 ? Simd::store(p, v) : Simd::storeFirst(p, v, n);
}

/// Calls body(group, a, b) with the two halves of each group of 32, padded with zeros.
template <typename Body>
inline void forGroups(const float* x, int n, int groups, Body body) {
  for (int g = 0; g < groups; ++g) {
    const int left = n - g * kGroup;
    const float* p = x + g * kGroup;
    const F a = left >= 16 ? Simd::load(p) : Simd::loadFirst(p, left);
    const F b = left >= 32   ? Simd::load(p + 16)
                : left <= 16 ? Simd::zero()
                             : Simd::loadFirst(p + 16, left - 16);
    body(g, a, b);
  }
}

/// Integers up to `limit` in magnitude: scale = max|x| / limit, q = round(x / scale).
template <bool Narrow>
inline void prepareIntegers(const float* x, int n, const Activations& to, int row) {
  constexpr float kLimit = Narrow ? 127.0F : 32512.0F;  // 127 · 256: both bytes stay in range
  constexpr std::size_t kBytes = Narrow ? Simd::kInt8GroupBytes : 64;
  std::byte* data = to.data + to.rowBytes * static_cast<std::size_t>(row);
  const std::size_t first = static_cast<std::size_t>(row) * static_cast<std::size_t>(to.groups);
  forGroups(x, n, to.groups, [&](int g, F a, F b) {
    const float largest = Simd::largestMagnitude(Simd::maxMagnitude(Simd::abs(a), Simd::abs(b)));
    float scale = largest / kLimit;
    float inverse = 1.0F / scale;
    if (largest < 1e-35F) scale = inverse = 0.0F;  // too small to invert: zeros
    const Simd::I qa = Simd::toInt(Simd::mul(a, Simd::set1(inverse)));
    const Simd::I qb = Simd::toInt(Simd::mul(b, Simd::set1(inverse)));
    std::byte* out = data + static_cast<std::size_t>(g) * kBytes;
    if constexpr (Narrow) {
      Simd::storeInt8(out, qa, qb);
    } else {
      Simd::storeInt16(out, qa, qb);
    }
    const std::int32_t sum = Simd::sumInt(Simd::addInt(qa, qb));
    to.scales[first + g] = scale;
    to.offsets[first + g] = -128 * sum;
    to.sums[first + g] = scale * static_cast<float>(sum);
  });
}

/// Counts what a fixed scale meets; values beyond it are few, most rows have none.
inline void countUse(const float* x, int n, float scale, float largest, Int8Use& use) {
  use.values += static_cast<std::uint64_t>(n);
  if (std::bit_cast<std::uint32_t>(largest) > std::bit_cast<std::uint32_t>(use.largest)) {
    use.largest = largest;  // as integers: a NaN is the largest
  }
  const float limit = 127.0F * scale;
  if (largest <= limit) return;
  std::uint32_t clipped = 0;
  for (int i = 0; i < n; ++i) clipped += __builtin_fabsf(x[i]) <= limit ? 0U : 1U;
  use.clipped += clipped;
}

/// 8 bits with one scale for the row, found in it or fixed beforehand: quantizeInt8() and
/// quantizeInt8Static() of kernels/api/quantize.h, to the same integers. `perRow`: one offset for
/// the row; else the groups have theirs and all the same scale.
inline void prepareRow(const float* x, int n, const Activations& to, int row, bool perRow) {
  std::byte* data = to.data + to.rowBytes * static_cast<std::size_t>(row);
  const std::size_t first = static_cast<std::size_t>(row) * static_cast<std::size_t>(to.groups);
  F magnitudes = Simd::zero();
  forGroups(x, n, to.groups, [&](int, F a, F b) {
    magnitudes = Simd::maxMagnitude(magnitudes, Simd::maxMagnitude(Simd::abs(a), Simd::abs(b)));
  });
  const float largest = Simd::largestMagnitude(magnitudes);
  const bool broken = !(largest <= 3.4028235e38F);  // a NaN or an infinity
  const bool fixed = to.fixedScale > 0.0F;
  if (fixed && to.use != nullptr) countUse(x, n, to.fixedScale, largest, *to.use);
  float scale = fixed ? to.fixedScale : largest / 127.0F;
  float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  if (inverse > 3.4028235e38F) scale = inverse = 0.0F;  // too small to invert: zeros
  if (broken) scale = largest;                          // seen, not hidden
  const F factor = Simd::set1(inverse);
  const F most = Simd::set1(127.0F);
  const F least = Simd::set1(-127.0F);
  Simd::I total = Simd::toInt(Simd::zero());
  forGroups(x, n, to.groups, [&](int g, F a, F b) {
    const F clippedA = Simd::max(Simd::min(Simd::mul(a, factor), most), least);
    const F clippedB = Simd::max(Simd::min(Simd::mul(b, factor), most), least);
    const Simd::I qa = Simd::toInt(clippedA);
    const Simd::I qb = Simd::toInt(clippedB);
    Simd::storeInt8(data + static_cast<std::size_t>(g) * Simd::kInt8GroupBytes, qa, qb);
    const Simd::I both = Simd::addInt(qa, qb);
    if (perRow) {
      total = Simd::addInt(total, both);
      return;
    }
    const std::int32_t sum = Simd::sumInt(both);
    to.scales[first + g] = scale;
    to.offsets[first + g] = -128 * sum;
    to.sums[first + g] = scale * static_cast<float>(sum);
  });
  if (!perRow) return;
  to.scales[first] = scale;
  to.offsets[first] = -128 * Simd::sumInt(total);
}

/// Of two lanes that are kDistance apart the lower gets the sum, the upper the difference.
template <int kDistance>
inline F butterfly(F v) {
  struct Signs {
    float of[16];
    constexpr Signs() : of{} {
      for (int i = 0; i < 16; ++i) of[i] = (i & kDistance) == 0 ? 1.0F : -1.0F;
    }
  };
  alignas(64) static constexpr Signs kSigns;
  return Simd::fma(v, Simd::load(kSigns.of), Simd::template swap<kDistance>(v));
}

}  // namespace

namespace VITRINE_CPU_NAMESPACE {

void rmsNorm(const float* x, const float* weight, float* y, int n, float eps) {
  F squares[4] = {Simd::zero(), Simd::zero(), Simd::zero(), Simd::zero()};
  int first = 0;
  for (; first + 64 <= n; first += 64) {
    for (int i = 0; i < 4; ++i) {
      const F v = Simd::load(x + first + i * 16);
      squares[i] = Simd::fma(v, v, squares[i]);
    }
  }
  forVectors(n - first, [&](int i, int count) {
    const F v = loadSome(x + first + i, count);
    squares[0] = Simd::fma(v, v, squares[0]);
  });
  const F total = Simd::add(Simd::add(squares[0], squares[1]), Simd::add(squares[2], squares[3]));
  const float mean = Simd::sum(total) / static_cast<float>(n);
  const F factor = Simd::set1(1.0F / __builtin_sqrtf(mean + eps));
  forVectors(n, [&](int i, int count) {
    const F v = Simd::mul(loadSome(x + i, count), factor);
    storeSome(y + i, Simd::mul(v, loadSome(weight + i, count)), count);
  });
}

void swiglu(const float* gate, const float* up, float* y, int n) {
  forVectors(n, [&](int i, int count) {
    const F g = loadSome(gate + i, count);
    const F e = exponential(Simd::sub(Simd::zero(), g));
    const F silu = Simd::div(g, Simd::add(Simd::set1(1.0F), e));
    storeSome(y + i, Simd::mul(silu, loadSome(up + i, count)), count);
  });
}

void geglu(const float* gate, const float* up, float* y, int n) {
  forVectors(n, [&](int i, int count) {
    const F g = loadSome(gate + i, count);
    const F cubic = Simd::mul(Simd::mul(Simd::mul(g, g), g), Simd::set1(0.044715F));
    const F t = hyperbolicTangent(Simd::mul(Simd::add(g, cubic), Simd::set1(0.79788456F)));
    const F half = Simd::mul(g, Simd::set1(0.5F));
    const F gelu = Simd::mul(half, Simd::add(t, Simd::set1(1.0F)));
    storeSome(y + i, Simd::mul(gelu, loadSome(up + i, count)), count);
  });
}

void rope(float* x, const float* cosines, const float* sines, int dims, bool halves) {
  if (!halves) {
    forVectors(dims, [&](int i, int count) {
      const F v = loadSome(x + i, count);
      const F turned = Simd::mul(Simd::swap<1>(v), loadSome(sines + i, count));
      storeSome(x + i, Simd::fma(v, loadSome(cosines + i, count), turned), count);
    });
    return;
  }
  const int half = dims / 2;
  forVectors(half, [&](int i, int count) {
    const F u = loadSome(x + i, count);
    const F v = loadSome(x + half + i, count);
    const F turnedU = Simd::mul(v, loadSome(sines + i, count));
    const F turnedV = Simd::mul(u, loadSome(sines + half + i, count));
    storeSome(x + i, Simd::fma(u, loadSome(cosines + i, count), turnedU), count);
    storeSome(x + half + i, Simd::fma(v, loadSome(cosines + half + i, count), turnedV), count);
  });
}

void hadamard(float* x, int headDim) {
  const int block = hadamardBlock(headDim);
  const F factor = Simd::set1(hadamardFactor(block));
  forVectors(headDim, [&](int i, int count) {
    F v = Simd::mul(loadSome(x + i, count), factor);
    if (block > 1) v = butterfly<1>(v);
    if (block > 2) v = butterfly<2>(v);
    if (block > 4) v = butterfly<4>(v);
    if (block > 8) v = butterfly<8>(v);
    storeSome(x + i, v, count);
  });
  for (int distance = 16; distance < block; distance *= 2) {
    for (int first = 0; first < headDim; first += 2 * distance) {
      for (int i = first; i < first + distance; i += 16) {
        const F a = Simd::load(x + i);
        const F b = Simd::load(x + i + distance);
        Simd::store(x + i, Simd::add(a, b));
        Simd::store(x + i + distance, Simd::sub(a, b));
      }
    }
  }
}

void prepare(const float* x, int n, const Activations& to, int row) {
  std::byte* data = to.data + to.rowBytes * static_cast<std::size_t>(row);
  switch (to.format) {
    case ActivationFormat::kInt16:
      prepareIntegers<false>(x, n, to, row);
      return;
    case ActivationFormat::kInt8:
      if (to.fixedScale > 0.0F) {
        prepareRow(x, n, to, row, false);
      } else {
        prepareIntegers<true>(x, n, to, row);
      }
      return;
    case ActivationFormat::kInt8Row:
      prepareRow(x, n, to, row, true);
      return;
    case ActivationFormat::kF32:
    case ActivationFormat::kBf16:
      break;
  }
  forGroups(x, n, to.groups, [&](int g, F a, F b) {
    const std::ptrdiff_t i = std::ptrdiff_t{g} * kGroup;
    if (!Simd::kDotsBf16 || to.format == ActivationFormat::kF32) {
      auto* out = reinterpret_cast<float*>(data) + i;
      Simd::store(out, a);
      Simd::store(out + 16, b);
    } else {
      Simd::storeBf16(data + i * 2, a, b);
    }
  });
}

}  // namespace VITRINE_CPU_NAMESPACE
}  // namespace vitrine::kernels::cpu

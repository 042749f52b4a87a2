// KV store and attention over blocks. Included once by each attention_<instruction set>.cpp, after
// its simd_*.h, with VITRINE_CPU_NAMESPACE set.
//
// K lies transposed in a block, [headDim, blockSize], so that the scores of 16 positions are one
// vector and its sum runs over the head's elements in order; V lies as [blockSize, headDim], so
// that 16 elements of the result are one vector and their sums run over positions in order. Both
// orders are the same for one row (decode) and for many (prefill). Positions are taken in fixed
// ranges of 256; a range's softmax is relative to its own maximum, and ranges are merged in order.
// A masked position has the weight zero, which adds exactly nothing.
//
// Many rows: K and V of the range are widened to FP32 once (the same values) and stay in the cache.

#include "kernels/cpu/kernel_functions.h"
#include "kernels/cpu/vector_math.h"

namespace vitrine::kernels::cpu {
namespace {

using Half = std::uint16_t;
using Int8 = std::int8_t;

constexpr int kBlocks = kAttentionRange / 16;  // of 16 positions in a range
constexpr float kNothing = -__builtin_inff();

inline F load16(const Half* p) {
  return Simd::loadHalf(p);
}
inline F load16(const Int8* p) {
  return Simd::loadInt8(p);
}
inline F load16(const float* p) {
  return Simd::load(p);
}
inline F loadSome(const float* p, int n) {
  return n >= 16 ? Simd::load(p) : Simd::loadFirst(p, n);
}
inline void storeSome(float* p, F v, int n) {
  n >= 16 ? Simd::store(p, v) : Simd::storeFirst(p, v, n);
}
inline int clampTo(int v, int low, int high) {
  return v < low ? low : v > high ? high : v;
}
inline int smaller(int a, int b) {
  return a < b ? a : b;
}

/// K and V of a range, 16 positions at a time.
template <typename E>
struct Source {
  const E* k[kBlocks];            // [headDim], kStride elements apart, 16 positions each
  const E* v[kBlocks];            // [16 positions], vStride elements apart
  const float* kScales[kBlocks];  // [16] or null
  const float* vScales[kBlocks];
  std::ptrdiff_t kStride = 0;
  std::ptrdiff_t vStride = 0;
};

template <typename E>
Source<E> cacheSource(const KvHead& kv, int firstPosition, int nBlocks) {
  Source<E> s;
  s.kStride = kv.blockSize;
  s.vStride = kv.headDim;
  const std::size_t values = static_cast<std::size_t>(kv.headDim) * kv.blockSize;
  for (int b = 0; b < nBlocks; ++b) {
    const int position = firstPosition + b * 16;
    const int slot = position % kv.blockSize;
    const auto block = static_cast<std::size_t>(kv.blockTable[position / kv.blockSize]);
    const std::byte* head = kv.pool + block * kv.blockStride + kv.offset;
    const E* elements = reinterpret_cast<const E*>(head);
    s.k[b] = elements + slot;
    s.v[b] = elements + values + static_cast<std::ptrdiff_t>(slot) * kv.headDim;
    const auto* scales = reinterpret_cast<const float*>(elements + 2 * values);
    s.kScales[b] = kv.int8 ? scales + slot : nullptr;
    s.vScales[b] = kv.int8 ? scales + kv.blockSize + slot : nullptr;
  }
  return s;
}

/// The same values as FP32 in scratch: k [headDim, range], v [range, padded headDim].
template <typename E>
Source<float> widen(const Source<E>& from, int nBlocks, int headDim, float* k, float* v) {
  Source<float> s;
  s.kStride = kAttentionRange;
  s.vStride = (headDim + 15) / 16 * 16;
  for (int b = 0; b < nBlocks; ++b) {
    for (int d = 0; d < headDim; ++d) {
      Simd::store(k + d * s.kStride + b * 16, load16(from.k[b] + d * from.kStride));
    }
    for (int t = 0; t < 16; ++t) {
      for (int d = 0; d < headDim; d += 16) {
        Simd::store(v + (b * 16 + t) * s.vStride + d, load16(from.v[b] + t * from.vStride + d));
      }
    }
    s.k[b] = k + b * 16;
    s.v[b] = v + b * 16 * s.vStride;
    s.kScales[b] = from.kScales[b];
    s.vScales[b] = from.vScales[b];
  }
  return s;
}

/// Asks for memory before it is read. A head's part of a block is a kilobyte or two, and the next
/// block lies far away: too short for the processor to foresee, so it would wait at each.
template <typename E>
inline void ask(const E* first, std::ptrdiff_t stride, std::ptrdiff_t end) {
  constexpr std::ptrdiff_t kLine = 64 / sizeof(E);
  const std::ptrdiff_t step = stride < kLine ? kLine : stride;
  for (std::ptrdiff_t i = 0; i < end; i += step) __builtin_prefetch(first + i);
}

/// K of the blocks [begin, end) of 16 positions.
template <typename E>
inline void askForKeys(const Source<E>& s, int begin, int end, int headDim) {
  for (int b = begin; b < end; ++b) ask(s.k[b], s.kStride, headDim * s.kStride);
}
template <typename E>
inline void askForValues(const Source<E>& s, int begin, int end) {
  for (int b = begin; b < end; ++b) ask(s.v[b], 1, 16 * s.vStride);
}

/// Scores of R rows at N · 16 positions. q [R, headDim].
template <typename E, int R, int N>
inline void scoreBlocks(const Source<E>& s, int b, const float* q, int headDim, float* scores) {
  F sums[R][N];
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < N; ++n) sums[r][n] = Simd::zero();
  }
  for (int d = 0; d < headDim; ++d) {
    F keys[N];
    for (int n = 0; n < N; ++n) keys[n] = load16(s.k[b + n] + d * s.kStride);
    for (int r = 0; r < R; ++r) {
      const F value = Simd::set1(q[r * headDim + d]);
      for (int n = 0; n < N; ++n) sums[r][n] = Simd::fma(keys[n], value, sums[r][n]);
    }
  }
  for (int n = 0; n < N; ++n) {
    const float* scales = s.kScales[b + n];
    for (int r = 0; r < R; ++r) {
      const F v = scales != nullptr ? Simd::mul(sums[r][n], Simd::load(scales)) : sums[r][n];
      Simd::store(scores + r * kAttentionRange + (b + n) * 16, v);
    }
  }
}

template <typename E, int R>
inline void scoreRows(const Source<E>& s, int nBlocks, const float* q, int headDim, float* scores) {
  constexpr int kVectors = Simd::kAttendVectors;
  constexpr bool kFromCache = sizeof(E) < sizeof(float);  // FP32 was widened just before
  int b = 0;
  if constexpr (kFromCache) askForKeys(s, 0, smaller(kVectors, nBlocks), headDim);
  for (; b + kVectors <= nBlocks; b += kVectors) {
    if constexpr (kFromCache) {
      askForKeys(s, b + kVectors, smaller(b + 2 * kVectors, nBlocks), headDim);
      askForValues(s, b, b + kVectors);
    }
    scoreBlocks<E, R, kVectors>(s, b, q, headDim, scores);
  }
  for (; b < nBlocks; ++b) scoreBlocks<E, R, 1>(s, b, q, headDim, scores);
}

/// out [R, partial] = Σ_t weights[r, t] · V[t] for t in [begin, end).
template <typename E, int R, int N>
inline void weighBlocks(const Source<E>& s, int begin, int end, const float* weights, int d,
                        float* out, int outStride) {
  F sums[R][N];
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < N; ++n) sums[r][n] = Simd::zero();
  }
  for (int t = begin; t < end; ++t) {
    const E* v = s.v[t / 16] + (t % 16) * s.vStride + d;
    F values[N];
    for (int n = 0; n < N; ++n) values[n] = load16(v + n * 16);
    for (int r = 0; r < R; ++r) {
      const F weight = Simd::set1(weights[r * kAttentionRange + t]);
      for (int n = 0; n < N; ++n) sums[r][n] = Simd::fma(values[n], weight, sums[r][n]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < N; ++n) Simd::store(out + r * outStride + d + n * 16, sums[r][n]);
  }
}

template <typename E, int R>
inline void weighRows(const Source<E>& s, int begin, int end, const float* weights, int headDim,
                      float* out, int outStride) {
  int d = 0;
  for (; d + Simd::kAttendVectors * 16 <= headDim; d += Simd::kAttendVectors * 16) {
    weighBlocks<E, R, Simd::kAttendVectors>(s, begin, end, weights, d, out, outStride);
  }
  for (; d < headDim; d += 16) weighBlocks<E, R, 1>(s, begin, end, weights, d, out, outStride);
}

/// Calls body.template operator()<R>(row) for rows in runs of at most kAttendRows.
template <int R, typename Body>
inline void inRuns(int row, int end, Body body) {
  for (; row + R <= end; row += R) body.template operator()<R>(row);
  if constexpr (R > 1) {
    if (row < end) inRuns<R - 1>(row, end, body);
  }
}

/// Scores to weights in place: e^(s − maximum), zero outside [low, high).
inline void softmaxRow(float* scores, int nBlocks, int low, int high, float softcap,
                       const float* const* vScales, float& maximum, float& sum) {
  const F nothing = Simd::set1(kNothing);
  F largest = nothing;
  for (int b = low / 16; b * 16 < high; ++b) {
    F s = Simd::load(scores + b * 16);
    if (softcap > 0.0F) {
      const F scaled = Simd::div(s, Simd::set1(softcap));
      s = Simd::mul(hyperbolicTangent(scaled), Simd::set1(softcap));
    }
    s = Simd::firstLanes(s, nothing, clampTo(high - b * 16, 0, 16));
    s = Simd::firstLanes(nothing, s, clampTo(low - b * 16, 0, 16));
    largest = Simd::max(s, largest);
    Simd::store(scores + b * 16, s);
  }
  maximum = Simd::largest(largest);
  F total = Simd::zero();
  for (int b = 0; b < nBlocks; ++b) {
    if (b < low / 16 || b * 16 >= high) {
      Simd::store(scores + b * 16, Simd::zero());
      continue;
    }
    F e = exponential(Simd::sub(Simd::load(scores + b * 16), Simd::set1(maximum)));
    e = Simd::firstLanes(e, Simd::zero(), clampTo(high - b * 16, 0, 16));
    e = Simd::firstLanes(Simd::zero(), e, clampTo(low - b * 16, 0, 16));
    total = Simd::add(total, e);
    if (vScales[b] != nullptr) e = Simd::mul(e, Simd::load(vScales[b]));
    Simd::store(scores + b * 16, e);
  }
  sum = Simd::sum(total);
}

template <typename E>
void rangeOf(const AttentionTask& task, const Source<E>& s, int firstPosition, int nBlocks,
             const float* q, float* scores, float* partials) {
  const int headDim = task.kv.headDim;
  const int stride = partialFloats(headDim);
  const int sumAt = stride - 16;
  const int rows = task.rows * task.heads;
  inRuns<Simd::kAttendRows>(0, rows, [&]<int R>(int row) {
    scoreRows<E, R>(s, nBlocks, q + row * headDim, headDim, scores + row * kAttentionRange);
    int begin = kAttentionRange;
    int end = 0;
    for (int r = row; r < row + R; ++r) {
      const int position = task.firstPosition + r / task.heads - firstPosition;  // in the range
      const int high = clampTo(position + 1, 0, kAttentionRange);
      const int low = task.window > 0 ? clampTo(position + 1 - task.window, 0, kAttentionRange) : 0;
      float* partial = partials + r * stride;
      if (high <= low) {
        for (int b = 0; b < nBlocks; ++b) {
          Simd::store(scores + r * kAttentionRange + b * 16, Simd::zero());
        }
        partial[sumAt] = kNothing;
        partial[sumAt + 1] = 0.0F;
        continue;
      }
      softmaxRow(scores + r * kAttentionRange, nBlocks, low, high, task.softcap, s.vScales,
                 partial[sumAt], partial[sumAt + 1]);
      begin = smaller(begin, low);
      end = high > end ? high : end;
    }
    weighRows<E, R>(s, begin, end, scores + row * kAttentionRange, headDim, partials + row * stride,
                    stride);
  });
}

template <typename E>
void attendRangeOf(const AttentionTask& task, int range, float* partials) {
  const int headDim = task.kv.headDim;
  const int first = range * kAttentionRange;
  const int positions = smaller(kAttentionRange, task.firstPosition + task.rows - first);
  const int nBlocks = (positions + 15) / 16;
  float* q = task.scratch;                               // [rows · heads, headDim]
  float* scores = q + kAttentionRows * headDim;          // [rows · heads, range]
  float* k = scores + kAttentionRows * kAttentionRange;  // [headDim, range]
  float* v = k + headDim * kAttentionRange;              // [range, padded headDim]
  for (int r = 0; r < task.rows; ++r) {
    const float* from = task.q + task.qStride * r;
    float* to = q + r * task.heads * headDim;
    for (int i = 0; i < task.heads * headDim; ++i) to[i] = from[i] * task.scale;
  }
  const Source<E> cache = cacheSource<E>(task.kv, first, nBlocks);
  if (task.rows < 4) {
    rangeOf(task, cache, first, nBlocks, q, scores, partials);
  } else {
    rangeOf(task, widen(cache, nBlocks, headDim, k, v), first, nBlocks, q, scores, partials);
  }
}

/// state := state and partial together; both [partialFloats(headDim)].
inline void merge(float* state, const float* partial, int headDim) {
  const int sumAt = partialFloats(headDim) - 16;
  if (partial[sumAt] == kNothing) return;
  const float maximum = partial[sumAt] > state[sumAt] ? partial[sumAt] : state[sumAt];
  const F old = exponential(Simd::sub(Simd::set1(state[sumAt]), Simd::set1(maximum)));
  const F fresh = exponential(Simd::sub(Simd::set1(partial[sumAt]), Simd::set1(maximum)));
  for (int d = 0; d < sumAt; d += 16) {
    const F scaled = Simd::mul(Simd::load(state + d), old);
    Simd::store(state + d, Simd::fma(Simd::load(partial + d), fresh, scaled));
  }
  const F sum = Simd::fma(Simd::set1(partial[sumAt + 1]), fresh,
                          Simd::mul(Simd::set1(state[sumAt + 1]), old));
  state[sumAt] = maximum;
  Simd::storeFirst(state + sumAt + 1, sum, 1);
}

inline void emptyState(float* state, int headDim) {
  const int sumAt = partialFloats(headDim) - 16;
  for (int d = 0; d < sumAt; d += 16) Simd::store(state + d, Simd::zero());
  state[sumAt] = kNothing;
  state[sumAt + 1] = 0.0F;
}

inline void finish(const float* state, int headDim, float* out) {
  const F sum = Simd::set1(state[partialFloats(headDim) - 15]);
  for (int d = 0; d < headDim; d += 16) {
    storeSome(out + d, Simd::div(Simd::load(state + d), sum), headDim - d);
  }
}

}  // namespace

namespace VITRINE_CPU_NAMESPACE {

void kvStore(const KvHead& kv, int position, const float* k, const float* v) {
  const int slot = position % kv.blockSize;
  const auto block = static_cast<std::size_t>(kv.blockTable[position / kv.blockSize]);
  std::byte* head = kv.pool + block * kv.blockStride + kv.offset;
  const std::ptrdiff_t values = static_cast<std::ptrdiff_t>(kv.headDim) * kv.blockSize;
  if (kv.int8) {
    auto* keys = reinterpret_cast<Int8*>(head);
    auto* scales = reinterpret_cast<float*>(head + 2 * values);
    for (int which = 0; which < 2; ++which) {
      const float* x = which == 0 ? k : v;
      F largest = Simd::zero();
      for (int d = 0; d < kv.headDim; d += 16) {
        largest = Simd::maxMagnitude(largest, Simd::abs(loadSome(x + d, kv.headDim - d)));
      }
      // The rule of quantizeInt8(): multiply by 1/s, half to even; too small to invert is zero.
      const float scale = Simd::largestMagnitude(largest) / 127.0F;
      float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
      const bool zero = scale == 0.0F || inverse == __builtin_inff();
      if (zero) inverse = 0.0F;
      const F limit = Simd::set1(127.0F);
      for (int d = 0; d < kv.headDim; d += 16) {
        const int n = smaller(16, kv.headDim - d);
        F q = Simd::mul(loadSome(x + d, n), Simd::set1(inverse));
        q = Simd::max(Simd::min(q, limit), Simd::sub(Simd::zero(), limit));
        float rounded[16];
        Simd::store(rounded, Simd::round(q));
        for (int i = 0; i < n; ++i) {
          const auto value = static_cast<Int8>(static_cast<int>(rounded[i]));
          if (which == 0) {
            keys[static_cast<std::ptrdiff_t>(d + i) * kv.blockSize + slot] = value;
          } else {
            keys[values + static_cast<std::ptrdiff_t>(slot) * kv.headDim + d + i] = value;
          }
        }
      }
      scales[which * kv.blockSize + slot] = zero ? 0.0F : scale;
    }
    return;
  }
  auto* keys = reinterpret_cast<Half*>(head);
  Half* valuesRow = keys + values + static_cast<std::ptrdiff_t>(slot) * kv.headDim;
  const F limit = Simd::set1(65504.0F);
  for (int which = 0; which < 2; ++which) {
    const float* x = which == 0 ? k : v;
    for (int d = 0; d < kv.headDim; d += 16) {
      const int n = smaller(16, kv.headDim - d);
      const F raw = loadSome(x + d, n);
      // The value is the second operand: x86's min and max then hand a NaN through.
      const F value = Simd::max(Simd::sub(Simd::zero(), limit), Simd::min(limit, raw));
      Half half[16];
      Simd::storeHalf(half, value);
      for (int i = 0; i < n; ++i) {
        if (which == 0) {
          keys[static_cast<std::ptrdiff_t>(d + i) * kv.blockSize + slot] = half[i];
        } else {
          valuesRow[d + i] = half[i];
        }
      }
    }
  }
}

void attendRange(const AttentionTask& task, int range, float* partials) {
  task.kv.int8 ? attendRangeOf<Int8>(task, range, partials)
               : attendRangeOf<Half>(task, range, partials);
}

void mergeRanges(const float* partials, std::ptrdiff_t stride, int n, int headDim, float* out) {
  float state[1024 + 16];
  emptyState(state, headDim);
  for (int i = 0; i < n; ++i) merge(state, partials + stride * i, headDim);
  finish(state, headDim, out);
}

void attend(const AttentionTask& task, float* out, std::ptrdiff_t outStride) {
  const int headDim = task.kv.headDim;
  const int stride = partialFloats(headDim);
  const int rows = task.rows * task.heads;
  const int padded = stride - 16;
  float* partials = task.scratch + kAttentionRows * (headDim + kAttentionRange) +
                    kAttentionRange * (headDim + padded);
  float* states = partials + kAttentionRows * stride;
  for (int r = 0; r < rows; ++r) emptyState(states + r * stride, headDim);
  const int last = (task.firstPosition + task.rows - 1) / kAttentionRange;
  int range = 0;
  if (task.window > 0 && task.firstPosition + 1 > task.window) {
    range = (task.firstPosition + 1 - task.window) / kAttentionRange;
  }
  for (; range <= last; ++range) {
    attendRange(task, range, partials);
    for (int r = 0; r < rows; ++r) merge(states + r * stride, partials + r * stride, headDim);
  }
  for (int r = 0; r < task.rows; ++r) {
    for (int h = 0; h < task.heads; ++h) {
      finish(states + (r * task.heads + h) * stride, headDim, out + outStride * r + h * headDim);
    }
  }
}

}  // namespace VITRINE_CPU_NAMESPACE
}  // namespace vitrine::kernels::cpu

#include "gemm.h"

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "grid.h"

// Products as sums over k of two contiguous runs: operands are first laid out so, as floats (or,
// for INT8, 16-bit integers), padded with zeros to whole vectors. Tiles of 4 × 3 results are held
// in registers.

namespace cuda_on_cpu {
namespace {

constexpr int kTileM = 4, kTileN = 3;
constexpr int kPad = 16;      // elements
constexpr int kRowsOfA = 64;  // packed by one task

/// Sums of eight at a time.
struct FloatSum {
  using Packed = float;
  using Vector = __m256;
  static constexpr int kStep = 8;
  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector load(const float* p) { return _mm256_loadu_ps(p); }
  static Vector add(Vector sum, Vector a, Vector b) { return _mm256_fmadd_ps(a, b, sum); }
  static float total(Vector v) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
};
struct Int8Sum {
  using Packed = std::int16_t;
  using Vector = __m256i;
  static constexpr int kStep = 16;
  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector load(const std::int16_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Vector add(Vector sum, Vector a, Vector b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
  }
  static int total(Vector v) {
    int lanes[8];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), v);
    int sum = 0;
    for (const int lane : lanes) sum += lane;
    return sum;
  }
};

float element(const void* data, cudaDataType type, std::size_t i) {
  std::uint16_t bits = 0;
  switch (type) {
    case CUDA_R_32F:
      return static_cast<const float*>(data)[i];
    case CUDA_R_8I:
      return static_cast<const std::int8_t*>(data)[i];
    default:
      break;
  }
  std::memcpy(&bits, static_cast<const char*>(data) + 2 * i, sizeof bits);
  if (type == CUDA_R_16F) return _cvtsh_ss(bits);
  return cuda_on_cpu::bitCast<float>(std::uint32_t{bits} << 16);
}

/// One run of k elements: a row of A, or a column of B.
template <typename Packed>
void packRun(const GemmOperand& operand, bool isContiguous, int index, int k, Packed* out) {
  const auto stride = static_cast<std::size_t>(operand.stride);
  const std::size_t first = isContiguous ? index * stride : static_cast<std::size_t>(index);
  const std::size_t step = isContiguous ? 1 : stride;
  int i = 0;
  if constexpr (sizeof(Packed) == sizeof(float)) {
    if (isContiguous && operand.type == CUDA_R_16F) {
      const auto* halves = static_cast<const char*>(operand.data) + 2 * first;
      for (; i + 8 <= k; i += 8) {
        _mm256_storeu_ps(
            out + i,
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + 2 * i))));
      }
    }
  }
  for (; i < k; ++i) {
    out[i] = static_cast<Packed>(element(operand.data, operand.type, first + i * step));
  }
}

template <typename Sum>
void tile(const typename Sum::Packed* a, const typename Sum::Packed* b, int padded,
          typename Sum::Vector (&sums)[kTileN][kTileM]) {
  for (auto& column : sums) {
    for (auto& sum : column) sum = Sum::zero();
  }
  for (int p = 0; p < padded; p += Sum::kStep) {
    for (int i = 0; i < kTileM; ++i) {
      const auto value = Sum::load(a + static_cast<std::size_t>(i) * padded + p);
      for (int j = 0; j < kTileN; ++j) {
        sums[j][i] =
            Sum::add(sums[j][i], value, Sum::load(b + static_cast<std::size_t>(j) * padded + p));
      }
    }
  }
}

template <typename Sum, typename T>
void product(int m, int n, int k, T alpha, const GemmOperand& a, const GemmOperand& b, T beta, T* c,
             int cStride) {
  using Packed = typename Sum::Packed;
  const int padded = (k + kPad - 1) / kPad * kPad;
  const int tilesN = (n + kTileN - 1) / kTileN;
  std::vector<Packed> columns(static_cast<std::size_t>(tilesN) * kTileN * padded);
  parallelFor(tilesN, [&](int t) {
    for (int j = t * kTileN; j < std::min(n, (t + 1) * kTileN); ++j) {
      packRun(b, !b.isTransposed, j, k, columns.data() + static_cast<std::size_t>(j) * padded);
    }
  });
  parallelFor((m + kRowsOfA - 1) / kRowsOfA, [&](int part) {
    std::vector<Packed> rows(static_cast<std::size_t>(kRowsOfA) * padded);
    const int first = part * kRowsOfA, count = std::min(kRowsOfA, m - first);
    for (int i = 0; i < count; ++i) {
      packRun(a, a.isTransposed, first + i, k, rows.data() + static_cast<std::size_t>(i) * padded);
    }
    typename Sum::Vector sums[kTileN][kTileM];
    for (int t = 0; t < tilesN; ++t) {
      for (int i = 0; i < count; i += kTileM) {
        tile<Sum>(rows.data() + static_cast<std::size_t>(i) * padded,
                  columns.data() + static_cast<std::size_t>(t) * kTileN * padded, padded, sums);
        for (int y = 0; y < std::min(kTileN, n - t * kTileN); ++y) {
          for (int x = 0; x < std::min(kTileM, count - i); ++x) {
            T& out = c[static_cast<std::size_t>(t * kTileN + y) * cStride + first + i + x];
            const T sum = alpha * Sum::total(sums[y][x]);
            out = beta != T(0) ? sum + beta * out : sum;
          }
        }
      }
    }
  });
}

}  // namespace

void multiply(int m, int n, int k, float alpha, const GemmOperand& a, const GemmOperand& b,
              float beta, float* c, int cStride) {
  product<FloatSum>(m, n, k, alpha, a, b, beta, c, cStride);
}

void multiplyInt8(int m, int n, int k, int alpha, const GemmOperand& a, const GemmOperand& b,
                  int beta, int* c, int cStride) {
  product<Int8Sum>(m, n, k, alpha, a, b, beta, c, cStride);
}

}  // namespace cuda_on_cpu

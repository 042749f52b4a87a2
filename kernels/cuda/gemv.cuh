#pragma once

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gemv.h"
#include "kernels/cuda/int8.cuh"

// The matrix–vector kernel, for 1 to 8 rows:
//   plain  y[r, o] (+)= Σ_i x[r, i] · W[o, i]
//   gated  y[r, o] = act(Σ_i x[r, i] · W[o, i]) · Σ_i x[r, i] · W[width + o, i]
// weights [paddedOut, stride], x [rows, stride] as linear.h says; every row 16-byte aligned.
//
// One warp (or 2 or 4 warps of a block, each a segment of the row) computes two outputs of all
// rows: neighbours, or a gate with its up product. A step of a warp is kUnroll · 2 loads of 16
// bytes a lane, 512 consecutive bytes a warp each, all queued before the first is used: with 8
// loads 4 KB a warp, 64 KB a multiprocessor at 16 warps. Weights pass the caches as data used once,
// x stays in L1, where all warps of a multiprocessor find it; two outputs a warp halve that
// traffic. The lanes' sums are added in a tree that halves the number of values with each step.
//
// Moves out · stride · (bytes of a weight) + scales; x and y are small beside it: bandwidth bound.
// Instructions a weight at one row: FP16 3, W8A16 4, W8A8 0.6; an H200 at full bandwidth
// has room for 12 and 6 (INT8) instructions a weight, so from about 4 rows on W8A16 and from 8 rows
// on FP16 is bound by arithmetic there; an RTX 4090 has 5 times the room.
//
// A row's sum has one order whatever the number of rows: the same lanes, steps and trees; rows that
// are missing up to the template's count repeat the last one and are not stored.
// Source: the loads and the byte-permute conversion as many engines have them (FasterTransformer's
// 0x6400 trick, here with FP32's 2^23); reference: kernels::reference::linear*.

namespace vitrine::kernels::cuda {

/// The halving tree: after it lane l holds the sum over all lanes of value l / (32 / kValues).
/// Adds in the order of steps 16, 8, 4, 2, 1 whatever kValues is.
template <int kValues, typename T>
__device__ __forceinline__ T sumValues(T (&values)[kValues], int lane) {
  static_assert(kValues <= kWarp && (kValues & (kValues - 1)) == 0);
  int step = kWarp / 2;
#pragma unroll
  for (int n = kValues / 2; n > 0; n /= 2) {
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const T kept = upper ? values[n + i] : values[i];
      const T sent = upper ? values[i] : values[n + i];
      values[i] = kept + __shfl_xor_sync(kAllLanes, sent, step);
    }
    step /= 2;
  }
#pragma unroll
  for (int rest = kWarp / kValues / 2; rest > 0; rest /= 2) {
    values[0] += __shfl_xor_sync(kAllLanes, values[0], rest);
  }
  return values[0];
}

/// FP16 or BF16 weights and rows.
template <bool kBf16>
struct FloatProduct {
  using Sum = float;
  static constexpr int kXLoads = 1;         ///< 16-byte loads of x a weight chunk
  static constexpr int kGroupChunks = 0;    ///< chunks that share a scale; 0: the row does, or none
  static constexpr bool kXScales = false;   ///< x has scales
  static constexpr bool kRowScale = false;  ///< a weight row has one scale

  float w[kGemvOutputs][8];

  __device__ __forceinline__ void setWeights(const uint4 (&chunk)[kGemvOutputs]) {
#pragma unroll
    for (int j = 0; j < kGemvOutputs; ++j) unpack(chunk[j], w[j]);
  }
  __device__ __forceinline__ void add(const uint4 (&x)[kXLoads], const float (&)[kGemvOutputs],
                                      float, Sum* sums) const {
    float v[8];
    unpack(x[0], v);
#pragma unroll
    for (int j = 0; j < kGemvOutputs; ++j) {
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[j] = fmaf(v[i], w[j][i], sums[j]);
    }
  }

 private:
  __device__ __forceinline__ static void unpack(const uint4& chunk, float (&values)[8]) {
    if constexpr (kBf16) {
      unpackBf16(chunk, values);
    } else {
      unpackHalves(chunk, values);
    }
  }
};

/// INT8 weights, FP16 rows. kChunks: 16-byte chunks that share a scale, 0 for a scale a row.
template <int kChunks>
struct W8A16Product {
  using Sum = float;
  static constexpr int kXLoads = 2;
  static constexpr int kGroupChunks = kChunks;
  static constexpr bool kXScales = false;
  static constexpr bool kRowScale = kChunks == 0;

  float w[kGemvOutputs][16];

  __device__ __forceinline__ void setWeights(const uint4 (&chunk)[kGemvOutputs]) {
#pragma unroll
    for (int j = 0; j < kGemvOutputs; ++j) unpackInt8Fast(chunk[j], w[j]);
  }
  __device__ __forceinline__ void add(const uint4 (&x)[kXLoads],
                                      const float (&weightScale)[kGemvOutputs], float,
                                      Sum* sums) const {
    float products[kGemvOutputs];
#pragma unroll
    for (int j = 0; j < kGemvOutputs; ++j) products[j] = kRowScale ? sums[j] : 0.0F;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float v[8];
      unpackHalves(x[half], v);
#pragma unroll
      for (int j = 0; j < kGemvOutputs; ++j) {
#pragma unroll
        for (int i = 0; i < 8; ++i) products[j] = fmaf(v[i], w[j][8 * half + i], products[j]);
      }
    }
#pragma unroll
    for (int j = 0; j < kGemvOutputs; ++j) {
      sums[j] = kRowScale ? products[j] : fmaf(weightScale[j], products[j], sums[j]);
    }
  }
};

/// INT8 weights and rows. In groups: integer sums of a chunk, scaled once. A scale a row: one
/// integer sum over everything.
template <int kChunks>
struct W8A8Product {
  static constexpr bool kRowScale = kChunks == 0;
  using Sum = std::conditional_t<kRowScale, int, float>;
  static constexpr int kXLoads = 1;
  static constexpr int kGroupChunks = kChunks;
  static constexpr bool kXScales = true;

  uint4 w[kGemvOutputs];

  __device__ __forceinline__ void setWeights(const uint4 (&chunk)[kGemvOutputs]) {
#pragma unroll
    for (int j = 0; j < kGemvOutputs; ++j) w[j] = chunk[j];
  }
  __device__ __forceinline__ void add(const uint4 (&x)[kXLoads],
                                      const float (&weightScale)[kGemvOutputs], float xScale,
                                      Sum* sums) const {
#pragma unroll
    for (int j = 0; j < kGemvOutputs; ++j) {
      if constexpr (kRowScale) {
        sums[j] = dotInt8(w[j], x[0], sums[j]);
      } else {
        // |sum| ≤ 16 · 127² < 2^22: in FP32's integers, so that no conversion is needed.
        const int bits = dotInt8(w[j], x[0], static_cast<int>(kIntegerBits));
        const float products = __int_as_float(bits) - kIntegerValue;
        sums[j] = fmaf(products, weightScale[j] * xScale, sums[j]);
      }
    }
  }
};

/// Where a lane reads: its chunk of both weight rows, and of every row of x.
template <typename Product, int kRows>
struct GemvCursor {
  const uint4* weights[kGemvOutputs];
  const __half* weightScales[kGemvOutputs];
  const uint4* x[kRows];
  const float* xScales[kRows];

  __device__ __forceinline__ void advance(int chunks) {
#pragma unroll
    for (int j = 0; j < kGemvOutputs; ++j) {
      weights[j] += chunks;
      if constexpr (Product::kGroupChunks > 0) weightScales[j] += chunks / Product::kGroupChunks;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      x[r] += chunks * Product::kXLoads;
      if constexpr (Product::kGroupChunks > 0 && Product::kXScales) {
        xScales[r] += chunks / Product::kGroupChunks;
      }
    }
  }
};

/// Keeps the loads above from sinking to their uses below: ptxas saves registers that way and
/// leaves two loads in flight instead of eight. Costs an instruction; means nothing.
__device__ __forceinline__ void keepLoadsAbove() {
#ifdef __CUDA_ARCH__
  __syncwarp();
#endif
}

template <int kLoads>
__device__ __forceinline__ void loadX(const uint4* from, uint4 (&x)[kLoads]) {
#pragma unroll
  for (int i = 0; i < kLoads; ++i) x[i] = __ldg(from + i);
}

/// kUnroll chunks of a lane, 32 apart. Not kWhole: those with u · 32 < left; the others count as
/// zeros, so that no branch keeps the loads of one chunk behind the arithmetic of another.
template <typename Product, int kRows, int kUnroll, bool kWhole>
__device__ __forceinline__ void gemvStep(const GemvCursor<Product, kRows>& at, int left,
                                         typename Product::Sum (&sums)[kRows * kGemvOutputs]) {
  constexpr int kGroup = Product::kGroupChunks;
  constexpr bool kGrouped = kGroup > 0;
  constexpr int kXLoads = Product::kXLoads;
  // Few rows: x too is on its way before anything is used.
  constexpr bool kXFirst = kRows * kUnroll * kXLoads <= 8;
  uint4 chunk[kUnroll][kGemvOutputs] = {};
  __half scale[kUnroll][kGemvOutputs];
  uint4 xFirst[kXFirst ? kUnroll : 1][kXFirst ? kRows : 1][kXLoads] = {};
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const bool there = kWhole || u * kWarp < left;
#pragma unroll
    for (int j = 0; j < kGemvOutputs; ++j) {
      if (there) chunk[u][j] = __ldcs(at.weights[j] + u * kWarp);
      if constexpr (kGrouped) {
        scale[u][j] = there ? __ldg(at.weightScales[j] + u * (kWarp / kGroup)) : __half{};
      }
    }
    if constexpr (kXFirst) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (there) loadX<kXLoads>(at.x[r] + u * kWarp * kXLoads, xFirst[u][r]);
      }
    }
  }
  keepLoadsAbove();
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const bool there = kWhole || u * kWarp < left;
    Product product;
    product.setWeights(chunk[u]);
    float weightScale[kGemvOutputs] = {};
    if constexpr (kGrouped) {
#pragma unroll
      for (int j = 0; j < kGemvOutputs; ++j) weightScale[j] = __half2float(scale[u][j]);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float xScale = 0.0F;
      if constexpr (kGrouped && Product::kXScales) {
        if (there) xScale = __ldg(at.xScales[r] + u * (kWarp / kGroup));
      }
      if constexpr (kXFirst) {
        product.add(xFirst[u][r], weightScale, xScale, sums + r * kGemvOutputs);
      } else {
        uint4 x[kXLoads] = {};
        if (there) loadX<kXLoads>(at.x[r] + u * kWarp * kXLoads, x);
        product.add(x, weightScale, xScale, sums + r * kGemvOutputs);
      }
    }
  }
}

__device__ __forceinline__ void storeGated(const GemvArgs& a, int row, int column, float value) {
  const std::size_t at = static_cast<std::size_t>(row) * a.yStride + column;
  if (a.yType == RowType::kFp32) {
    static_cast<float*>(a.y)[at] = value;
  } else {
    static_cast<std::uint16_t*>(a.y)[at] =
        a.yType == RowType::kFp16 ? toHalfBits(value) : toBf16Bits(value);
  }
}

template <typename Product, int kRows, bool kGated>
__global__ void __launch_bounds__(kGemvWarps* kWarp) gemvKernel(GemvArgs a) {
  using Sum = typename Product::Sum;
  constexpr int kValues = kRows * kGemvOutputs;
  constexpr int kUnroll = kRows <= 4 ? 4 : 2;
  constexpr int kStep = kUnroll * kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int share = warp & ((1 << a.splitShift) - 1);
  const int pair = (static_cast<int>(blockIdx.x) * kGemvWarps + warp) >> a.splitShift;
  const int pairs = kGated ? a.columns : (a.outputs + 1) / kGemvOutputs;
  const bool valid = pair < (kGated ? a.outputs : pairs);
  const int first = kGated ? pair : pair * kGemvOutputs;
  const int second = kGated ? a.outputs + pair : first + 1;

  Sum sums[kValues] = {};
  if (valid) {
    const int begin = share * a.segment;
    const int end = begin + a.segment < a.chunks ? begin + a.segment : a.chunks;
    const int output[kGemvOutputs] = {first, second};
    GemvCursor<Product, kRows> at;
#pragma unroll
    for (int j = 0; j < kGemvOutputs; ++j) {
      at.weights[j] = static_cast<const uint4*>(a.weights) +
                      static_cast<std::size_t>(output[j]) * a.chunks + begin + lane;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = r < a.rows ? r : a.rows - 1;
      at.x[r] = static_cast<const uint4*>(a.x) +
                (static_cast<std::size_t>(row) * a.chunks + begin + lane) * Product::kXLoads;
    }
    if constexpr (Product::kGroupChunks > 0) {
      const int group = (begin + lane) / Product::kGroupChunks;
#pragma unroll
      for (int j = 0; j < kGemvOutputs; ++j) {
        at.weightScales[j] = static_cast<const __half*>(a.weightScales) +
                             static_cast<std::size_t>(output[j]) * a.groups + group;
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int row = r < a.rows ? r : a.rows - 1;
        at.xScales[r] = Product::kXScales
                            ? a.xScales + static_cast<std::size_t>(row) * a.groups + group
                            : nullptr;
      }
    }
    int next = begin;
    for (; next + kStep <= end; next += kStep) {
      gemvStep<Product, kRows, kUnroll, true>(at, 0, sums);
      at.advance(kStep);
    }
    if (next < end) {
      gemvStep<Product, kRows, kUnroll, false>(at, end - next - lane, sums);
    }
  }

  Sum sum = sumValues(sums, lane);
  constexpr int kValueLanes = kWarp / kValues;
  const int value = lane / kValueLanes;
  if (a.splitShift > 0) {
    __shared__ Sum parts[kGemvWarps][kValues];
    if (lane % kValueLanes == 0) parts[warp][value] = sum;
    __syncthreads();
    if (share != 0) return;
    for (int s = 1; s < 1 << a.splitShift; ++s) sum += parts[warp + s][value];
  }

  const int row = value / kGemvOutputs;
  const int mine = value % kGemvOutputs == 0 ? first : second;
  float result = 0.0F;
  if (valid && row < a.rows) {
    result = static_cast<float>(sum);
    if constexpr (Product::kRowScale) {
      const float weightScale =
          __half2float(__ldg(static_cast<const __half*>(a.weightScales) + mine));
      result *= Product::kXScales ? __ldg(a.xScales + row) * weightScale : weightScale;
    }
    result *= a.outputScale;
  }
  if constexpr (kGated) {
    const float up = __shfl_down_sync(kAllLanes, result, kValueLanes);
    if (lane % (2 * kValueLanes) == 0 && row < a.rows && pair < a.columns) {
      storeGated(a, row, pair, valid ? (a.gelu ? gelu(result) : silu(result)) * up : 0.0F);
    }
  } else {
    if (lane % kValueLanes == 0 && row < a.rows && mine < a.outputs) {
      float* y = static_cast<float*>(a.y) + static_cast<std::size_t>(row) * a.yStride + mine;
      *y = a.accumulate ? *y + result : result;
    }
  }
}

template <typename Product, bool kGated>
void launchGemv(cudaStream_t stream, const GemvArgs& args) {
  const int pairs = kGated ? args.columns : ceilDiv(args.outputs, kGemvOutputs);
  Launch where;
  where.stream = stream;
  where.grid = dim3(static_cast<unsigned>(ceilDiv(pairs << args.splitShift, kGemvWarps)));
  where.block = dim3(kGemvWarps * kWarp);
  if (args.rows == 1) {
    launchKernel("matrix-vector product", gemvKernel<Product, 1, kGated>, where, args);
  } else if (args.rows == 2) {
    launchKernel("matrix-vector product", gemvKernel<Product, 2, kGated>, where, args);
  } else if (args.rows <= 4) {
    launchKernel("matrix-vector product", gemvKernel<Product, 4, kGated>, where, args);
  } else {
    launchKernel("matrix-vector product", gemvKernel<Product, 8, kGated>, where, args);
  }
}

/// The kernel for INT8 weights in groups of `groupSize`.
template <template <int> typename Product>
void launchInGroups(cudaStream_t stream, int groupSize, bool gated, const GemvArgs& args) {
  const auto launch = [&]<int kChunks>(std::integral_constant<int, kChunks>) {
    gated ? launchGemv<Product<kChunks>, true>(stream, args)
          : launchGemv<Product<kChunks>, false>(stream, args);
  };
  switch (groupSize) {
    case 32:
      return launch(std::integral_constant<int, 2>());
    case 64:
      return launch(std::integral_constant<int, 4>());
    case 128:
      return launch(std::integral_constant<int, 8>());
    default:
      return launch(std::integral_constant<int, 0>());
  }
}

}  // namespace vitrine::kernels::cuda

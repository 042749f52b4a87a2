#include "kernels/cuda/gemm_int8.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/int8.cuh"

namespace vitrine::kernels::cuda {
namespace {

// to[o, i] = FP16(scales[o, i / group] · q[o, i])
// q [outputs, chunks] of 16 bytes, scales FP16 [outputs, groups], to [outputs, chunks · 2] of 16
// one thread a chunk, 256 threads a block
// moves 3 bytes a weight, of which the two written stay in L2 for cuBLAS: bandwidth bound
__global__ void __launch_bounds__(256)
    widenWeightsKernel(const uint4* q, const __half* scales, uint4* to, int chunks, int groups,
                       int groupChunks, int total) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= total) return;
  const int row = i / chunks;
  const int group = (i - row * chunks) / groupChunks;
  const uint4 chunk = __ldcs(q + i);
  const float scale = __half2float(__ldg(scales + static_cast<std::size_t>(row) * groups + group));
  float values[16];
  unpackInt8Fast(chunk, values);
  unsigned words[8];
#pragma unroll
  for (int w = 0; w < 8; ++w) {
    words[w] = packHalves(values[2 * w] * scale, values[2 * w + 1] * scale);
  }
  to[2 * static_cast<std::size_t>(i)] = make_uint4(words[0], words[1], words[2], words[3]);
  to[2 * static_cast<std::size_t>(i) + 1] = make_uint4(words[4], words[5], words[6], words[7]);
}

struct ScaleSumsArgs {
  const std::int32_t* sums;  // [rows, sumStride], a multiple of 4
  const float* xScales;      // [rows]
  const __half* scales;      // [outputs]
  float* y;                  // [rows, yStride]
  float outputScale;
  int sumStride, yStride, outputs;
  bool accumulate;
};

// y[r, o] (+)= outputScale · sx[r] · s[o] · sums[r, o]
// grid (outputs / 1024, rows), four outputs a thread, 256 threads
// moves 8 bytes an output (12 where it accumulates), the sums out of L2: bandwidth bound
__global__ void __launch_bounds__(256) scaleSumsKernel(ScaleSumsArgs a) {
  const int first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * 4;
  const int row = static_cast<int>(blockIdx.y);
  if (first >= a.outputs) return;
  const int4 sums = __ldcs(
      reinterpret_cast<const int4*>(a.sums + static_cast<std::size_t>(row) * a.sumStride + first));
  const int sum[4] = {sums.x, sums.y, sums.z, sums.w};
  const float xScale = __ldg(a.xScales + row);
  float* y = a.y + static_cast<std::size_t>(row) * a.yStride + first;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (first + i < a.outputs) {
      // As gemvKernel() does it, to the bit.
      const float scale = xScale * __half2float(__ldg(a.scales + first + i));
      const float value = static_cast<float>(sum[i]) * scale * a.outputScale;
      y[i] = a.accumulate ? y[i] + value : value;
    }
  }
}

// A tile of y: kTileRows rows of x by kTileOutputs rows of weights, kTileBytes values a step.
constexpr int kTileRows = 64;
constexpr int kTileOutputs = 64;
constexpr int kTileBytes = 64;
constexpr int kTileThreads = 128;
/// Bytes from a row of a tile to the next: with 16 more than it holds, eight rows' 16-byte reads
/// touch each of the 32 banks once.
constexpr int kTilePitch = kTileBytes + 16;
constexpr int kThreadRows = 4;
constexpr int kThreadOutputs = 8;

/// One of the two stages in shared memory.
struct Int8Stage {
  unsigned char x[kTileRows * kTilePitch];
  unsigned char w[kTileOutputs * kTilePitch];
  float xScales[kTileRows * 2];     // [rows, groups of a step]
  float wScales[kTileOutputs * 2];  // [outputs, groups of a step]
};

struct GroupedInt8Args {
  const uint4* x;        // [rows, chunks] of 16 bytes
  const float* xScales;  // [rows, groups]
  const uint4* w;        // [outputs, chunks] of 16 bytes
  const __half* wScales;
  float* y;  // [rows, yStride]
  float outputScale;
  int rows, outputs, chunks, groups, yStride;
  int groupShift;  ///< 1 << groupShift steps share a scale
  bool accumulate;
};

/// What a thread carries from global memory into a stage: two chunks of each tile, a scale of each.
struct Int8Load {
  uint4 x[2], w[2];
  float xScale = 0.0F, wScale = 0.0F;
};

template <int kGroups>
__device__ __forceinline__ void loadStep(const GroupedInt8Args& a, int firstRow, int firstOutput,
                                         int step, Int8Load& load) {
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int id = thread + i * kTileThreads;
    const int row = min(firstRow + id / 4, a.rows - 1);
    const int output = min(firstOutput + id / 4, a.outputs - 1);
    const int chunk = step * (kTileBytes / 16) + id % 4;
    load.x[i] = __ldg(a.x + static_cast<std::size_t>(row) * a.chunks + chunk);
    load.w[i] = __ldg(a.w + static_cast<std::size_t>(output) * a.chunks + chunk);
  }
  if (thread < kTileRows * kGroups) {
    const int row = min(firstRow + thread / kGroups, a.rows - 1);
    const int output = min(firstOutput + thread / kGroups, a.outputs - 1);
    const int group = (step >> a.groupShift) * kGroups + thread % kGroups;
    load.xScale = __ldg(a.xScales + static_cast<std::size_t>(row) * a.groups + group);
    load.wScale =
        __half2float(__ldg(a.wScales + static_cast<std::size_t>(output) * a.groups + group));
  }
}

template <int kGroups>
__device__ __forceinline__ void storeStep(const Int8Load& load, Int8Stage& stage) {
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int id = thread + i * kTileThreads;
    const int at = id / 4 * kTilePitch + id % 4 * 16;
    *reinterpret_cast<uint4*>(stage.x + at) = load.x[i];
    *reinterpret_cast<uint4*>(stage.w + at) = load.w[i];
  }
  if (thread < kTileRows * kGroups) {
    stage.xScales[thread] = load.xScale;
    stage.wScales[thread] = load.wScale;
  }
}

/// The products of one step: integer sums of a group, each scaled once.
template <int kGroups>
__device__ __forceinline__ void multiplyStep(const Int8Stage& stage, int row, int output,
                                             float (&sums)[kThreadRows][kThreadOutputs]) {
  constexpr int kChunks = kTileBytes / 16 / kGroups;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    // |sum| ≤ 64 · 127² < 2^22: in FP32's integers, so that no conversion is needed.
    int products[kThreadRows][kThreadOutputs];
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
      for (int j = 0; j < kThreadOutputs; ++j) products[i][j] = static_cast<int>(kIntegerBits);
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int at = (g * kChunks + c) * 16;
      uint4 x[kThreadRows];
#pragma unroll
      for (int i = 0; i < kThreadRows; ++i) {
        x[i] = *reinterpret_cast<const uint4*>(stage.x + (row + 8 * i) * kTilePitch + at);
      }
#pragma unroll
      for (int j = 0; j < kThreadOutputs; ++j) {
        const uint4 w =
            *reinterpret_cast<const uint4*>(stage.w + (output + 4 * j) * kTilePitch + at);
#pragma unroll
        for (int i = 0; i < kThreadRows; ++i) products[i][j] = dotInt8(w, x[i], products[i][j]);
      }
    }
    float xScale[kThreadRows];
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) xScale[i] = stage.xScales[(row + 8 * i) * kGroups + g];
#pragma unroll
    for (int j = 0; j < kThreadOutputs; ++j) {
      const float wScale = stage.wScales[(output + 4 * j) * kGroups + g];
#pragma unroll
      for (int i = 0; i < kThreadRows; ++i) {
        const float value = __int_as_float(products[i][j]) - kIntegerValue;
        sums[i][j] = fmaf(value, wScale * xScale[i], sums[i][j]);
      }
    }
  }
}

// y[r, o] (+)= outputScale · Σ_g sx[r, g] · s[o, g] · Σ_{i in g} qx[r, i] · q[o, i]
// grid (outputs / 64, rows / 64), 128 threads: four warps of 32 × 32, a thread 4 rows × 8 outputs.
// Two stages of 64 columns in shared memory: while one is multiplied the next is on its way.
// Bound by __dp4a: 64 a clock and multiprocessor, 8 operations each, are 134 TOPS on an H200 and
// 165 on an RTX 4090; expected on paper two thirds of that (groups of 32 add three FP32
// instructions to every 8 dp4a, on a pipe of their own). For each 128 dp4a a thread reads 12 × 16
// bytes of shared memory, most of them shared by a warp's lanes. With 168 registers three blocks
// fit; at 128 it spills. Groups of 128 are two steps with the same scale.
//
// source: the usual register-tiled product; reference: kernels::reference::linearInt8Activations
template <int kGroups>
__global__ void __launch_bounds__(kTileThreads) groupedInt8Kernel(GroupedInt8Args a) {
  VITRINE_DYNAMIC_SHARED(Int8Stage, stages);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int firstRow = static_cast<int>(blockIdx.y) * kTileRows;
  const int firstOutput = static_cast<int>(blockIdx.x) * kTileOutputs;
  const int row = warp / 2 * 32 + lane % 8;     // and 8, 16, 24 further
  const int output = warp % 2 * 32 + lane / 8;  // and 4, 8 … 28 further
  const int steps = a.chunks / (kTileBytes / 16);

  float sums[kThreadRows][kThreadOutputs] = {};
  Int8Load load;
  loadStep<kGroups>(a, firstRow, firstOutput, 0, load);
  storeStep<kGroups>(load, stages[0]);
  __syncthreads();
  for (int step = 0; step < steps; ++step) {
    const bool more = step + 1 < steps;
    if (more) loadStep<kGroups>(a, firstRow, firstOutput, step + 1, load);
    multiplyStep<kGroups>(stages[step % 2], row, output, sums);
    // The other stage was read before the last barrier.
    if (more) storeStep<kGroups>(load, stages[(step + 1) % 2]);
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < kThreadRows; ++i) {
    const int r = firstRow + row + 8 * i;
    if (r >= a.rows) continue;
#pragma unroll
    for (int j = 0; j < kThreadOutputs; ++j) {
      const int o = firstOutput + output + 4 * j;
      if (o >= a.outputs) continue;
      float* y = a.y + static_cast<std::size_t>(r) * a.yStride + o;
      const float value = sums[i][j] * a.outputScale;
      *y = a.accumulate ? *y + value : value;
    }
  }
}

}  // namespace

void widenWeights(cudaStream_t stream, const Matrix& weights, int firstOutput, int outputs,
                  void* to) {
  const int chunks = weights.stride / 16;
  const int total = outputs * chunks;
  Launch where;
  where.stream = stream;
  where.grid = dim3(static_cast<unsigned>(ceilDiv(total, 256)));
  where.block = dim3(256);
  launchKernel(
      "widening INT8 weights", widenWeightsKernel, where,
      static_cast<const uint4*>(weights.values) + static_cast<std::size_t>(firstOutput) * chunks,
      static_cast<const __half*>(weights.scales) +
          static_cast<std::size_t>(firstOutput) * weights.groups(),
      static_cast<uint4*>(to), chunks, weights.groups(),
      weights.groupSize == kWholeRow ? chunks : weights.groupSize / 16, total);
}

void scaleSums(cudaStream_t stream, const LinearParams& params, int firstOutput, int outputs,
               const std::int32_t* sums, int sumStride) {
  ScaleSumsArgs args;
  args.sums = sums;
  args.xScales = params.x.scales;
  args.scales = static_cast<const __half*>(params.weights.scales) + firstOutput;
  args.y = params.y + firstOutput;
  args.outputScale = params.weights.outputScale;
  args.sumStride = sumStride;
  args.yStride = params.yStride;
  args.outputs = outputs;
  args.accumulate = params.accumulate;
  Launch where;
  where.stream = stream;
  where.grid =
      dim3(static_cast<unsigned>(ceilDiv(outputs, 4 * 256)), static_cast<unsigned>(params.rows));
  where.block = dim3(256);
  launchKernel("scaling INT8 products", scaleSumsKernel, where, args);
}

void groupedInt8Product(cudaStream_t stream, const LinearParams& params) {
  const Matrix& weights = params.weights;
  GroupedInt8Args args;
  args.x = static_cast<const uint4*>(params.x.values);
  args.xScales = params.x.scales;
  args.w = static_cast<const uint4*>(weights.values);
  args.wScales = static_cast<const __half*>(weights.scales);
  args.y = params.y;
  args.outputScale = weights.outputScale;
  args.rows = params.rows;
  args.outputs = weights.out;
  args.chunks = weights.stride / 16;
  args.groups = weights.groups();
  args.yStride = params.yStride;
  args.groupShift = weights.groupSize == 128 ? 1 : 0;
  args.accumulate = params.accumulate;
  Launch where;
  where.stream = stream;
  where.grid = dim3(static_cast<unsigned>(ceilDiv(weights.out, kTileOutputs)),
                    static_cast<unsigned>(ceilDiv(params.rows, kTileRows)));
  where.block = dim3(kTileThreads);
  where.sharedBytes = 2 * sizeof(Int8Stage);
  if (weights.groupSize == 32) {
    launchKernel("INT8 product in groups", groupedInt8Kernel<2>, where, args);
  } else {
    launchKernel("INT8 product in groups", groupedInt8Kernel<1>, where, args);
  }
}

}  // namespace vitrine::kernels::cuda

#include "kernels/cuda/rows.h"
#include "kernels/cuda/rows_store.cuh"

namespace vitrine::kernels::cuda {
namespace {

/// What waits in shared memory, times one factor (which may be NaN; the padding is zeros still).
struct Scaled {
  const float4* products;
  float factor;
  int width;
  __device__ __forceinline__ float at(int column, float product) const {
    return column < width ? product * factor : 0.0F;
  }
  __device__ __forceinline__ float4 operator()(int column) const {
    const float4 p = products[column / 4];
    return {at(column, p.x), at(column + 1, p.y), at(column + 2, p.z), at(column + 3, p.w)};
  }
};

// y[r,:] = x[index[r],:] · w / sqrt(mean(x[index[r],:]²) + eps), in the form of y
// x [·, dim] FP32; w [dim] FP32; y [rows, stride] of the store's type, zeros from dim on
// one block a row; the products x · w wait in dynamic shared memory (4 · stride bytes), so that the
// weights come from memory while the sum is still being made; a thread reads back its own products
// moves rows · (4 · dim + bytes of y) + 4 · dim bytes: at one row a matter of latency
// source: Zhang & Sennrich 2019 (RMSNorm); reference: kernels::reference::rmsNorm; rel 1e-5
template <Store kStore, int kThreads>
__global__ void __launch_bounds__(kThreads) rmsNormKernel(RmsNormParams p) {
  VITRINE_DYNAMIC_SHARED(float4, products);
  __shared__ float sums[kThreads / kWarp];
  __shared__ unsigned largest[kThreads / kWarp];
  const int row = blockIdx.x;
  const int from = p.rowIndex != nullptr ? p.rowIndex[row] : row;
  const float* x = p.x + static_cast<std::size_t>(max(from, 0)) * p.dim;
  const bool wide = p.dim % 4 == 0;
  float sum = 0.0F;
  for (int quad = threadIdx.x; quad < p.y.stride / 4; quad += kThreads) {
    float4 v = loadFour(x, 4 * quad, p.dim, wide);
    const float4 w = loadFour(p.weight, 4 * quad, p.dim, true);
    if (from < 0) v = {0.0F, 0.0F, 0.0F, 0.0F};
    sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    products[quad] = {v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w};
  }
  const float mean = blockSum<kThreads>(sum, sums) / static_cast<float>(p.dim);
  const Scaled source = {products, rsqrtf(mean + p.eps), p.dim};
  writeRow<kStore, kThreads>(p.y, row, source, largest);
}

template <int kThreads>
void launchRmsNorm(cudaStream_t stream, const RmsNormParams& p) {
  const Launch where = {stream, p.rows, kThreads, static_cast<std::size_t>(p.y.stride) * 4};
  withStore(p.y, [&](auto store) {
    launchKernel("rmsNorm", rmsNormKernel<store.value, kThreads>, where, p);
  });
}

}  // namespace

void rmsNorm(cudaStream_t stream, const RmsNormParams& p) {
  requireRows(p.y, p.dim);
  require(isAligned(p.x, 16) && isAligned(p.weight, 16), "rmsNorm: inputs not 16-byte aligned");
  require(p.y.stride <= 16384, "rmsNorm: rows of more than 16384 columns");
  if (p.rows == 0) return;
  // By the width alone, so that a row's sum does not depend on the number of rows.
  if (p.y.stride <= 1024) {
    launchRmsNorm<128>(stream, p);
  } else {
    launchRmsNorm<512>(stream, p);
  }
}

}  // namespace vitrine::kernels::cuda

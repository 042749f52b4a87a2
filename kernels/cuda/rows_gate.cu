#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/rows_store.cuh"

namespace vitrine::kernels::cuda {
namespace {

constexpr int kThreads = 256;

struct Plain {
  const float* row;
  int width;
  bool wide;
  __device__ __forceinline__ float4 operator()(int column) const {
    return loadFour(row, column, width, wide);
  }
};

template <bool kGelu>
struct Gated {
  const float* gates;
  const float* ups;
  int width;
  bool wide;
  __device__ __forceinline__ float4 operator()(int column) const {
    const float4 g = loadFour(gates, column, width, wide);
    const float4 u = loadFour(ups, column, width, wide);
    return {gated<kGelu>(g.x, u.x), gated<kGelu>(g.y, u.y), gated<kGelu>(g.z, u.z),
            gated<kGelu>(g.w, u.w)};
  }
};

// y[r,:] = x[r, 0 … width − 1] in the form of y, zeros from width on
// x [rows, xStride] FP32; y [rows, stride]
// blocks (row, share of the columns); one share where a row has one scale
// moves rows · (4 · width + bytes of y): bandwidth bound
// source: kernels/api/quantize.h, half.h; exact
template <Store kStore>
__global__ void __launch_bounds__(kThreads)
    convertRowsKernel(const float* x, int xStride, int width, Rows y) {
  __shared__ unsigned largest[kThreads / kWarp];
  const float* row = x + static_cast<std::size_t>(blockIdx.x) * xStride;
  writeRow<kStore, kThreads>(y, blockIdx.x, Plain{row, width, xStride % 4 == 0}, largest);
}

// y[r, i] = act(gateUp[r, i]) · gateUp[r, width + i], in the form of y, zeros from width on
// gateUp [rows, 2 · width] FP32; y [rows, stride]
// blocks (row, share of the columns); one share where a row has one scale
// moves rows · (8 · width + bytes of y): bandwidth bound
// source: Shazeer 2020; reference: kernels::reference::swiglu, geglu; abs 1e-6 + rel 1e-5
template <Store kStore, bool kGelu>
__global__ void __launch_bounds__(kThreads) gateKernel(GateParams p) {
  __shared__ unsigned largest[kThreads / kWarp];
  const float* gates = p.gateUp + static_cast<std::size_t>(blockIdx.x) * 2 * p.width;
  const Gated<kGelu> source = {gates, gates + p.width, p.width, p.width % 4 == 0};
  writeRow<kStore, kThreads>(p.y, blockIdx.x, source, largest);
}

Launch whereFor(cudaStream_t stream, int rows, const Rows& y) {
  const auto shares = static_cast<unsigned>(needsWholeRow(y) ? 1 : ceilDiv(y.stride, 4 * kThreads));
  return {stream, dim3(rows, shares), kThreads};
}

}  // namespace

void convertRows(cudaStream_t stream, const float* x, int xStride, int width, int rows,
                 const Rows& y) {
  requireRows(y, width);
  require(isAligned(x, 16) && width <= xStride, "convertRows: input not aligned or too narrow");
  if (rows == 0) return;
  withStore(y, [&](auto store) {
    launchKernel("convertRows", convertRowsKernel<store.value>, whereFor(stream, rows, y), x,
                 xStride, width, y);
  });
}

void gate(cudaStream_t stream, const GateParams& p) {
  requireRows(p.y, p.width);
  require(isAligned(p.gateUp, 16), "gate: input not 16-byte aligned");
  if (p.rows == 0) return;
  withStore(p.y, [&](auto store) {
    const auto kernel = p.gelu ? gateKernel<store.value, true> : gateKernel<store.value, false>;
    launchKernel("gate", kernel, whereFor(stream, p.rows, p.y), p);
  });
}

}  // namespace vitrine::kernels::cuda

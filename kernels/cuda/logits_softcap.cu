#include "kernels/cuda/device.cuh"
#include "kernels/cuda/logits.h"

namespace vitrine::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// x[i] = cap · tanh(x[i] / cap), in place
// x [n] FP32; a thread four values, the last quad one by one
// moves 8 · n bytes: bandwidth bound
// reference: kernels::reference::softcap; rel 1e-6
__global__ void __launch_bounds__(kThreads) softcapKernel(float* x, std::size_t n, float cap) {
  const std::size_t first = (static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x) * 4;
  if (first + 4 <= n) {
    float4 v = *reinterpret_cast<const float4*>(x + first);
    v = {cap * tanhf(v.x / cap), cap * tanhf(v.y / cap), cap * tanhf(v.z / cap),
         cap * tanhf(v.w / cap)};
    *reinterpret_cast<float4*>(x + first) = v;
    return;
  }
  for (std::size_t i = first; i < n; ++i) x[i] = cap * tanhf(x[i] / cap);
}

}  // namespace

void softcap(cudaStream_t stream, float* logits, std::size_t n, float cap) {
  require(isAligned(logits, 16), "softcap: logits not 16-byte aligned");
  require(cap > 0.0F, "softcap: a cap that is not positive");
  if (n == 0) return;
  constexpr std::size_t kPerBlock = 4 * kThreads;
  const Launch where = {stream, static_cast<unsigned>((n + kPerBlock - 1) / kPerBlock), kThreads};
  launchKernel("softcap", softcapKernel, where, logits, n, cap);
}

}  // namespace vitrine::kernels::cuda

#pragma once

#include <cstddef>
#include <cstdint>

// The words that CUDA adds to C++, and its small vectors.

/// A source that must know that it is compiled for the CPU asks for this.
#define VITRINE_CUDA_ON_CPU 1

#define __global__
#define __device__
#define __host__
#define __constant__
/// One block at a time runs on a host thread, so what is local to the thread is shared by a block.
#define __shared__ thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1)
      : x(width), y(height), z(depth) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

#define CUDA_ON_CPU_VECTORS(Element, Name)                                    \
  struct alignas(2 * sizeof(Element)) Name##2 {                               \
    Element x, y;                                                             \
  };                                                                          \
  struct Name##3 {                                                            \
    Element x, y, z;                                                          \
  };                                                                          \
  struct alignas(sizeof(Element) < 4 ? 4 * sizeof(Element) : 16) Name##4 {    \
    Element x, y, z, w;                                                       \
  };                                                                          \
  inline Name##2 make_##Name##2(Element x, Element y) {                       \
    return {x, y};                                                            \
  }                                                                           \
  inline Name##3 make_##Name##3(Element x, Element y, Element z) {            \
    return {x, y, z};                                                         \
  }                                                                           \
  inline Name##4 make_##Name##4(Element x, Element y, Element z, Element w) { \
    return {x, y, z, w};                                                      \
  }

CUDA_ON_CPU_VECTORS(signed char, char)
CUDA_ON_CPU_VECTORS(unsigned char, uchar)
CUDA_ON_CPU_VECTORS(short, short)
CUDA_ON_CPU_VECTORS(unsigned short, ushort)
CUDA_ON_CPU_VECTORS(int, int)
CUDA_ON_CPU_VECTORS(float, float)
#undef CUDA_ON_CPU_VECTORS

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
struct alignas(16) longlong2 {
  long long x, y;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) {
  return {x, y, z};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
inline double2 make_double2(double x, double y) {
  return {x, y};
}

/// blockDim and gridDim: like dim3, but without a constructor, which thread-locals cannot have.
struct CudaOnCpuDim {
  unsigned x, y, z;
  operator dim3() const { return {x, y, z}; }
};
// Variables, not macros: cudaLaunchConfig_t has members called gridDim and blockDim.
#define CUDA_ON_CPU_TLS __thread __attribute__((tls_model("initial-exec")))
extern CUDA_ON_CPU_TLS uint3 threadIdx;
extern CUDA_ON_CPU_TLS uint3 blockIdx;
extern CUDA_ON_CPU_TLS CudaOnCpuDim blockDim;
extern CUDA_ON_CPU_TLS CudaOnCpuDim gridDim;
inline constexpr int warpSize = 32;

namespace cuda_on_cpu {
/// The dynamic shared memory of the running block. A launch without any gets a null pointer.
void* dynamicShared();
}  // namespace cuda_on_cpu
#define VITRINE_DYNAMIC_SHARED(T, name) \
  T* const name = static_cast<T*>(::cuda_on_cpu::dynamicShared())

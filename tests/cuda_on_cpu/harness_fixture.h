#pragma once

#include <QtTest>
#include <vector>

#include "cuda_on_cpu/harness.h"

// What the tests of the harness share.

namespace cuda_on_cpu {

/// A call that must succeed.
#define CUDA_OK(call) QCOMPARE(call, cudaSuccess)

/// As in a new process, with nothing from the environment.
inline void begin(const Settings& wanted = {}) {
  reset();
  settings() = wanted;
}

template <typename T>
T* onDevice(const std::vector<T>& values) {
  T* memory = nullptr;
  if (cudaMalloc(&memory, values.size() * sizeof(T)) != cudaSuccess) return nullptr;
  cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  return memory;
}

template <typename T>
std::vector<T> fromDevice(const T* memory, std::size_t n) {
  std::vector<T> values(n);
  cudaMemcpy(values.data(), memory, n * sizeof(T), cudaMemcpyDeviceToHost);
  return values;
}

}  // namespace cuda_on_cpu

#pragma once

#include "cuda_on_cpu/language.h"

// Atomics and fences. An atomic orders memory only where the thread has called __threadfence()
// before it, as on the device, so that ThreadSanitizer sees a fence that is missing.

namespace cuda_on_cpu {

/// Remembers that the running thread has fenced.
void fence();
bool hasFenced();
/// Another thread may run now (random scheduling).
void mayYield();

template <typename T, typename Change>
T changeAtomically(T* address, Change change) {
  T before;
  __atomic_load(address, &before, __ATOMIC_RELAXED);
  T after;
  if (hasFenced()) {
    do {
      after = change(before);
    } while (!__atomic_compare_exchange(address, &before, &after, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE));
  } else {
    do {
      after = change(before);
    } while (!__atomic_compare_exchange(address, &before, &after, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
  }
  mayYield();
  return before;
}

}  // namespace cuda_on_cpu

inline void __threadfence() {
  cuda_on_cpu::fence();
}
inline void __threadfence_block() {
  cuda_on_cpu::mayYield();  // the compiler keeps the order of accesses across the call
}
inline void __threadfence_system() {
  cuda_on_cpu::fence();
}

template <typename T>
T atomicAdd(T* address, T value) {
  return cuda_on_cpu::changeAtomically(address, [=](T old) { return static_cast<T>(old + value); });
}
template <typename T>
T atomicSub(T* address, T value) {
  return cuda_on_cpu::changeAtomically(address, [=](T old) { return static_cast<T>(old - value); });
}
template <typename T>
T atomicMin(T* address, T value) {
  return cuda_on_cpu::changeAtomically(address, [=](T old) { return value < old ? value : old; });
}
template <typename T>
T atomicMax(T* address, T value) {
  return cuda_on_cpu::changeAtomically(address, [=](T old) { return old < value ? value : old; });
}
template <typename T>
T atomicExch(T* address, T value) {
  return cuda_on_cpu::changeAtomically(address, [=](T) { return value; });
}
template <typename T>
T atomicAnd(T* address, T value) {
  return cuda_on_cpu::changeAtomically(address, [=](T old) { return old & value; });
}
template <typename T>
T atomicOr(T* address, T value) {
  return cuda_on_cpu::changeAtomically(address, [=](T old) { return old | value; });
}
/// Counts up to `most`, then from zero again.
inline unsigned atomicInc(unsigned* address, unsigned most) {
  return cuda_on_cpu::changeAtomically(address,
                                       [=](unsigned old) { return old >= most ? 0U : old + 1; });
}
template <typename T>
T atomicCAS(T* address, T expected, T value) {
  return cuda_on_cpu::changeAtomically(address,
                                       [=](T old) { return old == expected ? value : old; });
}

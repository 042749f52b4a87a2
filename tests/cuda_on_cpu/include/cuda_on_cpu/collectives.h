#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda_on_cpu/language.h"

// Where threads meet: barriers, shuffles, votes. Each notes where in the source it stands, by
// default arguments, so that an error can name the place and threads that meet at different places
// are told apart.

namespace cuda_on_cpu {

struct Location {
  const char* file;
  int line;
};

enum class WarpOp : std::uint8_t {
  kSync,
  kShuffle,
  kShuffleUp,
  kShuffleDown,
  kShuffleXor,
  kBallot,
  kAll,
  kAdd,
  kMin,
  kMax,
  kMinUnsigned,
  kMaxUnsigned,
  kAnd,
  kOr,
  kXor,
  kMatchAny,
};
enum class BarrierOp : std::uint8_t { kPlain, kCount, kAnd, kOr };

/// Meets the lanes of `mask`; returns this lane's result.
std::uint64_t meetWarp(WarpOp op, unsigned mask, std::uint64_t value, int argument, int width,
                       Location where);
int meetBlock(BarrierOp op, int predicate, Location where);
[[noreturn]] void fail(const char* what, Location where);

template <typename T>
T shuffle(WarpOp op, unsigned mask, T value, int argument, int width, Location where) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = meetWarp(op, mask, bits, argument, width, where);
  T result;
  std::memcpy(&result, &bits, sizeof(T));
  return result;
}

}  // namespace cuda_on_cpu

#define CUDA_ON_CPU_HERE cuda_on_cpu::Location where = {__builtin_FILE(), __builtin_LINE()}

inline void __syncthreads(CUDA_ON_CPU_HERE) {
  cuda_on_cpu::meetBlock(cuda_on_cpu::BarrierOp::kPlain, 0, where);
}
inline int __syncthreads_count(int predicate, CUDA_ON_CPU_HERE) {
  return cuda_on_cpu::meetBlock(cuda_on_cpu::BarrierOp::kCount, predicate, where);
}
inline int __syncthreads_and(int predicate, CUDA_ON_CPU_HERE) {
  return cuda_on_cpu::meetBlock(cuda_on_cpu::BarrierOp::kAnd, predicate, where);
}
inline int __syncthreads_or(int predicate, CUDA_ON_CPU_HERE) {
  return cuda_on_cpu::meetBlock(cuda_on_cpu::BarrierOp::kOr, predicate, where);
}
inline void __syncwarp(unsigned mask = 0xffffffffU, CUDA_ON_CPU_HERE) {
  cuda_on_cpu::meetWarp(cuda_on_cpu::WarpOp::kSync, mask, 0, 0, 32, where);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, CUDA_ON_CPU_HERE) {
  return cuda_on_cpu::shuffle(cuda_on_cpu::WarpOp::kShuffle, mask, value, lane, width, where);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_ON_CPU_HERE) {
  return cuda_on_cpu::shuffle(cuda_on_cpu::WarpOp::kShuffleUp, mask, value, static_cast<int>(delta),
                              width, where);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, CUDA_ON_CPU_HERE) {
  return cuda_on_cpu::shuffle(cuda_on_cpu::WarpOp::kShuffleDown, mask, value,
                              static_cast<int>(delta), width, where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, CUDA_ON_CPU_HERE) {
  return cuda_on_cpu::shuffle(cuda_on_cpu::WarpOp::kShuffleXor, mask, value, lanes, width, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, CUDA_ON_CPU_HERE) {
  return static_cast<unsigned>(
      cuda_on_cpu::meetWarp(cuda_on_cpu::WarpOp::kBallot, mask, predicate != 0, 0, 32, where));
}
inline int __any_sync(unsigned mask, int predicate, CUDA_ON_CPU_HERE) {
  return __ballot_sync(mask, predicate, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, CUDA_ON_CPU_HERE) {
  return static_cast<int>(
      cuda_on_cpu::meetWarp(cuda_on_cpu::WarpOp::kAll, mask, predicate != 0, 0, 32, where));
}
template <typename T>
unsigned __match_any_sync(unsigned mask, T value, CUDA_ON_CPU_HERE) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return static_cast<unsigned>(
      cuda_on_cpu::meetWarp(cuda_on_cpu::WarpOp::kMatchAny, mask, bits, 0, 32, where));
}

#define CUDA_ON_CPU_REDUCE(name, Type, op)                                           \
  inline Type name(unsigned mask, Type value, CUDA_ON_CPU_HERE) {                    \
    return cuda_on_cpu::shuffle(cuda_on_cpu::WarpOp::op, mask, value, 0, 32, where); \
  }
CUDA_ON_CPU_REDUCE(__reduce_add_sync, int, kAdd)
CUDA_ON_CPU_REDUCE(__reduce_add_sync, unsigned, kAdd)
CUDA_ON_CPU_REDUCE(__reduce_min_sync, int, kMin)
CUDA_ON_CPU_REDUCE(__reduce_min_sync, unsigned, kMinUnsigned)
CUDA_ON_CPU_REDUCE(__reduce_max_sync, int, kMax)
CUDA_ON_CPU_REDUCE(__reduce_max_sync, unsigned, kMaxUnsigned)
CUDA_ON_CPU_REDUCE(__reduce_and_sync, unsigned, kAnd)
CUDA_ON_CPU_REDUCE(__reduce_or_sync, unsigned, kOr)
CUDA_ON_CPU_REDUCE(__reduce_xor_sync, unsigned, kXor)
#undef CUDA_ON_CPU_REDUCE

inline void __trap(CUDA_ON_CPU_HERE) {
  cuda_on_cpu::fail("__trap()", where);
}

#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(CUDA_ON_CPU_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

// What sanitizers must be told. Without them these do nothing.

namespace cuda_on_cpu {

// AddressSanitizer: memory that nobody may touch.
inline void forbid([[maybe_unused]] const void* begin, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(begin, bytes);
#endif
}
inline void allow([[maybe_unused]] const void* begin, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(begin, bytes);
#endif
}

// ThreadSanitizer: what was done before announce(x) is done before what follows a later heed(x).
inline void announce([[maybe_unused]] void* address) {
#if defined(CUDA_ON_CPU_TSAN)
  __tsan_release(address);
#endif
}
inline void heed([[maybe_unused]] void* address) {
#if defined(CUDA_ON_CPU_TSAN)
  __tsan_acquire(address);
#endif
}

}  // namespace cuda_on_cpu

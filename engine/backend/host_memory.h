#pragma once

#include <cstddef>
#include <utility>

#include "engine/base/result.h"

namespace vitrine::engine {

/// What a run of memory is for, so that the memory ledger can find it again.
enum class MemoryUse { kOther, kWeights, kKvCache };

/// A run of zeroed memory taken straight from the system, on huge pages where it grants them.
/// A page takes RAM only once it is written. Move-only.
class HostMemory final {
 public:
  HostMemory() = default;
  /// `what` names it in the error: "the KV cache".
  static Result<HostMemory> map(std::size_t bytes, const char* what,
                                MemoryUse use = MemoryUse::kOther);
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept
      : m_data(std::exchange(other.m_data, nullptr)), m_bytes(std::exchange(other.m_bytes, 0)) {}
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(m_data, other.m_data);
    std::swap(m_bytes, other.m_bytes);
    return *this;
  }

  /// Bytes of all runs of a kind in this process that are in RAM now. Any thread.
  static std::size_t residentBytes(MemoryUse use);

  std::byte* data() const { return m_data; }
  std::size_t bytes() const { return m_bytes; }
  explicit operator bool() const { return m_data != nullptr; }

 private:
  std::byte* m_data = nullptr;
  std::size_t m_bytes = 0;
};

}  // namespace vitrine::engine

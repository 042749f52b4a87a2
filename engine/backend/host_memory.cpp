#include "engine/backend/host_memory.h"

#include <sys/mman.h>

#include "engine/measure/machine.h"

namespace vitrine::engine {

Result<HostMemory> HostMemory::map(std::size_t bytes, const char* what) {
  const std::uint64_t available = availableMemoryBytes();
  void* data = bytes <= available ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                                  : MAP_FAILED;
  if (data == MAP_FAILED) {
    return fail(ErrorCode::kOutOfMemory, "{} need {} MiB; {} MiB are free", what, bytes >> 20,
                available >> 20);
  }
#ifdef MADV_HUGEPAGE
  madvise(data, bytes, MADV_HUGEPAGE);  // a wish; without it reads are slower and nothing breaks
#endif
  HostMemory memory;
  memory.m_data = static_cast<std::byte*>(data);
  memory.m_bytes = bytes;
  return memory;
}

HostMemory::~HostMemory() {
  if (m_data != nullptr) munmap(m_data, m_bytes);
}

}  // namespace vitrine::engine

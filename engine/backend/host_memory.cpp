#include "engine/backend/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "engine/measure/machine.h"

namespace vitrine::engine {
namespace {

struct Run {
  std::byte* data;
  std::size_t bytes;
  MemoryUse use;
};
// Runs are few (weights, a pool, both twice during a switch) and made from any thread. The lock is
// held while pages are counted, so that none is given back meanwhile.
std::mutex runsMutex;
std::vector<Run> runs;

std::size_t residentPages(const Run& run, std::size_t page) {
  const std::size_t pages = (run.bytes + page - 1) / page;
  constexpr std::size_t kPagesAtATime = 65536;
  std::vector<unsigned char> present(std::min(pages, kPagesAtATime));
  std::size_t resident = 0;
  for (std::size_t at = 0; at < pages; at += kPagesAtATime) {
    const std::size_t count = std::min(kPagesAtATime, pages - at);
    if (mincore(run.data + at * page, count * page, present.data()) != 0) return 0;
    for (std::size_t i = 0; i < count; ++i) resident += present[i] & 1U;
  }
  return resident;
}

}  // namespace

std::size_t HostMemory::residentBytes(MemoryUse use) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::lock_guard lock(runsMutex);
  std::size_t bytes = 0;
  for (const Run& run : runs) {
    if (run.use == use) bytes += residentPages(run, page) * page;
  }
  return bytes;
}

Result<HostMemory> HostMemory::map(std::size_t bytes, const char* what, MemoryUse use) {
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
  {
    const std::lock_guard lock(runsMutex);
    runs.push_back(Run{static_cast<std::byte*>(data), bytes, use});
  }
  HostMemory memory;
  memory.m_data = static_cast<std::byte*>(data);
  memory.m_bytes = bytes;
  return memory;
}

HostMemory::~HostMemory() {
  if (m_data == nullptr) return;
  {
    const std::lock_guard lock(runsMutex);
    std::erase_if(runs, [this](const Run& run) { return run.data == m_data; });
  }
  munmap(m_data, m_bytes);
}

}  // namespace vitrine::engine

#include "device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

#include "faults.h"
#include "harness.h"
#include "sanitizers.h"

namespace cuda_on_cpu {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{64} << 30;  // of addresses; memory comes when used
constexpr std::size_t kAlign = 256;
constexpr std::size_t kGuard = 256;  // bytes before and behind every allocation
constexpr int kGuardByte = 0xFB;
constexpr int kPoison = 0xFF;  // NaN in every floating format
constexpr std::size_t kPage = 4096;
/// Larger runs are poisoned by mapping a file of poison, so that only what is written takes memory.
constexpr std::size_t kPoisonFileBytes = std::size_t{4} << 20;

std::size_t roundUp(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace

DeviceMemory& DeviceMemory::instance() {
  static DeviceMemory* memory = new DeviceMemory;
  return *memory;
}

DeviceMemory::DeviceMemory() {
  void* arena = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  m_poisonFile = memfd_create("cuda_on_cpu poison", 0);
  if (arena == MAP_FAILED || m_poisonFile < 0 || ftruncate(m_poisonFile, kPoisonFileBytes) != 0) {
    std::fprintf(stderr, "cuda_on_cpu: cannot reserve addresses for device memory\n");
    std::abort();
  }
  void* poison = mmap(nullptr, kPoisonFileBytes, PROT_WRITE, MAP_SHARED, m_poisonFile, 0);
  std::memset(poison, kPoison, kPoisonFileBytes);
  munmap(poison, kPoisonFileBytes);
  m_arena = static_cast<char*>(arena);
  m_free[0] = kArenaBytes;
}

/// Fills with NaN. Requires: open.
void DeviceMemory::poison(char* begin, std::size_t bytes) {
  char* const end = begin + bytes;
  char* first = reinterpret_cast<char*>(roundUp(reinterpret_cast<std::uintptr_t>(begin), kPage));
  if (bytes < kPoisonFileBytes) first = end;
  std::memset(begin, kPoison, static_cast<std::size_t>(first - begin));
  while (end - first >= static_cast<std::ptrdiff_t>(kPage)) {
    const std::size_t part =
        std::min(kPoisonFileBytes, static_cast<std::size_t>(end - first) / kPage * kPage);
    mmap(first, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, m_poisonFile,
         0);
    first += part;
  }
  std::memset(first, kPoison, static_cast<std::size_t>(end - first));
}

void* DeviceMemory::allocate(std::size_t bytes, int device) {
  const std::size_t rounded = roundUp(std::max<std::size_t>(bytes, 1), kAlign);
  const std::size_t limit = settings().memoryBytes - settings().othersBytes;
  if (settings().othersBytes > settings().memoryBytes || m_used[device] + rounded > limit) {
    return nullptr;
  }
  const std::size_t need = rounded + 2 * kGuard;
  const auto hole = std::find_if(m_free.begin(), m_free.end(),
                                 [&](const auto& free) { return free.second >= need; });
  if (hole == m_free.end()) return nullptr;
  const auto [offset, length] = *hole;
  m_free.erase(hole);
  if (length > need) m_free[offset + need] = length - need;
  m_live[offset + kGuard] = {bytes, device};
  m_used[device] += rounded;
  m_end = std::max(m_end, offset + need);

  const DeviceMemoryOpen open;
  allow(at(offset), need);
  std::memset(at(offset), kGuardByte, kGuard);
  poison(at(offset + kGuard), bytes);
  std::memset(at(offset + kGuard + bytes), kGuardByte, need - kGuard - bytes);
  forbid(at(offset), kGuard);
  forbid(at(offset + kGuard + bytes), need - kGuard - bytes);
  return at(offset + kGuard);
}

bool DeviceMemory::free(void* memory) {
  const std::size_t begin = static_cast<std::size_t>(static_cast<char*>(memory) - m_arena);
  const auto found = isDevice(memory) ? m_live.find(begin) : m_live.end();
  if (found == m_live.end()) return false;
  const Allocation allocation = found->second;
  const std::size_t rounded = roundUp(std::max<std::size_t>(allocation.bytes, 1), kAlign);
  m_live.erase(found);
  m_used[allocation.device] -= rounded;
  std::size_t offset = begin - kGuard, length = rounded + 2 * kGuard;
  {
    const DeviceMemoryOpen open;
    allow(at(offset), length);
    poison(at(offset), length);
    forbid(at(offset), length);
  }
  auto next = m_free.lower_bound(offset);
  if (next != m_free.end() && offset + length == next->first) {
    length += next->second;
    next = m_free.erase(next);
  }
  if (next != m_free.begin()) {
    if (const auto before = std::prev(next); before->first + before->second == offset) {
      before->second += length;
      return true;
    }
  }
  m_free[offset] = length;
  return true;
}

void DeviceMemory::freeAll() {
  while (!m_live.empty()) free(at(m_live.begin()->first));
}

bool DeviceMemory::isDevice(const void* memory) const {
  const auto* address = static_cast<const char*>(memory);
  return address >= m_arena && address < m_arena + kArenaBytes;
}

bool DeviceMemory::holds(const void* memory, std::size_t bytes) const {
  if (!isDevice(memory)) return false;
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(memory) - m_arena);
  const auto after = m_live.upper_bound(offset);
  if (after == m_live.begin()) return false;
  const auto& [begin, allocation] = *std::prev(after);
  return offset + bytes <= begin + allocation.bytes;
}

int DeviceMemory::deviceOf(const void* memory) const {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(memory) - m_arena);
  return holds(memory, 0) ? std::prev(m_live.upper_bound(offset))->second.device : -1;
}

std::size_t DeviceMemory::used(int device) const {
  const auto found = m_used.find(device);
  return found == m_used.end() ? 0 : found->second;
}

std::size_t DeviceMemory::usedBytes() const {
  std::size_t bytes = 0;
  for (const auto& [offset, allocation] : m_live) bytes += allocation.bytes;
  return bytes;
}

std::string DeviceMemory::brokenGuards() {
  std::string text;
#if !defined(__SANITIZE_ADDRESS__)  // which forbids these zones, and sees every write to them
  const DeviceMemoryOpen open;
  for (const auto& [begin, allocation] : m_live) {
    const std::size_t end = begin + allocation.bytes;
    const std::size_t zone =
        roundUp(std::max<std::size_t>(allocation.bytes, 1), kAlign) + begin - end + kGuard;
    const auto isWhole = [](char byte) { return byte == static_cast<char>(kGuardByte); };
    const char* before = std::find_if_not(at(begin - kGuard), at(begin), isWhole);
    const char* behind = std::find_if_not(at(end), at(end + zone), isWhole);
    if (before != at(begin)) {
      text += "device memory of " + std::to_string(allocation.bytes) + " bytes was written " +
              std::to_string(at(begin) - before) + " bytes before its beginning\n";
    }
    if (behind != at(end + zone)) {
      text += "device memory of " + std::to_string(allocation.bytes) + " bytes was written " +
              std::to_string(behind - at(end)) + " bytes behind its end\n";
    }
  }
#endif
  return text;
}

void DeviceMemory::protect(bool isOpen) {
  if (m_end == 0) return;
  mprotect(m_arena, roundUp(m_end, kPage), isOpen ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void DeviceMemory::open() {
  if (m_opened++ == 0 && m_isClosed) protect(true);
}

void DeviceMemory::close() {
  if (--m_opened == 0 && m_isClosed) protect(false);
}

void DeviceMemory::setClosed(bool isClosed) {
  if (isClosed == m_isClosed) return;
  m_isClosed = isClosed;
  if (m_opened == 0) protect(!isClosed);
}

PinnedMemory& PinnedMemory::instance() {
  static PinnedMemory* memory = new PinnedMemory;
  return *memory;
}

void* PinnedMemory::allocate(std::size_t bytes) {
  char* memory = new (std::align_val_t{kPage}, std::nothrow) char[bytes];
  if (memory == nullptr) return nullptr;
  std::memset(memory, kPoison, bytes);
  m_live[memory] = {bytes, true};
  return memory;
}

bool PinnedMemory::free(void* memory) {
  const auto found = m_live.find(static_cast<char*>(memory));
  if (found == m_live.end() || !found->second.isOurs) return false;
  m_live.erase(found);
  ::operator delete[](static_cast<char*>(memory), std::align_val_t{kPage});
  return true;
}

bool PinnedMemory::lock(void* memory, std::size_t bytes) {
  if (holds(memory, 1)) return false;
  m_live[static_cast<char*>(memory)] = {bytes, false};
  return true;
}

bool PinnedMemory::unlock(void* memory) {
  const auto found = m_live.find(static_cast<char*>(memory));
  if (found == m_live.end() || found->second.isOurs) return false;
  m_live.erase(found);
  return true;
}

bool PinnedMemory::holds(const void* memory, std::size_t bytes) const {
  const auto* address = static_cast<const char*>(memory);
  const auto after = m_live.upper_bound(address);
  if (after == m_live.begin()) return false;
  const auto& [begin, allocation] = *std::prev(after);
  return address + bytes <= begin + allocation.bytes;
}

std::size_t PinnedMemory::bytes() const {
  std::size_t sum = 0;
  for (const auto& [begin, allocation] : m_live) sum += allocation.bytes;
  return sum;
}

void PinnedMemory::freeAll() {
  while (!m_live.empty()) {
    const auto [begin, allocation] = *m_live.begin();
    if (allocation.isOurs) {
      free(const_cast<char*>(begin));
    } else {
      m_live.erase(m_live.begin());
    }
  }
}

}  // namespace cuda_on_cpu

#pragma once

#include <cstddef>
#include <map>
#include <string>

// The memory of the devices: one reserved range of addresses, from which allocations are cut. What
// is new or given back reads as NaN; zones around every allocation show writes next to it. All
// under the lock of the runtime, unless said otherwise.

namespace cuda_on_cpu {

class DeviceMemory final {
 public:
  static DeviceMemory& instance();

  /// Null where the device has not enough left.
  void* allocate(std::size_t bytes, int device);
  /// False: not the beginning of an allocation.
  bool free(void* memory);
  void freeAll();

  /// Whether [memory, memory + bytes) lies in one allocation.
  bool holds(const void* memory, std::size_t bytes) const;
  /// Whether the address belongs to a device at all. Any thread.
  bool isDevice(const void* memory) const;
  int deviceOf(const void* memory) const;

  std::size_t used(int device) const;
  std::size_t usedBytes() const;  ///< asked for, all devices
  int allocations() const { return static_cast<int>(m_live.size()); }
  std::string brokenGuards();

  /// Between open() and close() memory can be touched; elsewhere it cannot if `isClosed` was set.
  void open();
  void close();
  void setClosed(bool isClosed);

 private:
  struct Allocation {
    std::size_t bytes;
    int device;
  };
  DeviceMemory();
  void poison(char* begin, std::size_t bytes);
  void protect(bool isOpen);
  char* at(std::size_t offset) const { return m_arena + offset; }

  char* m_arena = nullptr;
  int m_poisonFile = -1;
  std::map<std::size_t, std::size_t> m_free;  // offset → bytes
  std::map<std::size_t, Allocation> m_live;   // offset → allocation
  std::map<int, std::size_t> m_used;          // device → bytes, rounded up
  std::size_t m_end = 0;                      // of what was ever given out
  int m_opened = 0;
  bool m_isClosed = false;
};

/// Work on device memory, inside.
class DeviceMemoryOpen final {
 public:
  DeviceMemoryOpen() { DeviceMemory::instance().open(); }
  ~DeviceMemoryOpen() { DeviceMemory::instance().close(); }
  DeviceMemoryOpen(const DeviceMemoryOpen&) = delete;
  DeviceMemoryOpen& operator=(const DeviceMemoryOpen&) = delete;
};

/// Page-locked host memory.
class PinnedMemory final {
 public:
  static PinnedMemory& instance();
  void* allocate(std::size_t bytes);
  bool free(void* memory);
  /// Memory that the host has already.
  bool lock(void* memory, std::size_t bytes);
  bool unlock(void* memory);
  bool holds(const void* memory, std::size_t bytes) const;
  std::size_t bytes() const;
  void freeAll();

 private:
  struct Allocation {
    std::size_t bytes;
    bool isOurs;
  };
  std::map<const char*, Allocation> m_live;
};

}  // namespace cuda_on_cpu

#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace vitrine::engine {

/// What the system says about this process's memory, sorted by kinds of mappings; bytes in RAM.
struct ProcessMemory {
  bool known = false;             ///< false where /proc cannot be read
  std::uint64_t rss = 0;          ///< VmRSS
  std::uint64_t mapped = 0;       ///< sum over the mappings; the parts below add up to it
  std::uint64_t modelFile = 0;    ///< pages of the model's file
  std::uint64_t otherFiles = 0;   ///< pages of other files: code, libraries, fonts, shared memory
  std::uint64_t programData = 0;  ///< variables of the program and its libraries
  std::uint64_t heaps = 0;        ///< heaps of the allocator, without its largest pieces
  std::uint64_t stacks = 0;
  std::uint64_t otherAnonymous = 0;  ///< taken straight from the system, by us or the allocator
  int threads = 0;
};

/// Reads /proc/self; costs one to a few milliseconds. `modelPath` as the kernel names the file
/// (no links), or empty.
ProcessMemory readProcessMemory(const std::string& modelPath);

struct AddressRange {
  std::uint64_t from = 0, to = 0;
};
/// Where the zeroed variables of the program and its libraries lie, as the dynamic linker says:
/// pages without a file. The system may join them with what was allocated behind them.
std::vector<AddressRange> zeroedVariables();

/// The same from a text in the form of /proc/PID/smaps, without `rss` and `threads`. For tests.
/// A heap of another thread than the first begins at a multiple of 64 MiB, a stack behind a guard
/// of one page (glibc); `stackBytes` is the most that a thread's stack is.
ProcessMemory sortMappings(std::istream& smaps, const std::string& modelPath,
                           std::uint64_t stackBytes, const std::vector<AddressRange>& variables);

/// What the allocator says: bytes handed out, bytes that it keeps for later, and of those handed
/// out the ones that it took straight from the system.
struct AllocatorUse {
  std::uint64_t inHeaps = 0, freeInHeaps = 0, apart = 0;
};
AllocatorUse allocatorUse();

}  // namespace vitrine::engine

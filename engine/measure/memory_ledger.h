#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_types.h"

namespace vitrine::engine {

/// Where the process's memory is: bytes in RAM, each part counted on its own by whoever knows it
/// (the engine, the kernel's list of mappings, the allocator). What the system reports beyond their
/// sum is the residual; nothing is distributed to make it fit.
struct MemoryLedger {
  bool known = false;           ///< false where the system does not tell
  std::uint64_t rss = 0;        ///< resident now (VmRSS)
  std::uint64_t weights = 0;    ///< copies in the form that the kernels read
  std::uint64_t modelFile = 0;  ///< pages of the mapped file; the system may drop them
  std::uint64_t kvUsed = 0;     ///< positions written, their keys and values
  std::uint64_t kvScales = 0;   ///< scales of those (INT8)
  std::uint64_t kvWaste = 0;    ///< of blocks that are held, the rest
  std::uint64_t kvFree = 0;     ///< of free blocks, what is in RAM (written before)
  std::uint64_t kvMoved = 0;  ///< blocks that left the device for host memory, or have a copy there
  std::uint64_t workspace = 0;  ///< intermediate results of a step
  std::uint64_t code = 0;       ///< files in memory: code, libraries, fonts, shared with others
  std::uint64_t data = 0;       ///< variables of program and libraries
  std::uint64_t heapUsed = 0;   ///< handed out by the allocator, what is counted above left out
  std::uint64_t heapFree = 0;   ///< kept by the allocator for later
  std::uint64_t stacks = 0;
  std::uint64_t gpu = 0;         ///< ours on the device, beside RSS; 0 without one
  std::uint64_t kvReserved = 0;  ///< address space of the pool, in RAM or not; no part of the sum
  int threads = 0;
  /// The memory of the device where there is one; weights, KV and workspace are then there, and not
  /// in the parts above.
  std::optional<DeviceMemory> device;

  /// A part of RSS by its field in JSON.
  struct Part {
    const char* name;
    std::uint64_t bytes;
  };
  std::vector<Part> parts() const;
  /// Of what the driver counts as used on the device. Empty without one.
  std::vector<Part> deviceParts() const;
  std::uint64_t sum() const;
  /// RSS less the sum; negative where parts count more than is in RAM.
  std::int64_t residual() const;
};

/// Reads the system's figures and the snapshot's; a few milliseconds, any thread. `modelPath`: the
/// mapped file of the loaded model, or empty.
MemoryLedger readMemoryLedger(const EngineSnapshot& snapshot, const std::string& modelPath);

}  // namespace vitrine::engine

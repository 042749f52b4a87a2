#pragma once

#include <cstdint>
#include <string>

#include "engine/engine_types.h"

namespace vitrine::ui {

/// Where the process's memory is, in bytes: every part was counted by the engine or read from
/// /proc/self, and they add up to what the system says the process holds (RSS).
struct MemoryLedger {
  std::uint64_t rss = 0;        ///< resident now (VmRSS)
  std::uint64_t weights = 0;    ///< copies in the form that the kernels read
  std::uint64_t modelFile = 0;  ///< pages of the mapped file in memory; the system may drop them
  std::uint64_t kvUsed = 0;     ///< blocks that hold something
  std::uint64_t kvFree = 0;     ///< reserved for the pool and not used
  std::uint64_t workspace = 0;
  /// Code, libraries and fonts in memory now, and what the process had allocated before a model.
  std::uint64_t program = 0;
  /// What is left of RSS. Pages of free blocks count as theirs first, up to kvFree.
  std::uint64_t unexplained = 0;
  /// Of kvFree, what is in memory; the system gives the rest when it is first written.
  std::uint64_t kvFreeResident = 0;
  bool known = false;  ///< false where /proc cannot be read
};

/// Reads the process's memory and keeps what is needed to explain it: what was there before a
/// model. One for the program's life, made before the first load; window's thread.
class MemoryWatch final {
 public:
  MemoryWatch();
  /// Costs about a millisecond. `modelPath`: the mapped file of the loaded model, or empty.
  MemoryLedger read(const engine::EngineSnapshot& snapshot, const std::string& modelPath);

 private:
  std::uint64_t m_baselineAnonymous = 0;
};

}  // namespace vitrine::ui

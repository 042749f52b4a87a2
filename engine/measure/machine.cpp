#include "engine/measure/machine.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

namespace vitrine::engine {
namespace {

/// The number of KiB after `key` in a file of /proc, in bytes.
std::optional<std::uint64_t> procBytes(const char* path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t digits = line.find_first_of("0123456789", key.size());
    if (digits == std::string::npos) return std::nullopt;
    return std::stoull(line.substr(digits)) * 1024;
  }
  return std::nullopt;
}

/// A control group's file that holds one number; nothing where it says "max" or is not there.
std::optional<std::uint64_t> cgroupBytes(const char* path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  if (file >> bytes) return bytes;
  return std::nullopt;
}

/// Bytes that the control group still allows; what the page cache holds can be given back.
std::optional<std::uint64_t> cgroupAvailable() {
  const auto limit = cgroupBytes("/sys/fs/cgroup/memory.max");
  const auto used = cgroupBytes("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return std::nullopt;
  std::uint64_t reclaimable = 0;
  std::ifstream stat("/sys/fs/cgroup/memory.stat");
  std::string key;
  std::uint64_t value = 0;
  while (stat >> key >> value) {
    if (key == "inactive_file" || key == "active_file") reclaimable += value;
  }
  const std::uint64_t held = *used > reclaimable ? *used - reclaimable : 0;
  return *limit > held ? *limit - held : 0;
}

}  // namespace

std::uint64_t residentBytes() {
  return procBytes("/proc/self/status", "VmRSS:").value_or(0);
}

std::uint64_t peakResidentBytes() {
  return procBytes("/proc/self/status", "VmHWM:").value_or(0);
}

std::uint64_t availableMemoryBytes() {
  const auto system = procBytes("/proc/meminfo", "MemAvailable:");
  return std::min(system.value_or(std::numeric_limits<std::uint64_t>::max()),
                  cgroupAvailable().value_or(std::numeric_limits<std::uint64_t>::max()));
}

std::uint64_t totalMemoryBytes() {
  const auto system = procBytes("/proc/meminfo", "MemTotal:");
  const auto limit = cgroupBytes("/sys/fs/cgroup/memory.max");
  return std::min(system.value_or(std::numeric_limits<std::uint64_t>::max()),
                  limit.value_or(std::numeric_limits<std::uint64_t>::max()));
}

std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.compare(0, 10, "model name") != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

}  // namespace vitrine::engine

#pragma once

#include <cstdint>
#include <string>

namespace vitrine::engine {

/// Bytes of this process that are in RAM now, and the most there have been (VmRSS, VmHWM).
std::uint64_t residentBytes();
std::uint64_t peakResidentBytes();

/// Bytes that can still be allocated without swapping: the least of what the system says is
/// available and what the control group of this process still allows.
std::uint64_t availableMemoryBytes();
std::uint64_t totalMemoryBytes();

/// The processor as it names itself: "AMD EPYC 9B14".
std::string processorName();

}  // namespace vitrine::engine

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace vitrine::engine::cuda {

/// What NVIDIA's management library tells about a device, without a context on it. The library
/// comes with the driver and is loaded where it is there (not under WSL 1, not in every container).
class Nvml final {
 public:
  /// Null where the library is not there or does not start.
  static std::unique_ptr<Nvml> open(const char* library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  struct Memory {
    std::uint64_t total = 0, free = 0, used = 0;
  };
  // Of the device with this PCI bus id ("0000:01:00.0"); empty where it is not told.
  std::optional<Memory> memory(const std::string& busId) const;
  /// Device memory of all processes but this one.
  std::optional<std::uint64_t> othersBytes(const std::string& busId) const;
  /// "prohibited" or "exclusive process" where programs may not share the device; else "".
  std::string restriction(const std::string& busId) const;

 private:
  struct Functions;
  Nvml(void* library, std::unique_ptr<const Functions> functions);

  void* m_library;
  std::unique_ptr<const Functions> m_functions;
};

}  // namespace vitrine::engine::cuda

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/result.h"
#include "engine/model/gguf_file.h"

namespace vitrine::engine {

/// What one file of a (possibly split) set holds.
struct GgufPart {
  std::unique_ptr<MappedFile> file;
  std::uint64_t headerBytes = 0;
  std::unordered_map<std::string_view, GgufValue> values;
  std::vector<GgufTensor> tensors;
  std::uint64_t dataEnd = 0;  ///< first byte after the last tensor

  /// Of a split set: this part's number from 0, how many there are, tensors of all parts.
  std::uint64_t splitNo = 0, splitCount = 1, splitTensors = 0;
  bool isSplit() const { return splitCount > 1; }
};

/// Maps one file and validates all of it.
Result<GgufPart> parseGgufPart(const std::filesystem::path& path);

/// Unsigned value of an integer key in a part's metadata; nullopt without one; an error on a wrong
/// type or a negative value.
Result<std::optional<std::uint64_t>> unsignedValue(
    const std::unordered_map<std::string_view, GgufValue>& values, std::string_view key,
    const std::filesystem::path& path);

}  // namespace vitrine::engine

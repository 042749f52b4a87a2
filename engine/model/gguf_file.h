#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "engine/base/result.h"
#include "engine/model/mapped_file.h"
#include "kernels/api/tensor_type.h"

namespace vitrine::engine {

/// Value types of GGUF metadata, with their numbers in the file.
enum class GgufType : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};
const char* nameOf(GgufType type);  // "uint32"

/// An array of metadata. Elements of plain types lie unaligned in the file; strings are views into
/// the file; nested arrays were validated and are skipped.
struct GgufArray {
  GgufType elementType = GgufType::kUint8;
  std::uint64_t count = 0;
  const std::byte* data = nullptr;
  std::vector<std::string_view> strings;  // of kString alone

  bool holdsIntegers() const;
  bool holdsFloats() const;
  /// Requires: holdsIntegers() or holdsFloats(), i < count. uint64 above the range is clamped.
  std::int64_t integer(std::uint64_t i) const;
  double number(std::uint64_t i) const;
};

struct GgufValue {
  GgufType type = GgufType::kUint8;
  std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, GgufArray> value;
};

/// An element type of a tensor as the format numbers them, also those that this program cannot run.
struct GgufTensorType {
  std::uint32_t id = 0;
  std::string name;     ///< "Q4_K"; "type 77" where the format does not know it
  int blockValues = 0;  ///< 0: unknown
  int blockBytes = 0;
  std::optional<kernels::TensorType> runnable;
};

/// A tensor's entry. Dimensions as the file lists them: the first runs fastest.
struct GgufTensor {
  std::string_view name;
  int nDims = 0;
  std::array<std::uint64_t, 4> dims{1, 1, 1, 1};  // each at least 1
  GgufTensorType type;
  std::uint64_t bytes = 0;          ///< 0 where the type's size is unknown
  const std::byte* data = nullptr;  ///< in the mapped file, aligned to the file's alignment
  int part = 0;

  std::uint64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

/// A GGUF file (version 2 or 3) or a split set of them, mapped and validated as a whole: every
/// count, length, type, offset and size is checked against the file before it is used or anything
/// is allocated for it. Immutable; any thread. Views stay valid as long as this lives.
class GgufFile {
 public:
  /// Opens any part of a split set and all others with it. Errors name the file, the field, what is
  /// wrong and where (byte offset), and for a file cut short how many bytes it has and needs.
  static Result<std::shared_ptr<const GgufFile>> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return m_parts.front()->path(); }
  int nParts() const { return static_cast<int>(m_parts.size()); }
  std::uint64_t fileBytes() const;
  /// Header and metadata of a part: everything before its tensor data.
  std::span<const std::byte> header(int part) const;
  /// Whether a part shrank or failed after it was opened; what was lost reads as zeros.
  bool lost() const;

  const GgufValue* find(std::string_view key) const;
  /// Metadata by type. nullopt: no such key. A value of another type is an error that names the
  /// key. Integers of any width are accepted, and must not be negative; floats of any width.
  Result<std::optional<std::string_view>> text(std::string_view key) const;
  Result<std::optional<std::uint64_t>> integer(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<const GgufArray*> array(std::string_view key) const;  // nullptr: no such key

  std::span<const GgufTensor> tensors() const { return m_tensors; }
  const GgufTensor* findTensor(std::string_view name) const;

 private:
  friend class GgufParser;
  GgufFile() = default;
  std::vector<std::unique_ptr<MappedFile>> m_parts;
  std::vector<std::uint64_t> m_headerBytes;                  // of each part
  std::unordered_map<std::string_view, GgufValue> m_values;  // of the first part
  std::vector<GgufTensor> m_tensors;
  std::unordered_map<std::string_view, std::size_t> m_tensorIndex;
};

/// What the format knows about a tensor type's number.
GgufTensorType ggufTensorType(std::uint32_t id);

}  // namespace vitrine::engine

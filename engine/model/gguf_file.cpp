#include "engine/model/gguf_file.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "engine/base/display_text.h"
#include "engine/model/gguf_parser.h"

namespace vitrine::engine {
namespace {

using kernels::TensorType;

struct TypeRow {
  std::uint32_t id;
  const char* name;
  int blockValues;
  int blockBytes;
  std::optional<TensorType> runnable;
};

// The format's tensor types. Those that run here are joined to ours; a test compares the sizes.
constexpr TypeRow kTensorTypes[] = {
    {0, "F32", 1, 4, TensorType::kF32},
    {1, "F16", 1, 2, TensorType::kF16},
    {2, "Q4_0", 32, 18, TensorType::kQ4_0},
    {3, "Q4_1", 32, 20, TensorType::kQ4_1},
    {6, "Q5_0", 32, 22, {}},
    {7, "Q5_1", 32, 24, {}},
    {8, "Q8_0", 32, 34, TensorType::kQ8_0},
    {9, "Q8_1", 32, 36, {}},
    {10, "Q2_K", 256, 84, {}},
    {11, "Q3_K", 256, 110, {}},
    {12, "Q4_K", 256, 144, {}},
    {13, "Q5_K", 256, 176, {}},
    {14, "Q6_K", 256, 210, {}},
    {15, "Q8_K", 256, 292, {}},
    {16, "IQ2_XXS", 256, 66, {}},
    {17, "IQ2_XS", 256, 74, {}},
    {18, "IQ3_XXS", 256, 98, {}},
    {19, "IQ1_S", 256, 50, {}},
    {20, "IQ4_NL", 32, 18, {}},
    {21, "IQ3_S", 256, 110, {}},
    {22, "IQ2_S", 256, 82, {}},
    {23, "IQ4_XS", 256, 136, {}},
    {24, "I8", 1, 1, {}},
    {25, "I16", 1, 2, {}},
    {26, "I32", 1, 4, {}},
    {27, "I64", 1, 8, {}},
    {28, "F64", 1, 8, {}},
    {29, "IQ1_M", 256, 56, {}},
    {30, "BF16", 1, 2, TensorType::kBF16},
    {34, "TQ1_0", 256, 54, {}},
    {35, "TQ2_0", 256, 66, {}},
    {39, "MXFP4", 32, 17, {}},
    {40, "NVFP4", 64, 36, {}},
};

template <typename T>
T load(const std::byte* data, std::uint64_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof value);
  return value;
}

/// "…-00002-of-00003.gguf" taken apart.
struct SplitName {
  std::string prefix;
  std::uint64_t no = 0;  // from 1
  std::uint64_t count = 0;
};

std::optional<SplitName> parseSplitName(const std::filesystem::path& path) {
  const std::string name = path.filename().native();
  constexpr std::string_view kExtension = ".gguf";
  constexpr std::size_t kTail = 1 + 5 + 4 + 5;  // -00002-of-00003
  if (name.size() < kTail + kExtension.size() || !name.ends_with(kExtension)) return std::nullopt;
  const std::size_t begin = name.size() - kExtension.size() - kTail;
  const std::string tail = name.substr(begin, kTail);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return std::nullopt;
  SplitName split;
  split.prefix = name.substr(0, begin);
  for (std::size_t i = 0; i < 5; ++i) {
    const char no = tail[1 + i], count = tail[10 + i];
    if (no < '0' || no > '9' || count < '0' || count > '9') return std::nullopt;
    split.no = split.no * 10 + static_cast<unsigned>(no - '0');
    split.count = split.count * 10 + static_cast<unsigned>(count - '0');
  }
  return split;
}

std::filesystem::path partPath(const std::filesystem::path& folder, const std::string& prefix,
                               std::uint64_t no, std::uint64_t count) {
  return folder / fmt::format("{}-{:05}-of-{:05}.gguf", prefix, no, count);
}

/// Whether another GGUF file begins right after a part's data (parts joined with `cat`).
bool hasGluedPart(const GgufPart& part) {
  const std::span<const std::byte> bytes = part.file->bytes();
  for (std::uint64_t at = part.dataEnd; at < part.dataEnd + 64 && at + 4 <= bytes.size(); ++at) {
    if (std::memcmp(bytes.data() + at, "GGUF", 4) == 0) return true;
  }
  return false;
}

/// Opens the other parts of the set that `opened` belongs to; returns all in order.
Result<std::vector<GgufPart>> openSplitSet(GgufPart opened) {
  const std::filesystem::path path = opened.file->path();
  const std::uint64_t count = opened.splitCount;
  const std::string shown = displayPath(path);
  const std::string position = fmt::format("part {} of {}", opened.splitNo + 1, count);
  if (hasGluedPart(opened)) {
    return fail(ErrorCode::kInvalidFile,
                "{} holds several parts of a split model joined into one file; the parts must stay "
                "separate files (or be joined by a program that knows GGUF)",
                shown);
  }
  const auto name = parseSplitName(path);
  if (!name || name->count != count || name->no != opened.splitNo + 1) {
    return fail(
        ErrorCode::kInvalidFile,
        "{} is {} of a split model, but its name does not say so; give the parts their names "
        "back (NAME-{:05}-of-{:05}.gguf), so that they can be found",
        shown, position, opened.splitNo + 1, count);
  }
  const std::filesystem::path folder = path.parent_path();
  std::string missing;
  std::uint64_t nMissing = 0;
  for (std::uint64_t no = 1; no <= count; ++no) {
    std::error_code error;
    const auto other = partPath(folder, name->prefix, no, count);
    if (std::filesystem::exists(other, error)) continue;
    if (++nMissing == 1) missing = displayPath(other.filename());
    if (nMissing > 99) break;
  }
  if (nMissing > 0) {
    return fail(ErrorCode::kNotFound,
                "{} is {} of a split model, but {}{} not there; put all parts "
                "into one folder",
                shown, position, missing,
                nMissing == 1 ? " is"
                              : fmt::format(" and {}{} more are", nMissing > 99 ? "at least " : "",
                                            nMissing - 1));
  }
  std::vector<GgufPart> parts;
  for (std::uint64_t no = 1; no <= count; ++no) {
    if (no == opened.splitNo + 1) {
      parts.push_back(std::move(opened));
      continue;
    }
    const auto other = partPath(folder, name->prefix, no, count);
    VITRINE_ASSIGN(auto part, parseGgufPart(other));
    if (part.splitNo + 1 != no || part.splitCount != count) {
      return fail(ErrorCode::kInvalidFile,
                  "{} does not belong to the split model of {}: by its content it is part {} of {}",
                  displayPath(other), shown, part.splitNo + 1, part.splitCount);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

/// Joins parts into a GgufFile (its private members are for this alone).
class GgufParser {
 public:
  static Result<std::shared_ptr<const GgufFile>> join(std::vector<GgufPart> parts) {
    std::shared_ptr<GgufFile> file(new GgufFile);
    file->m_values = std::move(parts.front().values);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (GgufTensor& tensor : parts[i].tensors) {
        tensor.part = static_cast<int>(i);
        const auto [before, isNew] =
            file->m_tensorIndex.emplace(tensor.name, file->m_tensors.size());
        if (!isNew) {
          const int other = file->m_tensors[before->second].part;
          return fail(ErrorCode::kInvalidFile,
                      "tensor {} is in {} and again in {}: one of them belongs to another model",
                      displayText(tensor.name),
                      displayPath(file->m_parts[static_cast<std::size_t>(other)]->path()),
                      displayPath(parts[i].file->path()));
        }
        file->m_tensors.push_back(std::move(tensor));
      }
      file->m_headerBytes.push_back(parts[i].headerBytes);
      file->m_parts.push_back(std::move(parts[i].file));
    }
    const std::uint64_t expected = parts.front().splitTensors;
    if (parts.front().isSplit() && expected != 0 && expected != file->m_tensors.size()) {
      return fail(ErrorCode::kInvalidFile,
                  "{}: the parts hold {} tensors together, but "
                  "split.tensors.count is {}; a part belongs to another model",
                  displayPath(file->path()), file->m_tensors.size(), expected);
    }
    return file;
  }
};

Result<std::shared_ptr<const GgufFile>> GgufFile::open(const std::filesystem::path& path) {
  VITRINE_ASSIGN(auto part, parseGgufPart(path));
  std::vector<GgufPart> parts;
  if (part.isSplit()) {
    VITRINE_ASSIGN(parts, openSplitSet(std::move(part)));
  } else {
    parts.push_back(std::move(part));
  }
  VITRINE_ASSIGN(auto file, GgufParser::join(std::move(parts)));
  if (file->lost()) {
    return fail(ErrorCode::kIo, "{} became shorter or unreadable while it was being opened",
                displayPath(path));
  }
  return file;
}

std::uint64_t GgufFile::fileBytes() const {
  std::uint64_t bytes = 0;
  for (const auto& part : m_parts) bytes += part->bytes().size();
  return bytes;
}

std::span<const std::byte> GgufFile::header(int part) const {
  const auto i = static_cast<std::size_t>(part);
  return m_parts[i]->bytes().first(m_headerBytes[i]);
}

bool GgufFile::lost() const {
  return std::any_of(m_parts.begin(), m_parts.end(), [](const auto& part) { return part->lost(); });
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto entry = m_values.find(key);
  return entry == m_values.end() ? nullptr : &entry->second;
}

Result<std::optional<std::string_view>> GgufFile::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string_view>(&value->value)) return *text;
  return fail(ErrorCode::kInvalidFile, "{}: {} has the type {}, but must be a text",
              displayPath(path()), key, nameOf(value->type));
}

Result<std::optional<std::uint64_t>> GgufFile::integer(std::string_view key) const {
  return unsignedValue(m_values, key, path());
}

Result<std::optional<double>> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(&value->value)) return *number;
  if (const auto* number = std::get_if<std::uint64_t>(&value->value)) {
    return static_cast<double>(*number);
  }
  if (const auto* number = std::get_if<std::int64_t>(&value->value)) {
    return static_cast<double>(*number);
  }
  return fail(ErrorCode::kInvalidFile, "{}: {} has the type {}, but must be a number",
              displayPath(path()), key, nameOf(value->type));
}

Result<std::optional<bool>> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&value->value)) return *flag;
  return fail(ErrorCode::kInvalidFile, "{}: {} has the type {}, but must be a bool",
              displayPath(path()), key, nameOf(value->type));
}

Result<const GgufArray*> GgufFile::array(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (const auto* array = std::get_if<GgufArray>(&value->value)) return array;
  return fail(ErrorCode::kInvalidFile, "{}: {} has the type {}, but must be an array",
              displayPath(path()), key, nameOf(value->type));
}

const GgufTensor* GgufFile::findTensor(std::string_view name) const {
  const auto entry = m_tensorIndex.find(name);
  return entry == m_tensorIndex.end() ? nullptr : &m_tensors[entry->second];
}

bool GgufArray::holdsFloats() const {
  return elementType == GgufType::kFloat32 || elementType == GgufType::kFloat64;
}

bool GgufArray::holdsIntegers() const {
  return !holdsFloats() && elementType != GgufType::kString && elementType != GgufType::kArray &&
         elementType != GgufType::kBool;
}

std::int64_t GgufArray::integer(std::uint64_t i) const {
  switch (elementType) {
    case GgufType::kUint8:
      return load<std::uint8_t>(data, i);
    case GgufType::kInt8:
      return load<std::int8_t>(data, i);
    case GgufType::kUint16:
      return load<std::uint16_t>(data, i);
    case GgufType::kInt16:
      return load<std::int16_t>(data, i);
    case GgufType::kUint32:
      return load<std::uint32_t>(data, i);
    case GgufType::kInt32:
      return load<std::int32_t>(data, i);
    case GgufType::kInt64:
      return load<std::int64_t>(data, i);
    case GgufType::kUint64:
      return static_cast<std::int64_t>(std::min<std::uint64_t>(
          load<std::uint64_t>(data, i), std::numeric_limits<std::int64_t>::max()));
    default:
      return 0;
  }
}

double GgufArray::number(std::uint64_t i) const {
  if (elementType == GgufType::kFloat32) return load<float>(data, i);
  if (elementType == GgufType::kFloat64) return load<double>(data, i);
  return static_cast<double>(integer(i));
}

const char* nameOf(GgufType type) {
  constexpr const char* kNames[] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                    "int32",  "float32", "bool",   "string", "array",
                                    "uint64", "int64",   "float64"};
  const auto i = static_cast<std::size_t>(type);
  return i < std::size(kNames) ? kNames[i] : "?";
}

GgufTensorType ggufTensorType(std::uint32_t id) {
  for (const TypeRow& row : kTensorTypes) {
    if (row.id == id) return {id, row.name, row.blockValues, row.blockBytes, row.runnable};
  }
  return {id, fmt::format("type {}", id), 0, 0, {}};
}

}  // namespace vitrine::engine

#include "engine/model/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "engine/base/display_text.h"

namespace vitrine::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little-endian");

constexpr int kMaxNesting = 4;                     // arrays of arrays
constexpr std::uint64_t kMaxStrings = 1ULL << 24;  // in one array; the views take 16 bytes each
constexpr std::uint64_t kMaxNameBytes = 65535;     // the format's limit for keys
constexpr std::uint64_t kMaxAlignment = 1ULL << 20;

// Smallest encodings, to check counts against what is left of the file.
constexpr std::uint64_t kMinValueBytes = 8 + 1 + 4 + 1;           // key, type, one byte
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name, dims, type, offset

int plainBytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

/// Reads a mapped file from front to back; every read is checked against the end.
class Reader {
 public:
  explicit Reader(const MappedFile& file) : m_file(file), m_bytes(file.bytes()) {}

  std::uint64_t offset() const { return m_offset; }
  std::uint64_t left() const { return m_bytes.size() - m_offset; }
  const std::byte* here() const { return m_bytes.data() + m_offset; }
  void skip(std::uint64_t bytes) { m_offset += bytes; }

  template <typename T>
  Result<T> read(std::string_view what) {
    VITRINE_TRY(need(sizeof(T), what));
    T value;
    std::memcpy(&value, here(), sizeof value);
    m_offset += sizeof value;
    return value;
  }

  Result<std::string_view> string(std::string_view what) {
    const std::uint64_t start = m_offset;
    VITRINE_ASSIGN(const auto length, read<std::uint64_t>(what));
    if (length > left()) {
      return fail(ErrorCode::kInvalidFile,
                  "{} is incomplete or damaged: {} at byte {} claims to be {} bytes long, but only "
                  "{} of the file's {} bytes are left",
                  displayPath(m_file.path()), displayText(what), start, length, left(),
                  m_bytes.size());
    }
    const std::string_view text(reinterpret_cast<const char*>(here()), length);
    m_offset += length;
    return text;
  }

  Result<void> need(std::uint64_t bytes, std::string_view what) const {
    if (bytes <= left()) return {};
    return fail(ErrorCode::kInvalidFile,
                "{} is incomplete: it ends inside {} (has {} bytes, needs at least {})",
                displayPath(m_file.path()), displayText(what), m_bytes.size(), m_offset + bytes);
  }

  /// For counts that the rest of the file cannot hold.
  tl::unexpected<Error> tooMany(std::string_view what, std::uint64_t count,
                                std::string_view of) const {
    return fail(
        ErrorCode::kInvalidFile,
        "{} is incomplete or damaged: {} claims to hold {} {}, but only {} of the file's {} "
        "bytes are left",
        displayPath(m_file.path()), displayText(what), count, of, left(), m_bytes.size());
  }

  template <typename... Args>
  tl::unexpected<Error> damaged(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::kInvalidFile, "{}: {} (at byte {})", displayPath(m_file.path()),
                fmt::format(format, std::forward<Args>(args)...), m_offset);
  }

 private:
  const MappedFile& m_file;
  std::span<const std::byte> m_bytes;
  std::uint64_t m_offset = 0;
};

Result<GgufType> readType(Reader& reader, std::string_view key) {
  VITRINE_ASSIGN(const auto type, reader.read<std::uint32_t>(key));
  if (type > static_cast<std::uint32_t>(GgufType::kFloat64)) {
    return reader.damaged("{} has the unknown value type {}", displayText(key), type);
  }
  return static_cast<GgufType>(type);
}

Result<GgufArray> readArray(Reader& reader, std::string_view key, int depth) {
  GgufArray array;
  VITRINE_ASSIGN(array.elementType, readType(reader, key));
  VITRINE_ASSIGN(array.count, reader.read<std::uint64_t>(key));
  array.data = reader.here();
  const std::uint64_t count = array.count;
  if (const int bytes = plainBytes(array.elementType); bytes > 0) {
    if (count > reader.left() / static_cast<unsigned>(bytes)) {
      return reader.tooMany(key, count,
                            fmt::format("elements of type {}", nameOf(array.elementType)));
    }
    reader.skip(count * static_cast<unsigned>(bytes));
    return array;
  }
  const bool strings = array.elementType == GgufType::kString;
  const std::uint64_t minBytes = strings ? 8 : 12;
  if (count > reader.left() / minBytes) {
    return reader.tooMany(key, count, strings ? "texts" : "arrays");
  }
  if (strings) {
    if (count > kMaxStrings) {
      return reader.damaged("{} holds {} texts, more than the {} that this program reads",
                            displayText(key), count, kMaxStrings);
    }
    array.strings.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      VITRINE_ASSIGN(const auto text, reader.string(key));
      array.strings.push_back(text);
    }
    return array;
  }
  if (depth >= kMaxNesting) {
    return reader.damaged("{} nests arrays more than {} deep", displayText(key), kMaxNesting);
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (auto inner = readArray(reader, key, depth + 1); !inner) {
      return tl::unexpected(std::move(inner).error());
    }
  }
  return array;
}

template <typename T, typename Wide>
Result<GgufValue> readPlain(Reader& reader, GgufType type, std::string_view key) {
  VITRINE_ASSIGN(const auto value, reader.read<T>(key));
  return GgufValue{type, static_cast<Wide>(value)};
}

Result<GgufValue> readValue(Reader& reader, std::string_view key) {
  VITRINE_ASSIGN(const GgufType type, readType(reader, key));
  switch (type) {
    case GgufType::kUint8:
      return readPlain<std::uint8_t, std::uint64_t>(reader, type, key);
    case GgufType::kUint16:
      return readPlain<std::uint16_t, std::uint64_t>(reader, type, key);
    case GgufType::kUint32:
      return readPlain<std::uint32_t, std::uint64_t>(reader, type, key);
    case GgufType::kUint64:
      return readPlain<std::uint64_t, std::uint64_t>(reader, type, key);
    case GgufType::kInt8:
      return readPlain<std::int8_t, std::int64_t>(reader, type, key);
    case GgufType::kInt16:
      return readPlain<std::int16_t, std::int64_t>(reader, type, key);
    case GgufType::kInt32:
      return readPlain<std::int32_t, std::int64_t>(reader, type, key);
    case GgufType::kInt64:
      return readPlain<std::int64_t, std::int64_t>(reader, type, key);
    case GgufType::kFloat32:
      return readPlain<float, double>(reader, type, key);
    case GgufType::kFloat64:
      return readPlain<double, double>(reader, type, key);
    case GgufType::kBool: {
      VITRINE_ASSIGN(const auto value, reader.read<std::uint8_t>(key));
      if (value > 1) return reader.damaged("{} is a bool of value {}", displayText(key), value);
      return GgufValue{type, value != 0};
    }
    case GgufType::kString: {
      VITRINE_ASSIGN(const auto value, reader.string(key));
      return GgufValue{type, value};
    }
    case GgufType::kArray: {
      VITRINE_ASSIGN(auto value, readArray(reader, key, 0));
      return GgufValue{type, std::move(value)};
    }
  }
  return reader.damaged("{} has an unknown type", displayText(key));
}

/// What a file is that does not begin with "GGUF", as far as its first bytes tell.
std::string_view guessKind(std::string_view head) {
  if (head.starts_with("version https://git-lfs")) {
    return "a Git LFS pointer; fetch the real file (git lfs pull)";
  }
  if (head.starts_with("<!DOCTYPE") || head.starts_with("<!doctype") || head.starts_with("<html")) {
    return "a web page; the download went wrong";
  }
  if (head.starts_with("lmgg") || head.starts_with("tjgg") || head.starts_with("fmgg")) {
    return "in a format from before GGUF; convert it again";
  }
  if (head.starts_with("PK")) return "a zip archive or a PyTorch file; convert it to GGUF";
  if (head.size() > 8 && head[8] == '{') return "a safetensors file; convert it to GGUF";
  if (head.find_first_not_of('\0') == std::string_view::npos) {
    return "only zeros; was its download interrupted?";
  }
  return "something else";
}

Result<void> readPreamble(Reader& reader, const MappedFile& file) {
  const std::string_view head(reinterpret_cast<const char*>(reader.here()),
                              std::min<std::uint64_t>(reader.left(), 64));
  if (!head.starts_with("GGUF")) {
    if (std::string_view("GGUF").starts_with(head)) return reader.need(24, "the header");
    return fail(ErrorCode::kInvalidFile, "{} is not a GGUF file: it is {}",
                displayPath(file.path()), guessKind(head));
  }
  reader.skip(4);
  VITRINE_ASSIGN(const auto version, reader.read<std::uint32_t>("the version"));
  if (version == 2 || version == 3) return {};
  if (version != 0 && (version & 0xFFFFU) == 0) {
    return fail(ErrorCode::kUnsupported,
                "{} is a big-endian GGUF file; only little-endian ones "
                "can be read",
                displayPath(file.path()));
  }
  return fail(ErrorCode::kUnsupported, "{} has GGUF version {}; versions 2 and 3 can be read",
              displayPath(file.path()), version);
}

Result<std::uint64_t> readAlignment(const GgufPart& part) {
  const auto entry = part.values.find("general.alignment");
  if (entry == part.values.end()) return 32;
  const GgufValue& value = entry->second;
  if (value.type != GgufType::kUint32) {
    return fail(ErrorCode::kInvalidFile, "{}: general.alignment has the type {}, uint32 is right",
                displayPath(part.file->path()), nameOf(value.type));
  }
  const std::uint64_t alignment = std::get<std::uint64_t>(value.value);
  if (!std::has_single_bit(alignment) || alignment < 8 || alignment > kMaxAlignment) {
    return fail(ErrorCode::kInvalidFile,
                "{}: general.alignment is {}, but must be a power of two from 8 to {}",
                displayPath(part.file->path()), alignment, kMaxAlignment);
  }
  return alignment;
}

/// The entry alone; its offset (relative to the data) stays in `relativeOffset`.
Result<GgufTensor> readTensor(Reader& reader, std::uint64_t& relativeOffset) {
  GgufTensor tensor;
  const std::uint64_t start = reader.offset();
  VITRINE_ASSIGN(tensor.name, reader.string("a tensor's name"));
  if (tensor.name.empty() || tensor.name.size() > kMaxNameBytes) {
    return reader.damaged("a tensor's name has {} bytes", tensor.name.size());
  }
  const std::string label = fmt::format("tensor {}", displayText(tensor.name));
  VITRINE_ASSIGN(const auto nDims, reader.read<std::uint32_t>(label));
  if (nDims < 1 || nDims > 4) {
    return reader.damaged("{} has {} dimensions; 1 to 4 are possible", label, nDims);
  }
  tensor.nDims = static_cast<int>(nDims);
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < nDims; ++i) {
    VITRINE_ASSIGN(const auto length, reader.read<std::uint64_t>(label));
    if (length == 0 ||
        length > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return reader.damaged("dimension {} of {} is {}", i, label,
                            static_cast<std::int64_t>(length));
    }
    if (elements > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / length) {
      return reader.damaged("{} (at byte {}) has more elements than 63 bits can count", label,
                            start);
    }
    elements *= length;
    tensor.dims[i] = length;
  }
  VITRINE_ASSIGN(const auto type, reader.read<std::uint32_t>(label));
  tensor.type = ggufTensorType(type);
  VITRINE_ASSIGN(relativeOffset, reader.read<std::uint64_t>(label));
  if (tensor.type.blockValues == 0) return tensor;  // size unknown; cannot be loaded anyhow
  const auto blockValues = static_cast<std::uint64_t>(tensor.type.blockValues);
  if (tensor.dims[0] % blockValues != 0) {
    return reader.damaged("{} has rows of {} elements, but its type {} comes in blocks of {}",
                          label, tensor.dims[0], tensor.type.name, blockValues);
  }
  const std::uint64_t blocks = elements / blockValues;
  const auto blockBytes = static_cast<std::uint64_t>(tensor.type.blockBytes);
  if (blocks > std::numeric_limits<std::int64_t>::max() / blockBytes) {
    return reader.damaged("{} has more bytes than 63 bits can count", label);
  }
  tensor.bytes = blocks * blockBytes;
  return tensor;
}

Result<void> checkSplitKeys(GgufPart& part) {
  const auto& path = part.file->path();
  VITRINE_ASSIGN(const auto no, unsignedValue(part.values, "split.no", path));
  VITRINE_ASSIGN(const auto count, unsignedValue(part.values, "split.count", path));
  VITRINE_ASSIGN(const auto tensors, unsignedValue(part.values, "split.tensors.count", path));
  if (!count || *count <= 1) return {};
  if (*count > 65535 || !no || *no >= *count) {
    return fail(ErrorCode::kInvalidFile, "{}: split.no is {} and split.count is {}",
                displayPath(path), no.value_or(0), *count);
  }
  part.splitNo = *no;
  part.splitCount = *count;
  part.splitTensors = tensors.value_or(0);
  return {};
}

/// Offsets and ends against the file, and no two tensors on the same bytes.
Result<void> placeTensors(GgufPart& part, const std::vector<std::uint64_t>& relative,
                          std::uint64_t alignment, std::uint64_t infoEnd) {
  const std::span<const std::byte> bytes = part.file->bytes();
  const std::string name = displayPath(part.file->path());
  const std::uint64_t dataBegin = (infoEnd + alignment - 1) / alignment * alignment;
  part.headerBytes = std::min<std::uint64_t>(infoEnd, bytes.size());
  part.dataEnd = dataBegin;
  std::uint64_t needed = 0;
  std::string_view last;
  std::vector<std::pair<std::uint64_t, std::size_t>> order;  // begin, tensor
  for (std::size_t i = 0; i < part.tensors.size(); ++i) {
    const GgufTensor& tensor = part.tensors[i];
    if (relative[i] % alignment != 0) {
      return fail(ErrorCode::kInvalidFile,
                  "{}: tensor {} begins at offset {}, which is not a multiple of the alignment {}",
                  name, displayText(tensor.name), relative[i], alignment);
    }
    constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
    if (relative[i] > kMax - dataBegin || tensor.bytes > kMax - dataBegin - relative[i]) {
      return fail(ErrorCode::kInvalidFile,
                  "{}: tensor {} has offset {} and {} bytes, which is "
                  "beyond any file",
                  name, displayText(tensor.name), relative[i], tensor.bytes);
    }
    const std::uint64_t end = dataBegin + relative[i] + tensor.bytes;
    if (end > needed) {
      needed = end;
      last = tensor.name;
    }
    order.emplace_back(dataBegin + relative[i], i);
  }
  if (needed > bytes.size()) {
    return fail(
        ErrorCode::kInvalidFile,
        "{} is incomplete: it has {} bytes, but needs {} (the end of tensor {}); download it "
        "again",
        name, bytes.size(), needed, displayText(last));
  }
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) {
    GgufTensor& tensor = part.tensors[order[i].second];
    if (i > 0) {
      const GgufTensor& before = part.tensors[order[i - 1].second];
      if (order[i - 1].first + before.bytes > order[i].first) {
        return fail(ErrorCode::kInvalidFile, "{}: tensors {} and {} overlap at byte {}", name,
                    displayText(before.name), displayText(tensor.name), order[i].first);
      }
    }
    tensor.data = bytes.data() + order[i].first;
    part.dataEnd = std::max(part.dataEnd, order[i].first + tensor.bytes);
  }
  return {};
}

}  // namespace

Result<std::optional<std::uint64_t>> unsignedValue(
    const std::unordered_map<std::string_view, GgufValue>& values, std::string_view key,
    const std::filesystem::path& path) {
  const auto entry = values.find(key);
  if (entry == values.end()) return std::nullopt;
  const GgufValue& value = entry->second;
  if (const auto* positive = std::get_if<std::uint64_t>(&value.value)) return *positive;
  if (const auto* integer = std::get_if<std::int64_t>(&value.value)) {
    if (*integer >= 0) return static_cast<std::uint64_t>(*integer);
    return fail(ErrorCode::kInvalidFile, "{}: {} is {}, but must not be negative",
                displayPath(path), key, *integer);
  }
  return fail(ErrorCode::kInvalidFile, "{}: {} has the type {}, but must be an integer",
              displayPath(path), key, nameOf(value.type));
}

Result<GgufPart> parseGgufPart(const std::filesystem::path& path) {
  GgufPart part;
  VITRINE_ASSIGN(part.file, MappedFile::open(path));
  Reader reader(*part.file);
  VITRINE_TRY(readPreamble(reader, *part.file));
  VITRINE_ASSIGN(const auto nTensors, reader.read<std::uint64_t>("the number of tensors"));
  VITRINE_ASSIGN(const auto nValues, reader.read<std::uint64_t>("the number of metadata values"));
  if (nTensors > reader.left() / kMinTensorBytes) {
    return reader.tooMany("the header", nTensors, "tensors");
  }
  if (nValues > reader.left() / kMinValueBytes) {
    return reader.tooMany("the header", nValues, "metadata values");
  }
  for (std::uint64_t i = 0; i < nValues; ++i) {
    VITRINE_ASSIGN(const auto key, reader.string("a metadata key"));
    if (key.empty() || key.size() > kMaxNameBytes) {
      return reader.damaged("metadata key {} has {} bytes", i, key.size());
    }
    VITRINE_ASSIGN(auto value, readValue(reader, key));
    if (!part.values.emplace(key, std::move(value)).second) {
      return reader.damaged("the metadata key {} is there twice", displayText(key));
    }
  }
  VITRINE_ASSIGN(const auto alignment, readAlignment(part));
  VITRINE_TRY(checkSplitKeys(part));

  std::vector<std::uint64_t> relativeOffsets;
  std::unordered_map<std::string_view, std::uint64_t> seen;  // name, where
  for (std::uint64_t i = 0; i < nTensors; ++i) {
    const std::uint64_t start = reader.offset();
    std::uint64_t relative = 0;
    VITRINE_ASSIGN(auto tensor, readTensor(reader, relative));
    if (const auto [before, isNew] = seen.emplace(tensor.name, start); !isNew) {
      return reader.damaged("tensor {} is there twice (at bytes {} and {})",
                            displayText(tensor.name), before->second, start);
    }
    part.tensors.push_back(std::move(tensor));
    relativeOffsets.push_back(relative);
  }
  VITRINE_TRY(placeTensors(part, relativeOffsets, alignment, reader.offset()));
  return part;
}

}  // namespace vitrine::engine

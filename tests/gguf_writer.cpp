#include "tests/gguf_writer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "kernels/api/half.h"

namespace vitrine::test {
namespace {

using kernels::TensorType;

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void putText(std::string& out, std::string_view text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}

template <typename T>
std::string plain(T value) {
  std::string bytes;
  put(bytes, value);
  return bytes;
}

// Type numbers of the format.
enum : std::uint32_t {
  kU16 = 2,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kText = 8,
  kArray = 9,
  kU64 = 10
};

std::uint32_t typeNumber(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return 0;
    case TensorType::kF16:
      return 1;
    case TensorType::kQ4_0:
      return 2;
    case TensorType::kQ4_1:
      return 3;
    case TensorType::kQ8_0:
      return 8;
    case TensorType::kBF16:
      return 30;
  }
  return 0;
}

void encodeBlock(TensorType type, const float* x, std::string& out) {
  if (type == TensorType::kQ8_0) {
    float largest = 0.0F;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[i]));
    const float scale = kernels::halfToFloat(kernels::floatToHalf(largest / 127.0F));
    put(out, kernels::floatToHalf(scale));
    for (int i = 0; i < 32; ++i) {
      const float q = scale > 0.0F ? std::round(x[i] / scale) : 0.0F;
      put(out, static_cast<std::int8_t>(std::clamp(q, -127.0F, 127.0F)));
    }
    return;
  }
  const auto [low, high] = std::minmax_element(x, x + 32);
  const bool signedScale = type == TensorType::kQ4_0;
  const float extreme = std::fabs(*low) > std::fabs(*high) ? *low : *high;
  const float wanted = signedScale ? extreme / -8.0F : (*high - *low) / 15.0F;
  const float scale = kernels::halfToFloat(kernels::floatToHalf(wanted));
  const float offset = signedScale ? -8.0F * scale : *low;
  put(out, kernels::floatToHalf(scale));
  if (!signedScale) put(out, kernels::floatToHalf(offset));
  const auto quantize = [&](float value) {
    const float q = scale != 0.0F ? std::round((value - offset) / scale) : 0.0F;
    return static_cast<int>(std::clamp(q, 0.0F, 15.0F));
  };
  for (int i = 0; i < 16; ++i) {
    put(out, static_cast<std::uint8_t>(quantize(x[i]) | quantize(x[i + 16]) << 4));
  }
}

[[noreturn]] void giveUp(const char* what, const std::filesystem::path& path) {
  std::fprintf(stderr, "%s %s\n", what, path.c_str());
  std::abort();
}

}  // namespace

std::string encodeTensor(TensorType type, const std::vector<float>& values) {
  std::string out;
  const auto info = kernels::tensorTypeInfo(type);
  out.reserve(values.size() / static_cast<std::size_t>(info.blockValues) *
              static_cast<std::size_t>(info.blockBytes));
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(info.blockValues)) {
    switch (type) {
      case TensorType::kF32:
        put(out, values[i]);
        break;
      case TensorType::kF16:
        put(out, kernels::floatToHalf(values[i]));
        break;
      case TensorType::kBF16:
        put(out, kernels::floatToBfloat16(values[i]));
        break;
      default:
        encodeBlock(type, values.data() + i, out);
    }
  }
  return out;
}

void GgufWriter::setRaw(const std::string& key, std::uint32_t type, std::string bytes) {
  for (Value& value : m_values) {
    if (value.key != key) continue;
    value.type = type;
    value.bytes = std::move(bytes);
    return;
  }
  m_values.push_back({key, type, std::move(bytes)});
}

void GgufWriter::setText(const std::string& key, std::string_view value) {
  std::string bytes;
  putText(bytes, value);
  setRaw(key, kText, bytes);
}

void GgufWriter::setU16(const std::string& key, std::uint16_t value) {
  setRaw(key, kU16, plain(value));
}
void GgufWriter::setU32(const std::string& key, std::uint32_t value) {
  setRaw(key, kU32, plain(value));
}
void GgufWriter::setI32(const std::string& key, std::int32_t value) {
  setRaw(key, kI32, plain(value));
}
void GgufWriter::setU64(const std::string& key, std::uint64_t value) {
  setRaw(key, kU64, plain(value));
}
void GgufWriter::setF32(const std::string& key, float value) {
  setRaw(key, kF32, plain(value));
}
void GgufWriter::setBool(const std::string& key, bool value) {
  setRaw(key, kBool, plain(static_cast<std::uint8_t>(value)));
}

void GgufWriter::setTexts(const std::string& key, const std::vector<std::string>& values) {
  std::string bytes;
  put<std::uint32_t>(bytes, kText);
  put<std::uint64_t>(bytes, values.size());
  for (const std::string& value : values) putText(bytes, value);
  setRaw(key, kArray, bytes);
}

void GgufWriter::setI32s(const std::string& key, const std::vector<std::int32_t>& values) {
  std::string bytes;
  put<std::uint32_t>(bytes, kI32);
  put<std::uint64_t>(bytes, values.size());
  for (const std::int32_t value : values) put(bytes, value);
  setRaw(key, kArray, bytes);
}

void GgufWriter::remove(const std::string& key) {
  std::erase_if(m_values, [&](const Value& value) { return value.key == key; });
}

void GgufWriter::setTensor(const std::string& name, std::int64_t rows, std::int64_t cols,
                           const std::vector<float>& values, TensorType type) {
  std::vector<std::uint64_t> dims{static_cast<std::uint64_t>(cols)};
  if (rows > 0) dims.push_back(static_cast<std::uint64_t>(rows));
  setRawTensor(name, std::move(dims), typeNumber(type), encodeTensor(type, values));
}

void GgufWriter::setRawTensor(const std::string& name, std::vector<std::uint64_t> dims,
                              std::uint32_t type, std::string bytes) {
  Tensor made{name, std::move(dims), type, std::move(bytes)};
  for (Tensor& tensor : m_tensors) {
    if (tensor.name != name) continue;
    tensor = std::move(made);
    return;
  }
  m_tensors.push_back(std::move(made));
}

void GgufWriter::removeTensor(const std::string& name) {
  std::erase_if(m_tensors, [&](const Tensor& tensor) { return tensor.name == name; });
}

void GgufWriter::takeTensor(const GgufWriter& other, const std::string& name) {
  for (const Tensor& tensor : other.m_tensors) {
    if (tensor.name == name) setRawTensor(name, tensor.dims, tensor.type, tensor.bytes);
  }
}

std::vector<std::string> GgufWriter::tensorNames() const {
  std::vector<std::string> names;
  for (const Tensor& tensor : m_tensors) names.push_back(tensor.name);
  return names;
}

std::string GgufWriter::bytes() const {
  std::string out = "GGUF";
  put(out, version);
  put<std::uint64_t>(out, m_tensors.size());
  put<std::uint64_t>(out, m_values.size());
  for (const Value& value : m_values) {
    putText(out, value.key);
    put(out, value.type);
    out += value.bytes;
  }
  std::string data;
  const auto pad = [this](std::string& text) {
    while (text.size() % alignment != 0) text += '\0';
  };
  for (const Tensor& tensor : m_tensors) {
    pad(data);
    putText(out, tensor.name);
    put(out, static_cast<std::uint32_t>(tensor.dims.size()));
    for (const std::uint64_t length : tensor.dims) put(out, length);
    put(out, tensor.type);
    put<std::uint64_t>(out, data.size());
    data += tensor.bytes;
  }
  pad(data);
  pad(out);
  return out + data;
}

std::filesystem::path GgufWriter::save(const std::filesystem::path& path) const {
  writeFile(path, bytes());
  return path;
}

void writeFile(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) giveUp("cannot write", path);
}

std::string readFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) giveUp("cannot read", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace vitrine::test

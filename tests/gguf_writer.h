#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/api/tensor_type.h"

namespace vitrine::test {

/// Writes GGUF files for tests. Checks nothing on purpose, so that broken files can be made, too.
/// A key or tensor that is set again is replaced in its place.
class GgufWriter {
 public:
  void setText(const std::string& key, std::string_view value);
  void setU32(const std::string& key, std::uint32_t value);
  void setU16(const std::string& key, std::uint16_t value);
  void setI32(const std::string& key, std::int32_t value);
  void setU64(const std::string& key, std::uint64_t value);
  void setF32(const std::string& key, float value);
  void setBool(const std::string& key, bool value);
  void setTexts(const std::string& key, const std::vector<std::string>& values);
  void setI32s(const std::string& key, const std::vector<std::int32_t>& values);
  /// A value of any type number with its bytes as they stand in the file.
  void setRaw(const std::string& key, std::uint32_t type, std::string bytes);
  void remove(const std::string& key);

  /// A matrix [rows, cols], or a vector with rows = 0; values row-major. Quantized types need
  /// cols % 32 == 0.
  void setTensor(const std::string& name, std::int64_t rows, std::int64_t cols,
                 const std::vector<float>& values,
                 kernels::TensorType type = kernels::TensorType::kF32);
  /// A tensor of any type number, dims as in the file (fastest first), with its bytes.
  void setRawTensor(const std::string& name, std::vector<std::uint64_t> dims, std::uint32_t type,
                    std::string bytes);
  void removeTensor(const std::string& name);
  /// Takes over a tensor of another writer (to cut a model in parts).
  void takeTensor(const GgufWriter& other, const std::string& name);
  std::vector<std::string> tensorNames() const;

  std::uint32_t version = 3;
  std::uint32_t alignment = 32;  ///< of the data; the key general.alignment is not written for it

  std::string bytes() const;
  /// Returns the path, for use in place. Fails the program when it cannot write.
  std::filesystem::path save(const std::filesystem::path& path) const;

 private:
  struct Value {
    std::string key;
    std::uint32_t type;
    std::string bytes;
  };
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dims;
    std::uint32_t type;
    std::string bytes;
  };
  std::vector<Value> m_values;
  std::vector<Tensor> m_tensors;
};

/// Values in a file's format. n % 32 == 0 for quantized types.
std::string encodeTensor(kernels::TensorType type, const std::vector<float>& values);

/// Writes a file; fails the program when it cannot.
void writeFile(const std::filesystem::path& path, std::string_view bytes);
std::string readFile(const std::filesystem::path& path);

}  // namespace vitrine::test

#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/api/half.h"
#include "kernels/api/tensor_type.h"

namespace vitrine::test {

/// Numbers that are the same on every machine: splitmix64 (Steele, Lea & Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : m_state(seed) {}

  std::uint64_t next() {
    std::uint64_t z = m_state += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  /// 0 … n − 1
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  /// −1 … 1
  float unit() { return static_cast<float>(next() >> 40) * 0x1p-23F - 1.0F; }
  /// About normal, sigma 1 (sum of three).
  float normal() { return unit() + unit() + unit(); }

  std::vector<float> normals(std::size_t n, float scale = 1.0F) {
    std::vector<float> values(n);
    for (float& v : values) v = scale * normal();
    return values;
  }

  /// `rows` rows of a file type with values of about `scale`; n is a multiple of the type's block.
  std::vector<std::byte> fileRows(kernels::TensorType type, int rows, int n, float scale = 1.0F) {
    const auto info = kernels::tensorTypeInfo(type);
    std::vector<std::byte> bytes;
    const auto put = [&](const auto& value) {
      const auto* from = reinterpret_cast<const std::byte*>(&value);
      bytes.insert(bytes.end(), from, from + sizeof value);
    };
    using kernels::TensorType;
    for (int block = 0; block < rows * (n / info.blockValues); ++block) {
      switch (type) {
        case TensorType::kF32:
          put(scale * normal());
          break;
        case TensorType::kF16:
          put(kernels::floatToHalf(scale * normal()));
          break;
        case TensorType::kBF16:
          put(kernels::floatToBfloat16(scale * normal()));
          break;
        case TensorType::kQ8_0:
          put(kernels::floatToHalf(scale / 64.0F * (1.0F + 0.5F * unit())));
          break;
        case TensorType::kQ4_0:
          put(kernels::floatToHalf(scale / 4.0F * unit()));
          break;
        case TensorType::kQ4_1:
          put(kernels::floatToHalf(scale / 6.0F * (1.0F + 0.5F * unit())));
          put(kernels::floatToHalf(scale * -1.3F * (1.0F + 0.2F * unit())));
          break;
      }
      const std::size_t whole = bytes.size() / info.blockBytes * info.blockBytes;
      const std::size_t missing = (info.blockBytes - (bytes.size() - whole)) % info.blockBytes;
      for (std::size_t i = 0; i < missing; ++i) bytes.push_back(static_cast<std::byte>(next()));
    }
    return bytes;
  }

 private:
  std::uint64_t m_state;
};

}  // namespace vitrine::test

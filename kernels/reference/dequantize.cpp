#include "kernels/reference/dequantize.h"

#include <cstring>

#include "kernels/api/half.h"

namespace vitrine::kernels::reference {
namespace {

std::uint16_t loadU16(const std::byte* p) {
  std::uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

}  // namespace

void dequantize(TensorType type, const std::byte* data, float* values, std::int64_t n) {
  switch (type) {
    case TensorType::kF32:
      std::memcpy(values, data, static_cast<std::size_t>(n) * 4);
      return;
    case TensorType::kF16:
      for (std::int64_t i = 0; i < n; ++i) values[i] = halfToFloat(loadU16(data + 2 * i));
      return;
    case TensorType::kBF16:
      for (std::int64_t i = 0; i < n; ++i) values[i] = bfloat16ToFloat(loadU16(data + 2 * i));
      return;
    case TensorType::kQ8_0:
      for (std::int64_t i = 0; i < n; i += 32, data += 34) {
        const float d = halfToFloat(loadU16(data));
        const auto* q = reinterpret_cast<const std::int8_t*>(data + 2);
        for (int j = 0; j < 32; ++j) values[i + j] = d * static_cast<float>(q[j]);
      }
      return;
    case TensorType::kQ4_0:
      for (std::int64_t i = 0; i < n; i += 32, data += 18) {
        const float d = halfToFloat(loadU16(data));
        for (int j = 0; j < 16; ++j) {
          const int byte = static_cast<int>(data[2 + j]);
          values[i + j] = d * static_cast<float>((byte & 15) - 8);
          values[i + j + 16] = d * static_cast<float>((byte >> 4) - 8);
        }
      }
      return;
    case TensorType::kQ4_1:
      for (std::int64_t i = 0; i < n; i += 32, data += 20) {
        const float d = halfToFloat(loadU16(data));
        const float m = halfToFloat(loadU16(data + 2));
        for (int j = 0; j < 16; ++j) {
          const int byte = static_cast<int>(data[4 + j]);
          values[i + j] = d * static_cast<float>(byte & 15) + m;
          values[i + j + 16] = d * static_cast<float>(byte >> 4) + m;
        }
      }
      return;
  }
}

}  // namespace vitrine::kernels::reference

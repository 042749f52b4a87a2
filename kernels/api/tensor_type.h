#pragma once

#include <cstddef>
#include <cstdint>

namespace vitrine::kernels {

/// Element types of weights as they lie in model files. Block types hold 32 values each.
enum class TensorType : std::uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1 };

struct TensorTypeInfo {
  const char* name;
  int blockValues;  ///< values in one block (1 for plain types)
  int blockBytes;   ///< bytes of one block
};

/// Q8_0: fp16 scale, 32 int8. Q4_0: fp16 scale, 16 bytes (low nibbles first half), x = d·(q − 8).
/// Q4_1: fp16 scale, fp16 minimum, 16 bytes, x = d·q + m.
constexpr TensorTypeInfo tensorTypeInfo(TensorType type) {
  switch (type) {
    case TensorType::kF32: return {"F32", 1, 4};
    case TensorType::kF16: return {"F16", 1, 2};
    case TensorType::kBF16: return {"BF16", 1, 2};
    case TensorType::kQ8_0: return {"Q8_0", 32, 34};
    case TensorType::kQ4_0: return {"Q4_0", 32, 18};
    case TensorType::kQ4_1: return {"Q4_1", 32, 20};
  }
  return {"?", 1, 0};
}

}  // namespace vitrine::kernels

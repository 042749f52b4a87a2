#pragma once

namespace vitrine::engine {

/// How weights are held in memory. Native: as in the file (block types stay blocks).
enum class WeightMode { kNative, kFp16, kBf16, kInt8 };
/// Activations that enter a matrix product. kInt8 needs WeightMode::kInt8 (W8A8).
enum class ActivationMode { kFp16, kInt8 };
/// Element type of the KV cache. kInt8: one FP32 scale per token and KV head, K and V apart.
enum class KvType { kFp16, kInt8 };

struct WeightPrecision {
  /// Matrices. Norms and biases stay FP32; the embedding lookup reads the file's own values.
  WeightMode weights = WeightMode::kNative;
  ActivationMode activations = ActivationMode::kFp16;
  int groupSize = 32;  ///< weights of a row that share an INT8 scale: 32 or 64

  bool operator==(const WeightPrecision&) const = default;
};

const char* toString(WeightMode mode);      // "native", "fp16", "bf16", "int8"
const char* toString(ActivationMode mode);  // "fp16", "int8"
const char* toString(KvType type);          // "fp16", "int8"

}  // namespace vitrine::engine

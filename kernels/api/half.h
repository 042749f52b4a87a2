#pragma once

#include <bit>
#include <cstdint>

namespace vitrine::kernels {

/// IEEE binary16 to FP32, exact (subnormals, infinities and NaN included).
inline float halfToFloat(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000U) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1FU;
  const std::uint32_t mantissa = h & 0x3FFU;
  if (exponent == 0x1FU) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
  const float value = static_cast<float>(mantissa) * 0x1p-24F;  // zero or subnormal
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

/// FP32 to IEEE binary16, round to nearest even; too large becomes infinity.
inline std::uint16_t floatToHalf(float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return sign | 0x7E00U;   // NaN
  if (magnitude >= 0x477FF000U) return sign | 0x7C00U;  // rounds to 65536 or more
  if (magnitude < 0x38800000U) {                        // subnormal: let the FPU round
    const float scaled = std::bit_cast<float>(magnitude) + 0.5F;
    return sign | static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(scaled) - 0x3F000000U);
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return sign | static_cast<std::uint16_t>((rounded - 0x38000000U) >> 13);
}

/// The same, but finite values stay finite: what FP16 cannot hold becomes ±65504.
inline std::uint16_t floatToHalfSaturated(float f) {
  const std::uint16_t h = floatToHalf(f);
  const bool becameInfinite =
      (h & 0x7FFFU) == 0x7C00U && (std::bit_cast<std::uint32_t>(f) & 0x7FFFFFFFU) != 0x7F800000U;
  return becameInfinite ? static_cast<std::uint16_t>((h & 0x8000U) | 0x7BFFU) : h;
}

inline float bfloat16ToFloat(std::uint16_t b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}

/// FP32 to bfloat16, round to nearest even; NaN stays NaN.
inline std::uint16_t floatToBfloat16(float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace vitrine::kernels

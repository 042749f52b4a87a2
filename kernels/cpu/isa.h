#pragma once

#include <cstdint>

namespace vitrine::kernels::cpu {

/// The instruction sets that the fast kernels are written for, weakest first.
enum class Isa : std::uint8_t {
  kPortable,  ///< plain C++
  kAvx2,      ///< AVX2, FMA, F16C
  kAvx512,    ///< AVX-512 F, BW, DQ, VL, VNNI, BF16
};

/// "portable", "AVX2", "AVX-512 VNNI BF16"
const char* nameOf(Isa isa);
/// As the environment variable VITRINE_ISA spells it: "portable", "avx2", "avx512".
const char* shortName(Isa isa);

/// Whether this build has the kernels and this processor (and its system) can run them.
bool isSupported(Isa isa);
/// The strongest that is supported.
Isa bestIsa();

}  // namespace vitrine::kernels::cpu

#include "kernels/cpu/isa.h"

namespace vitrine::kernels::cpu {

const char* nameOf(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "AVX2";
    case Isa::kAvx512:
      return "AVX-512 VNNI BF16";
  }
  return "?";
}

const char* shortName(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "?";
}

bool isSupported(Isa isa) {
#ifdef VITRINE_CPU_X86
  // The compiler's helper also asks the system whether it saves the wide registers.
  __builtin_cpu_init();
  switch (isa) {
    case Isa::kPortable:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    case Isa::kAvx512:
      return isSupported(Isa::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni") &&
             __builtin_cpu_supports("avx512bf16");
  }
  return false;
#else
  return isa == Isa::kPortable;
#endif
}

Isa bestIsa() {
  if (isSupported(Isa::kAvx512)) return Isa::kAvx512;
  if (isSupported(Isa::kAvx2)) return Isa::kAvx2;
  return Isa::kPortable;
}

}  // namespace vitrine::kernels::cpu

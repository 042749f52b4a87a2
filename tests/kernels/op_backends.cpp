#include <cstdlib>

#include "tests/kernels/cpu_ops.h"
#include "tests/kernels/op_cases.h"
#ifdef VITRINE_TEST_CUDA
#include "tests/kernels/cuda_ops.h"
#endif

namespace vitrine::test {

std::vector<OpBackend> opBackends() {
  std::vector<OpBackend> all = {referenceOps()};
  for (const auto isa : {kernels::cpu::Isa::kPortable, kernels::cpu::Isa::kAvx2,
                         kernels::cpu::Isa::kAvx512}) {
    if (kernels::cpu::isSupported(isa)) all.push_back(cpuOps(isa));
  }
#ifdef VITRINE_TEST_CUDA
  all.push_back(cudaOps());
  all.push_back(cudaDecodeOps());
#endif
  if (const char* wanted = std::getenv("VITRINE_OP_BACKEND")) {
    std::erase_if(all, [&](const OpBackend& ops) {
      return !ops.name.starts_with(wanted) && ops.name != "reference";
    });
  }
  return all;
}

}  // namespace vitrine::test

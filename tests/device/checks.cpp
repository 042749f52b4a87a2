// device_checks: every case of the operation table on the device, against the reference, and the
// INT8 forms that the table does not have.
//   device_checks [--quick]   every third case (for slow tools that watch)
#include <cstdio>
#include <cstring>
#include <exception>

#include "tests/device/checks_int8.h"
#include "tests/kernels/cuda_ops.h"
#include "tests/kernels/op_table.h"

namespace {

int runAll(bool quick) {
  using namespace vitrine::test;
  const OpBackend ops = cudaOps();
  int ran = 0, failed = 0;
  visitOperations([&](const char* name, auto operation, const auto& cases) {
    if (!(ops.*operation)) return;
    int number = 0;
    for (const auto& one : cases) {
      if (quick && number++ % 3 != 0) continue;
      ++ran;
      const std::string difference = runCase(ops, one.input);
      if (difference.empty()) continue;
      ++failed;
      std::printf("FAIL %s %s: %s\n", name, one.name.c_str(), difference.c_str());
    }
  });
  const vitrine::device::Int8Checks forms = vitrine::device::checkInt8Forms();
  ran += forms.ran;
  failed += forms.failed;
  std::printf("%d of %d cases passed\n", ran - failed, ran);
  return failed == 0 && ran > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return runAll(argc > 1 && std::strcmp(argv[1], "--quick") == 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_checks: %s\n", error.what());
    return 1;
  }
}

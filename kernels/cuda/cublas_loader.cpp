#include <dlfcn.h>

#include "kernels/cuda/blas.h"

namespace vitrine::kernels::cuda {
namespace {

// The functions used have the same signatures and enumerators in 12 and 13. By name: wherever the
// linker looks; then where NVIDIA's own packages put it.
constexpr const char* kLibraries[] = {
    "libcublas.so.13",
    "libcublas.so.12",
    "/usr/local/cuda/lib64/libcublas.so.13",
    "/usr/local/cuda/lib64/libcublas.so.12",
};

struct Loaded {
  CublasFunctions functions;
  std::string problem;  ///< empty: the functions are there
};

template <typename Function>
bool find(void* library, const char* name, Function& function, std::string& problem) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return true;
  problem = std::string("it has no function ") + name;
  return false;
}

bool findAll(void* library, CublasFunctions& f, std::string& problem) {
  return find(library, "cublasCreate_v2", f.create, problem) &&
         find(library, "cublasDestroy_v2", f.destroy, problem) &&
         find(library, "cublasSetStream_v2", f.setStream, problem) &&
         find(library, "cublasSetWorkspace_v2", f.setWorkspace, problem) &&
         find(library, "cublasSetMathMode", f.setMathMode, problem) &&
         find(library, "cublasGemmEx", f.gemmEx, problem);
}

Loaded load() {
  Loaded loaded;
  std::string tried;
  for (const char* name : kLibraries) {
    std::string problem;
    // Never closed: its threads and its state on the device live as long as the process.
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      problem = why != nullptr ? why : "unknown error";
    } else if (findAll(library, loaded.functions, problem)) {
      return loaded;
    }
    tried += tried.empty() ? "" : "; ";
    tried += problem.rfind(name, 0) == 0 ? problem : std::string(name) + ": " + problem;
  }
  loaded.problem =
      "cuBLAS (libcublas.so.13 or .12), which prompts and several chats at once need on a GPU, "
      "could not be loaded. Install NVIDIA's libcublas package or put its folder into "
      "LD_LIBRARY_PATH. (" +
      tried + ")";
  return loaded;
}

}  // namespace

const CublasFunctions* loadCublas(std::string& problem) {
  static const Loaded loaded = load();
  if (loaded.problem.empty()) return &loaded.functions;
  problem = loaded.problem;
  return nullptr;
}

}  // namespace vitrine::kernels::cuda

#pragma once

#include <cuda_runtime.h>

#include <mutex>
#include <utility>

#include "faults.h"

// What every function of the runtime does around its own work: take the lock, be counted, fail if
// that is planned or the device is lost, keep the error for cudaGetLastError().

namespace cuda_on_cpu {

/// The runtime is one big state; one host thread at a time is in it.
std::recursive_mutex& runtimeLock();

/// The error of the calling thread that cudaGetLastError() will give.
cudaError_t& lastError();

enum class ApiKind {
  kWork,      ///< may be called while a stream is recorded
  kUnsafe,    ///< not while a stream is recorded: it could wait for it, or allocate
  kGiveBack,  ///< does its work even if it fails: what is given back is no longer held
};

/// Whether the calling thread may make unsafe calls now; if not, the recordings are spoilt.
bool mayCallUnsafe();

template <typename Work>
cudaError_t apiCall(const char* function, ApiKind kind, Work&& work) {
  const std::lock_guard lock(runtimeLock());
  cudaError_t code = countCall(function);
  if (code == cudaSuccess && kind == ApiKind::kUnsafe && !mayCallUnsafe()) {
    note(std::string(function) + " while a stream is recorded");
    code = cudaErrorStreamCaptureUnsupported;
  }
  if (code == cudaSuccess) {
    code = std::forward<Work>(work)();
  } else if (kind == ApiKind::kGiveBack) {
    std::forward<Work>(work)();
  }
  if (code != cudaSuccess && code != cudaErrorNotReady) lastError() = code;
  return code;
}

}  // namespace cuda_on_cpu

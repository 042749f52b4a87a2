#include <cuda_runtime.h>

#include <cstring>
#include <memory>
#include <string>

#include "api.h"
#include "device.h"
#include "device_memory.h"
#include "streams.h"

// Memory and copies.

using namespace cuda_on_cpu;

namespace {

DeviceMemory& device() {
  return DeviceMemory::instance();
}

/// A copy of `height` rows.
struct Copy {
  char* to;
  std::size_t toPitch;
  const char* from;
  std::size_t fromPitch;
  std::size_t width, height;
  cudaMemcpyKind kind;

  bool writesDevice() const {
    return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  }
  bool readsDevice() const {
    return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  }
  std::size_t extent(std::size_t pitch) const { return (height - 1) * pitch + width; }
  /// Null, or what is wrong with it.
  const char* problem() const {
    if (toPitch < width || fromPitch < width) return "rows overlap";
    if (writesDevice() ? !device().holds(to, extent(toPitch)) : device().isDevice(to)) {
      return "its target is not where the direction says, or too small";
    }
    if (readsDevice() ? !device().holds(from, extent(fromPitch)) : device().isDevice(from)) {
      return "its source is not where the direction says, or too small";
    }
    return nullptr;
  }
  void run() const {
    for (std::size_t row = 0; row < height; ++row) {
      std::memcpy(to + row * toPitch, from + row * fromPitch, width);
    }
  }
  /// When its turn has come.
  void runQueued() const {
    if (const char* what = problem(); what != nullptr) {
      reportFault("a queued copy of " + std::to_string(width * height) + " bytes: " + what,
                  cudaErrorIllegalAddress);
      return;
    }
    run();
  }
  void resolveDefault() {
    if (kind != cudaMemcpyDefault) return;
    const bool isTo = device().isDevice(to), isFrom = device().isDevice(from);
    kind = isTo ? (isFrom ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                : (isFrom ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
  }
};

/// Queues a copy. Pageable memory is read at once and its writing is waited for, as CUDA does;
/// page-locked memory is touched when the stream gets there.
cudaError_t queueCopy(Copy copy, cudaStream_t handle) {
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  copy.resolveDefault();
  if (const char* what = copy.problem(); what != nullptr) {
    note("a copy of " + std::to_string(copy.width * copy.height) + " bytes: " + what);
    return cudaErrorInvalidValue;
  }
  const auto stream = Queue::instance().stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const PinnedMemory& pinned = PinnedMemory::instance();
  const bool staged = !copy.readsDevice() && !pinned.holds(copy.from, copy.extent(copy.fromPitch));
  const bool waited = !copy.writesDevice() && !pinned.holds(copy.to, copy.extent(copy.toPitch));
  if (stream->recording != nullptr) {
    if (staged || waited) {
      note("a copy with pageable host memory is recorded");
      stream->recording->isSpoilt = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    return Queue::instance().add(handle, [copy] { copy.runQueued(); });
  }
  if (staged && !waited) {
    const std::shared_ptr<char[]> stage(new char[copy.width * copy.height]);
    Copy out = copy;
    out.to = stage.get();
    out.toPitch = copy.width;
    out.run();
    copy.from = stage.get();
    copy.fromPitch = copy.width;
    return Queue::instance().add(handle, [copy, stage] { copy.runQueued(); });
  }
  cudaError_t code = Queue::instance().add(handle, [copy] { copy.runQueued(); });
  if (code == cudaSuccess && waited) {
    Queue::instance().runUntil(*stream, stream->queued);
    code = stickyError();
  }
  return code;
}

cudaError_t setBytes(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!device().holds(memory, bytes)) {
    note("setting " + std::to_string(bytes) + " bytes outside of an allocation");
    return cudaErrorInvalidValue;
  }
  return Queue::instance().add(stream, [=] {
    if (device().holds(memory, bytes)) {
      std::memset(memory, value, bytes);
    } else {
      reportFault("queued setting of memory that was freed", cudaErrorIllegalAddress);
    }
  });
}

cudaError_t allocateDevice(void** memory, std::size_t bytes) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  if (driverProblem() != cudaSuccess) return driverProblem();
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  *memory = device().allocate(bytes, currentDevice());
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t freeDevice(void* memory) {
  if (memory == nullptr || device().free(memory)) return cudaSuccess;
  note("freeing device memory that was not allocated, or was freed before");
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return apiCall("cudaMalloc", ApiKind::kUnsafe, [&] { return allocateDevice(memory, bytes); });
}

cudaError_t cudaFree(void* memory) {
  return apiCall("cudaFree", ApiKind::kGiveBack, [&] {
    if (memory == nullptr) return cudaSuccess;
    if (!mayCallUnsafe()) {
      note("cudaFree while a stream is recorded");
      return cudaErrorStreamCaptureUnsupported;
    }
    Queue::instance().runAll();  // it waits for the device
    return freeDevice(memory);
  });
}

cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t handle) {
  return apiCall("cudaMallocAsync", ApiKind::kUnsafe, [&] {
    if (Queue::instance().stream(handle) == nullptr) return cudaErrorInvalidResourceHandle;
    const cudaError_t code = allocateDevice(memory, bytes);
    if (code != cudaErrorMemoryAllocation) return code;
    Queue::instance().runAll();  // what is queued to be freed
    return allocateDevice(memory, bytes);
  });
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  return apiCall("cudaFreeAsync", ApiKind::kGiveBack, [&] {
    if (memory == nullptr) return cudaSuccess;
    if (stickyError() != cudaSuccess) return freeDevice(memory);
    return Queue::instance().add(stream, [memory] {
      if (freeDevice(memory) != cudaSuccess) {
        reportFault("cudaFreeAsync of what is not allocated", cudaErrorInvalidValue);
      }
    });
  });
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return apiCall("cudaHostAlloc", ApiKind::kUnsafe, [&] {
    if (memory == nullptr) return cudaErrorInvalidValue;
    if (driverProblem() != cudaSuccess) return driverProblem();
    *memory = bytes > 0 ? PinnedMemory::instance().allocate(bytes) : nullptr;
    return *memory != nullptr || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* memory) {
  return apiCall("cudaFreeHost", ApiKind::kGiveBack, [&] {
    if (memory == nullptr) return cudaSuccess;
    Queue::instance().runAll();
    if (PinnedMemory::instance().free(memory)) return cudaSuccess;
    note("freeing page-locked memory that was not allocated, or was freed before");
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned) {
  return apiCall("cudaHostRegister", ApiKind::kUnsafe, [&] {
    if (memory == nullptr || bytes == 0) return cudaErrorInvalidValue;
    return PinnedMemory::instance().lock(memory, bytes) ? cudaSuccess
                                                        : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* memory) {
  return apiCall("cudaHostUnregister", ApiKind::kGiveBack, [&] {
    Queue::instance().runAll();
    return PinnedMemory::instance().unlock(memory) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return apiCall("cudaPointerGetAttributes", ApiKind::kWork, [&] {
    auto* address = const_cast<void*>(pointer);
    if (device().holds(pointer, 1)) {
      *attributes = {cudaMemoryTypeDevice, device().deviceOf(pointer), address, nullptr};
    } else if (PinnedMemory::instance().holds(pointer, 1)) {
      *attributes = {cudaMemoryTypeHost, currentDevice(), nullptr, address};
    } else {
      *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, address};
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return apiCall("cudaMemcpyAsync", ApiKind::kWork, [&] {
    return queueCopy(
        {static_cast<char*>(to), bytes, static_cast<const char*>(from), bytes, bytes, 1, kind},
        stream);
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t toPitch, const void* from,
                              std::size_t fromPitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return apiCall("cudaMemcpy2DAsync", ApiKind::kWork, [&] {
    return queueCopy({static_cast<char*>(to), toPitch, static_cast<const char*>(from), fromPitch,
                      width, height, kind},
                     stream);
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return apiCall("cudaMemcpy", ApiKind::kUnsafe, [&] {
    const cudaError_t code = queueCopy(
        {static_cast<char*>(to), bytes, static_cast<const char*>(from), bytes, bytes, 1, kind},
        nullptr);
    if (code != cudaSuccess) return code;
    const auto legacy = Queue::instance().stream(nullptr);
    Queue::instance().runUntil(*legacy, legacy->queued);
    return stickyError();
  });
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return apiCall("cudaMemsetAsync", ApiKind::kWork,
                 [&] { return setBytes(memory, value, bytes, stream); });
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return apiCall("cudaMemset", ApiKind::kUnsafe,
                 [&] { return setBytes(memory, value, bytes, nullptr); });
}

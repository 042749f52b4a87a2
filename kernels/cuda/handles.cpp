#include "kernels/cuda/handles.h"

#include <string>

namespace vitrine::kernels::cuda {

Stream Stream::make() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return Stream(stream);
}

Event Event::make(bool timed) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
        "making an event");
  return Event(event);
}

bool Event::isDone() const {
  const cudaError_t code = cudaEventQuery(get());
  if (code == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(code, "asking for an event");
  return true;
}

void Graph::begin(cudaStream_t stream) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording a graph");
}

Graph Graph::end(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "recording a graph");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(code, "preparing a graph");
  return Graph(executable);
}

void Graph::abandon(cudaStream_t stream) noexcept {
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph != nullptr) {
    cudaGraphDestroy(graph);
  }
  cudaGetLastError();
}

void* allocateDevice(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  const cudaError_t code = cudaMalloc(&memory, bytes);
  if (code != cudaSuccess) check(code, "cudaMalloc of " + std::to_string(bytes) + " bytes");
  return memory;
}

void* allocatePinned(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  const cudaError_t code = cudaMallocHost(&memory, bytes);
  if (code != cudaSuccess) check(code, "cudaMallocHost of " + std::to_string(bytes) + " bytes");
  return memory;
}

void freeDevice(void* memory) noexcept {
  if (memory != nullptr && cudaFree(memory) != cudaSuccess) cudaGetLastError();
}

void freePinned(void* memory) noexcept {
  if (memory != nullptr && cudaFreeHost(memory) != cudaSuccess) cudaGetLastError();
}

void copyToDevice(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copying to the device");
}

void copyToHost(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream),
        "copying from the device");
}

}  // namespace vitrine::kernels::cuda

#include "streams.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "device_memory.h"
#include "faults.h"
#include "harness.h"
#include "random.h"

namespace cuda_on_cpu {
namespace {

bool canRun(const StreamState& stream) {
  if (stream.queue.empty()) return false;
  const std::vector<Dependency>& after = stream.queue.front().after;
  return std::all_of(after.begin(), after.end(), [](const Dependency& dependency) {
    return dependency.stream->done >= dependency.count;
  });
}

}  // namespace

template <typename T>
static Handles<T>& handles() {
  static Handles<T>* all = new Handles<T>;
  return *all;
}
Handles<CUstream_st>& streamHandles() {
  return handles<CUstream_st>();
}
Handles<CUevent_st>& eventHandles() {
  return handles<CUevent_st>();
}
Handles<CUgraph_st>& graphHandles() {
  return handles<CUgraph_st>();
}
Handles<CUgraphExec_st>& executableHandles() {
  return handles<CUgraphExec_st>();
}

std::vector<std::shared_ptr<Recording>>& recordings() {
  static auto* all = new std::vector<std::shared_ptr<Recording>>;
  return *all;
}

Queue& Queue::instance() {
  static Queue* queue = new Queue;
  return *queue;
}

Queue::Queue() : m_legacy(std::make_shared<StreamState>()) {}

std::shared_ptr<StreamState> Queue::stream(cudaStream_t handle) const {
  if (handle == nullptr) return m_legacy;
  return streamHandles().has(handle) ? handle->state : nullptr;
}

std::shared_ptr<StreamState> Queue::add(bool waitsForLegacy, int device) {
  auto stream = std::make_shared<StreamState>();
  stream->waitsForLegacy = waitsForLegacy;
  stream->device = device;
  m_streams.push_back(stream);
  return stream;
}

void Queue::remove(const std::shared_ptr<StreamState>& stream) {
  std::erase(m_streams, stream);
}

cudaError_t Queue::add(cudaStream_t handle, Work work, std::vector<Dependency> after) {
  const std::shared_ptr<StreamState> target = stream(handle);
  if (target == nullptr) {
    note("work for a stream that does not exist");
    return cudaErrorInvalidResourceHandle;
  }
  if (target->recording != nullptr) {
    std::vector<GraphNode>& nodes = target->recording->nodes;
    nodes.push_back({std::move(work), target->lastNodes});
    target->lastNodes = {static_cast<int>(nodes.size()) - 1};
    return cudaSuccess;
  }
  if (target == m_legacy) {
    for (const auto& recording : recordings()) {
      if (!recording->origin->waitsForLegacy) continue;
      note("work for the legacy stream while a stream that waits for it is recorded");
      recording->isSpoilt = true;
      return cudaErrorStreamCaptureImplicit;
    }
    for (const auto& other : m_streams) {
      if (other->waitsForLegacy && other->queued > other->done) {
        after.push_back({other, other->queued});
      }
    }
  } else if (target->waitsForLegacy && m_legacy->queued > m_legacy->done) {
    after.push_back({m_legacy, m_legacy->queued});
  }
  DeviceMemory::instance().setClosed(settings().lazy);
  target->queue.push_back({std::move(work), std::move(after)});
  ++target->queued;
  if (!settings().lazy) runAll();
  return settings().lazy ? cudaSuccess : stickyError();
}

bool Queue::runOne() {
  std::vector<StreamState*> ready;
  if (canRun(*m_legacy)) ready.push_back(m_legacy.get());
  for (const auto& stream : m_streams) {
    if (canRun(*stream)) ready.push_back(stream.get());
  }
  if (ready.empty()) return false;
  StreamState* chosen = ready.front();
  if (settings().shuffle) {
    Random random(settings().seed * 131 + m_choices++);
    chosen = ready[random.below(static_cast<unsigned>(ready.size()))];
  }
  const Work work = std::move(chosen->queue.front().work);
  chosen->queue.pop_front();
  if (work && stickyError() == cudaSuccess) {
    const DeviceMemoryOpen open;
    work();
  }
  ++chosen->done;
  return true;
}

void Queue::runUntil(const StreamState& stream, std::uint64_t count) {
  const DeviceMemoryOpen open;
  while (stream.done < count) {
    if (runOne()) continue;
    std::fprintf(stderr, "cuda_on_cpu: streams wait for each other for ever\n");
    std::abort();
  }
}

void Queue::runAll() {
  const DeviceMemoryOpen open;
  while (runOne()) {
  }
}

void Queue::reset() {
  m_legacy = std::make_shared<StreamState>();
  m_streams.clear();
  m_choices = 0;
  for (const auto& recording : recordings()) {
    for (const auto& stream : recording->streams) stream->recording = nullptr;
  }
  recordings().clear();
}

void runNodes(const std::vector<GraphNode>& nodes) {
  std::vector<char> isDone(nodes.size(), 0);
  std::vector<int> left(nodes.size());
  std::iota(left.begin(), left.end(), 0);
  static std::uint64_t serial = 0;
  Random random(settings().seed * 17 + serial++);
  std::vector<std::size_t> ready;
  while (!left.empty()) {
    ready.clear();
    for (std::size_t i = 0; i < left.size(); ++i) {
      const std::vector<int>& after = nodes[static_cast<std::size_t>(left[i])].after;
      if (!std::all_of(after.begin(), after.end(), [&](int n) { return isDone[n] != 0; })) continue;
      ready.push_back(i);
      if (!settings().shuffle) break;
    }
    const std::size_t chosen = ready[random.below(static_cast<unsigned>(ready.size()))];
    const int node = left[chosen];
    if (nodes[node].work && stickyError() == cudaSuccess) nodes[node].work();
    isDone[node] = 1;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
}

}  // namespace cuda_on_cpu

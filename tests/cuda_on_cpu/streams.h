#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

// Queued work. A stream is a queue of closures, each of which may also wait for others; that is all
// there is to order: events, the legacy stream and joins come down to "after the n-th work of that
// stream". Under the lock of the runtime.

namespace cuda_on_cpu {

using Work = std::function<void()>;

struct GraphNode {
  Work work;
  std::vector<int> after;  // nodes
};

/// A stream, or several that joined, being recorded.
struct Recording {
  std::vector<GraphNode> nodes;
  struct StreamState* origin = nullptr;
  std::vector<std::shared_ptr<struct StreamState>> streams;
  cudaStreamCaptureMode mode{};
  std::thread::id thread;
  bool isSpoilt = false;
};

struct Dependency {
  std::shared_ptr<struct StreamState> stream;
  std::uint64_t count = 0;  // works of the stream that must be done
};
struct QueuedWork {
  Work work;
  std::vector<Dependency> after;
};

struct StreamState {
  std::deque<QueuedWork> queue;
  std::uint64_t queued = 0, done = 0;
  bool waitsForLegacy = true;
  int device = 0;
  std::shared_ptr<Recording> recording;
  std::vector<int> lastNodes;  // of the recording: what comes next is after these
};

/// Handles that were given out and not given back.
template <typename T>
class Handles final {
 public:
  template <typename... Arguments>
  T* make(Arguments&&... arguments) {
    return *m_live.insert(new T{std::forward<Arguments>(arguments)...}).first;
  }
  bool destroy(T* handle) {
    if (m_live.erase(handle) == 0) return false;
    delete handle;
    return true;
  }
  bool has(T* handle) const { return m_live.count(handle) > 0; }
  int size() const { return static_cast<int>(m_live.size()); }
  void clear() {
    for (T* handle : m_live) delete handle;
    m_live.clear();
  }

 private:
  std::set<T*> m_live;
};

/// The streams and what is queued on them.
class Queue final {
 public:
  static Queue& instance();

  /// The state behind a handle (null: the legacy default stream), or null for a bad handle.
  std::shared_ptr<StreamState> stream(cudaStream_t handle) const;
  std::shared_ptr<StreamState> add(bool waitsForLegacy, int device);
  void remove(const std::shared_ptr<StreamState>& stream);

  /// Queues, records, or runs at once, as streams and settings are.
  cudaError_t add(cudaStream_t handle, Work work, std::vector<Dependency> after = {});
  /// Runs what is needed until `stream` has done `count` works.
  void runUntil(const StreamState& stream, std::uint64_t count);
  void runAll();
  /// One work, if any can run.
  bool runOne();
  void reset();

 private:
  Queue();
  std::shared_ptr<StreamState> m_legacy;
  std::vector<std::shared_ptr<StreamState>> m_streams;
  std::uint64_t m_choices = 0;
};

/// Runs the nodes of a graph, each after those that it needs; in random order where that leaves a
/// choice and settings say so.
void runNodes(const std::vector<GraphNode>& nodes);

/// Recordings that are going on.
std::vector<std::shared_ptr<Recording>>& recordings();

}  // namespace cuda_on_cpu

struct CUstream_st {
  std::shared_ptr<cuda_on_cpu::StreamState> state;
};
struct CUevent_st {
  bool isTimed = true;
  std::shared_ptr<cuda_on_cpu::StreamState> stream;  // null: never recorded
  std::uint64_t count = 0;
  std::shared_ptr<std::chrono::steady_clock::time_point> time;
  std::shared_ptr<cuda_on_cpu::Recording> recording;  // recorded into a graph
  std::vector<int> nodes;
};
struct CUgraph_st {
  std::vector<cuda_on_cpu::GraphNode> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<cuda_on_cpu::GraphNode>> nodes;
};

namespace cuda_on_cpu {
Handles<CUstream_st>& streamHandles();
Handles<CUevent_st>& eventHandles();
Handles<CUgraph_st>& graphHandles();
Handles<CUgraphExec_st>& executableHandles();
}  // namespace cuda_on_cpu

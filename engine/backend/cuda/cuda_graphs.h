#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "kernels/cuda/handles.h"

namespace vitrine::engine::cuda {

/// Captured decode steps: one graph a number of rows and of attention splits. A kind of step runs
/// launch by launch the first time (libraries and kernels load then, which a capture would not
/// allow), is captured the second time, and replayed from then on.
class CudaGraphs final {
 public:
  struct Key {
    int rows = 0;
    int splits = 0;
    auto operator<=>(const Key&) const = default;
  };

  /// The rows of the smallest graph for so many sequences: 1, 2, 4, 8 or 16.
  static int bucket(int sequences);

  /// Queues a step on `stream`: what `queue` queues, by graph where there can be one. Throws what
  /// `queue` throws; a graph that the driver has no memory for is done without.
  template <typename Queue>
  void run(const Key& key, cudaStream_t stream, Queue&& queue);

  /// Buffers that graphs name have moved.
  void drop() { m_entries.clear(); }
  /// Off: every step runs launch by launch.
  void setEnabled(bool enabled) { m_enabled = enabled; }
  std::uint64_t replays() const { return m_replays; }

 private:
  struct Entry {
    bool ran = false;
    bool refused = false;  // there was no memory for a graph
    kernels::cuda::Graph graph;
  };
  std::map<Key, Entry> m_entries;
  std::uint64_t m_replays = 0;
  bool m_enabled = true;
};

template <typename Queue>
void CudaGraphs::run(const Key& key, cudaStream_t stream, Queue&& queue) {
  Entry& entry = m_entries[key];
  if (m_enabled && entry.ran && !entry.graph && !entry.refused) {
    try {
      entry.graph = kernels::cuda::Graph::capture(stream, queue);
    } catch (const kernels::cuda::CudaError& error) {
      if (!error.isOutOfMemory()) throw;
      entry.refused = true;
    }
  }
  if (!m_enabled || !entry.graph) {
    queue();
    entry.ran = true;
    return;
  }
  entry.graph.launch(stream);
  ++m_replays;
}

}  // namespace vitrine::engine::cuda

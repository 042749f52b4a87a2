#include <cuda_runtime.h>

#include <algorithm>

#include "api.h"
#include "streams.h"

// Graphs: a recorded stream's work, with what each piece waits for; launched as one work that runs
// them all. Arguments are as they were when recorded.

using namespace cuda_on_cpu;

namespace cuda_on_cpu {

bool mayCallUnsafe() {
  bool may = true;
  for (const auto& recording : recordings()) {
    const bool concerns = recording->mode == cudaStreamCaptureModeGlobal ||
                          (recording->mode == cudaStreamCaptureModeThreadLocal &&
                           recording->thread == std::this_thread::get_id());
    if (!concerns) continue;
    recording->isSpoilt = true;
    may = false;
  }
  return may;
}

}  // namespace cuda_on_cpu

namespace {

/// Whether everything that was recorded comes before the end of the origin stream.
bool isJoined(const Recording& recording) {
  std::vector<char> isNeeded(recording.nodes.size(), 0);
  std::vector<int> open = recording.origin->lastNodes;
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    if (isNeeded[node] != 0) continue;
    isNeeded[node] = 1;
    open.insert(open.end(), recording.nodes[node].after.begin(), recording.nodes[node].after.end());
  }
  return std::all_of(isNeeded.begin(), isNeeded.end(), [](char needed) { return needed != 0; });
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return apiCall("cudaStreamBeginCapture", ApiKind::kWork, [&] {
    const auto stream = Queue::instance().stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (handle == nullptr) {
      note("recording the legacy stream");
      return cudaErrorStreamCaptureUnsupported;
    }
    if (stream->recording != nullptr) {
      note("recording a stream that is recorded");
      return cudaErrorInvalidValue;
    }
    auto recording = std::make_shared<Recording>();
    recording->origin = stream.get();
    recording->mode = mode;
    recording->thread = std::this_thread::get_id();
    recording->streams.push_back(stream);
    stream->recording = recording;
    stream->lastNodes.clear();
    recordings().push_back(std::move(recording));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  // Ends the recording even if it fails: a stream does not stay recorded.
  const cudaError_t code = apiCall("cudaStreamEndCapture", ApiKind::kGiveBack, [&] {
    const auto stream = Queue::instance().stream(handle);
    *graph = nullptr;
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const std::shared_ptr<Recording> recording = stream->recording;
    if (recording == nullptr) {
      note("ending a recording that was not begun");
      return cudaErrorInvalidValue;
    }
    if (recording->origin != stream.get()) {
      note("ending a recording in another stream than it was begun in");
      recording->isSpoilt = true;
      return cudaErrorStreamCaptureUnmatched;
    }
    if (recording->mode != cudaStreamCaptureModeRelaxed &&
        recording->thread != std::this_thread::get_id()) {
      note("ending a recording in another thread than it was begun in");
      return cudaErrorStreamCaptureWrongThread;
    }
    const bool joined = isJoined(*recording);
    for (const auto& member : recording->streams) {
      member->recording = nullptr;
      member->lastNodes.clear();
    }
    std::erase(recordings(), recording);
    if (recording->isSpoilt) return cudaErrorStreamCaptureInvalidated;
    if (!joined) {
      note("a recording ends while streams that joined it have not come back to its first");
      return cudaErrorStreamCaptureUnjoined;
    }
    if (stickyError() != cudaSuccess) return stickyError();
    *graph = graphHandles().make(std::move(recording->nodes));
    return cudaSuccess;
  });
  if (code != cudaSuccess && *graph != nullptr) {
    const std::lock_guard lock(runtimeLock());
    graphHandles().destroy(*graph);
    *graph = nullptr;
  }
  return code;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return apiCall("cudaStreamIsCapturing", ApiKind::kWork, [&] {
    const auto stream = Queue::instance().stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *status = stream->recording == nullptr  ? cudaStreamCaptureStatusNone
              : stream->recording->isSpoilt ? cudaStreamCaptureStatusInvalidated
                                            : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  return apiCall("cudaGraphInstantiate", ApiKind::kWork, [&] {
    if (executable == nullptr || !graphHandles().has(graph)) return cudaErrorInvalidValue;
    *executable =
        executableHandles().make(std::make_shared<const std::vector<GraphNode>>(graph->nodes));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t) {
  return apiCall("cudaGraphUpload", ApiKind::kWork, [&] {
    return executableHandles().has(executable) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return apiCall("cudaGraphLaunch", ApiKind::kWork, [&] {
    if (!executableHandles().has(executable)) {
      note("launching a graph that does not exist");
      return cudaErrorInvalidValue;
    }
    return Queue::instance().add(stream, [nodes = executable->nodes] { runNodes(*nodes); });
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return apiCall("cudaGraphDestroy", ApiKind::kGiveBack, [&] {
    return graphHandles().destroy(graph) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return apiCall("cudaGraphExecDestroy", ApiKind::kGiveBack, [&] {
    return executableHandles().destroy(executable) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

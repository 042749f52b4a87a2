#include <cuda_runtime.h>

#include "api.h"
#include "device.h"
#include "streams.h"

// Streams and events.

using namespace cuda_on_cpu;

namespace {

cudaError_t unknown(const char* what) {
  note(std::string(what) + " that does not exist");
  return cudaErrorInvalidResourceHandle;
}

/// Waiting for a stream that is being recorded spoils the recording.
cudaError_t spoil(const StreamState& stream) {
  note("waiting for a stream that is recorded");
  stream.recording->isSpoilt = true;
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return apiCall("cudaStreamCreateWithFlags", ApiKind::kWork, [&] {
    if (stream == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = streamHandles().make(
        Queue::instance().add((flags & cudaStreamNonBlocking) == 0, currentDevice()));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return apiCall("cudaStreamDestroy", ApiKind::kGiveBack, [&] {
    if (stream == nullptr || !streamHandles().has(stream)) return unknown("destroying a stream");
    const std::shared_ptr<StreamState> state = stream->state;
    if (state->recording != nullptr) state->recording->isSpoilt = true;
    Queue::instance().runUntil(*state, state->queued);
    Queue::instance().remove(state);
    streamHandles().destroy(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return apiCall("cudaStreamSynchronize", ApiKind::kWork, [&] {
    const auto stream = Queue::instance().stream(handle);
    if (stream == nullptr) return unknown("waiting for a stream");
    if (stream->recording != nullptr) return spoil(*stream);
    Queue::instance().runUntil(*stream, stream->queued);
    return stickyError();
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return apiCall("cudaStreamQuery", ApiKind::kWork, [&] {
    const auto stream = Queue::instance().stream(handle);
    if (stream == nullptr) return unknown("asking for a stream");
    if (stream->recording != nullptr) return spoil(*stream);
    const bool isDone = stream->done >= stream->queued;
    if (!isDone) Queue::instance().runOne();  // time passes, or asking would never end
    if (stickyError() != cudaSuccess) return stickyError();
    return isDone ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return apiCall("cudaStreamWaitEvent", ApiKind::kWork, [&] {
    const auto stream = Queue::instance().stream(handle);
    if (stream == nullptr) return unknown("a stream");
    if (!eventHandles().has(event)) return unknown("waiting for an event");
    if (event->recording != nullptr) {
      if (stream->recording == nullptr) {  // it joins
        stream->recording = event->recording;
        stream->lastNodes.clear();
        event->recording->streams.push_back(stream);
      } else if (stream->recording != event->recording) {
        note("an event of one recording is waited for in another");
        stream->recording->isSpoilt = event->recording->isSpoilt = true;
        return cudaErrorStreamCaptureIsolation;
      }
      for (const int node : event->nodes) stream->lastNodes.push_back(node);
      return cudaSuccess;
    }
    if (stream->recording != nullptr) {
      note("a stream that is recorded waits for an event that is not");
      stream->recording->isSpoilt = true;
      return cudaErrorStreamCaptureIsolation;
    }
    if (event->stream == nullptr) return cudaSuccess;
    return Queue::instance().add(handle, {}, {{event->stream, event->count}});
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return apiCall("cudaLaunchHostFunc", ApiKind::kWork, [&] {
    if (function == nullptr) return cudaErrorInvalidValue;
    return Queue::instance().add(stream, [=] { function(data); });
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return apiCall("cudaEventCreateWithFlags", ApiKind::kWork, [&] {
    if (event == nullptr) return cudaErrorInvalidValue;
    *event = eventHandles().make();
    (*event)->isTimed = (flags & cudaEventDisableTiming) == 0;
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return apiCall("cudaEventDestroy", ApiKind::kGiveBack, [&] {
    return eventHandles().destroy(event) ? cudaSuccess : unknown("destroying an event");
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return apiCall("cudaEventRecord", ApiKind::kWork, [&] {
    const auto stream = Queue::instance().stream(handle);
    if (stream == nullptr) return unknown("recording an event in a stream");
    if (!eventHandles().has(event)) return unknown("recording an event");
    event->recording = stream->recording;
    if (stream->recording != nullptr) {
      event->nodes = stream->lastNodes;
      return cudaSuccess;
    }
    const auto time = std::make_shared<std::chrono::steady_clock::time_point>();
    event->time = time;
    const cudaError_t code =
        Queue::instance().add(handle, [time] { *time = std::chrono::steady_clock::now(); });
    event->stream = stream;
    event->count = stream->queued;
    return code;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return apiCall("cudaEventSynchronize", ApiKind::kWork, [&] {
    if (!eventHandles().has(event)) return unknown("waiting for an event");
    if (event->recording != nullptr) {
      note("waiting for an event that is recorded");
      event->recording->isSpoilt = true;
      return cudaErrorCapturedEvent;
    }
    if (event->stream != nullptr) Queue::instance().runUntil(*event->stream, event->count);
    return stickyError();
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return apiCall("cudaEventQuery", ApiKind::kUnsafe, [&] {
    if (!eventHandles().has(event)) return unknown("asking for an event");
    if (event->recording != nullptr) return cudaErrorCapturedEvent;
    if (event->stream == nullptr || event->stream->done >= event->count) return stickyError();
    Queue::instance().runOne();
    return stickyError() != cudaSuccess ? stickyError() : cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return apiCall("cudaEventElapsedTime", ApiKind::kUnsafe, [&] {
    if (!eventHandles().has(begin) || !eventHandles().has(end)) return unknown("timing an event");
    if (!begin->isTimed || !end->isTimed || begin->stream == nullptr || end->stream == nullptr) {
      note("timing an event that was not recorded, or was made without timing");
      return cudaErrorInvalidResourceHandle;
    }
    if (begin->stream->done < begin->count || end->stream->done < end->count) {
      return cudaErrorNotReady;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(*end->time - *begin->time).count();
    return cudaSuccess;
  });
}

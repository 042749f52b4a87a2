// The words of the command line and of reports for the engine's enumerations.
#include "engine/engine_types.h"

namespace vitrine::engine {

const char* nameOf(WeightMode mode) {
  switch (mode) {
    case WeightMode::kNative: return "native";
    case WeightMode::kFp16: return "fp16";
    case WeightMode::kBf16: return "bf16";
    case WeightMode::kInt8: return "int8";
  }
  return "?";
}

const char* nameOf(ActivationMode mode) {
  return mode == ActivationMode::kInt8 ? "int8" : "fp16";
}

const char* nameOf(KvType type) {
  return type == KvType::kInt8 ? "int8" : "fp16";
}

const char* nameOf(KvLayout layout) {
  return layout == KvLayout::kContiguous ? "contiguous" : "paged";
}

const char* nameOf(Batching batching) {
  return batching == Batching::kStatic ? "static" : "continuous";
}

const char* nameOf(ContextPolicy policy) {
  switch (policy) {
    case ContextPolicy::kStop: return "stop";
    case ContextPolicy::kDropOldest: return "drop_oldest";
    case ContextPolicy::kKeepPinned: return "keep_pinned";
  }
  return "?";
}

const char* nameOf(StallCause cause) {
  switch (cause) {
    case StallCause::kNone: return "none";
    case StallCause::kOthersPrefill: return "prefill";
    case StallCause::kLargerBatch: return "batch";
    case StallCause::kPutBack: return "put back";
    case StallCause::kSystem: return "system";
  }
  return "?";
}

const char* nameOf(ReuseCause cause) {
  switch (cause) {
    case ReuseCause::kNone: return "none";
    case ReuseCause::kNew: return "new";
    case ReuseCause::kChanged: return "changed";
    case ReuseCause::kEvicted: return "evicted";
    case ReuseCause::kPrecision: return "precision";
    case ReuseCause::kOff: return "off";
  }
  return "?";
}

const char* nameOf(BackendKind kind) {
  switch (kind) {
    case BackendKind::kAuto: return "auto";
    case BackendKind::kReference: return "reference";
    case BackendKind::kCpu: return "cpu";
    case BackendKind::kCuda: return "cuda";
  }
  return "?";
}

const char* nameOf(StopReason reason) {
  switch (reason) {
    case StopReason::kEnd: return "eos";
    case StopReason::kStopText: return "stop";
    case StopReason::kLength: return "length";
    case StopReason::kContext: return "context";
    case StopReason::kCancelled: return "cancelled";
  }
  return "?";
}

}  // namespace vitrine::engine

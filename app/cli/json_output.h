#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/engine_types.h"
#include "engine/measure/memory_ledger.h"

namespace vitrine::app::cli {

/// The fields of one turn that scripts rely on.
nlohmann::ordered_json toJson(const engine::TurnReport& report);
nlohmann::ordered_json toJson(const engine::CacheProof& proof);

/// Adds how a model is run: "weights", "weight_scales", "group_size", "activations",
/// "activation_scales", "outliers", "smoothing", "outlier_threshold", "keep", "kv_type", "kv_keys",
/// "calibration". Null where something has no effect in this mode.
void addMode(nlohmann::ordered_json& json, const engine::EngineConfig& config);

/// Where the process's memory is, in bytes; `residual` is what the parts leave of `rss`.
nlohmann::ordered_json toJson(const engine::MemoryLedger& ledger);

/// One JSON document on a line of standard output. Bytes that are no UTF-8 become U+FFFD.
void printJson(const nlohmann::ordered_json& value);

/// OpenAI messages: a list, or an object with "messages"; content a string or text parts.
engine::Result<std::vector<engine::ChatMessage>> parseMessages(const std::string& json);

/// "12 reused · 40 prefilled · 128 generated   TTFT 96 ms   TPOT 9.1 ms" for people.
std::string summary(const engine::TurnReport& report);

}  // namespace vitrine::app::cli

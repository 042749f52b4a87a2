#pragma once

#include <nlohmann/json.hpp>

#include "app/lab/lab_types.h"

// The lab's values as JSON: the report that scripts read, and the file that rows are kept in.

namespace vitrine::app::lab {

using Json = nlohmann::ordered_json;

/// `rows` have `method`, `gain`, `cost` and `figures` (by id: label, unit, median, min, max,
/// repeats), and more.
Json toJson(const LabReport& report);
Json toJson(const LabRow& row);
Json toJson(const engine::EngineConfig& config);

/// A row that toJson() wrote; nothing where it has not the shape of one.
std::optional<LabRow> rowFromJson(const Json& json);

}  // namespace vitrine::app::lab

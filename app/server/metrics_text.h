#pragma once

#include <string>

#include "app/server/event_router.h"
#include "engine/engine_types.h"

namespace vitrine::app {

/// The engine's state in Prometheus' text format, with vLLM's names after "vitrine:".
std::string metricsText(const engine::EngineSnapshot& snapshot, const EventRouter::Totals& totals,
                        const std::string& model);

}  // namespace vitrine::app

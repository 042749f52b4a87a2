#include "app/lab/lab_types.h"
#include "engine/quant/precision_text.h"

#include <spdlog/fmt/fmt.h>

namespace vitrine::app::lab {

const char* nameOf(Effort effort) {
  return effort == Effort::kFull ? "full" : "quick";
}

std::string Subject::key() const {
  return fmt::format("{} | {} | {} | {} threads | {}", fingerprint, processor, instructionSet,
                     threads, configurationText());
}

std::string Subject::configurationText() const {
  std::string text = fmt::format("{} · {} weights", backend,
                                 config.precision.weights == engine::WeightMode::kNative
                                     ? "native"
                                     : engine::nameOf(config.precision.weights));
  if (config.precision.weights == engine::WeightMode::kInt8) {
    text += fmt::format(" ({}) · {} activations", engine::precisionDetails(config.precision),
                        engine::nameOf(config.precision.activations));
  }
  return text + fmt::format(" · {} KV · blocks of {} · chunks of {}",
                            engine::nameOf(config.cache.type), config.cache.blockSize,
                            config.prefillChunk);
}

const LabRow* LabReport::row(const std::string& id) const {
  for (const LabRow& each : rows) {
    if (each.id == id) return &each;
  }
  return nullptr;
}

}  // namespace vitrine::app::lab

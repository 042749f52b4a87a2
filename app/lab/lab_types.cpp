#include "app/lab/lab_types.h"
#include "engine/quant/precision_text.h"

#include <spdlog/fmt/fmt.h>

namespace vitrine::app::lab {

const char* toString(Effort effort) {
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
                                     : engine::toString(config.precision.weights));
  if (config.precision.weights == engine::WeightMode::kInt8) {
    text += fmt::format(" ({}) · {} activations", engine::precisionDetails(config.precision),
                        engine::toString(config.precision.activations));
  }
  return text + fmt::format(" · {} KV · blocks of {} · chunks of {}",
                            engine::toString(config.cache.type), config.cache.blockSize,
                            config.prefillChunk);
}

const LabRow* LabReport::row(const std::string& id) const {
  for (const LabRow& each : rows) {
    if (each.id == id) return &each;
  }
  return nullptr;
}

}  // namespace vitrine::app::lab

#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "app/lab/lab_types.h"
#include "engine/backend/backend.h"
#include "engine/measure/evaluate.h"
#include "engine/model/model.h"

namespace vitrine::app::lab {

/// What an experiment works with. Backends and engines that it makes are its own.
struct LabContext {
  std::filesystem::path path;
  std::shared_ptr<const engine::Model> model;
  engine::EngineConfig config;  ///< the base: what a method is not about stays as it is here
  Effort effort = Effort::kQuick;
  std::stop_token stop;
  std::function<void(double share)> progress;  ///< 0 to 1, never empty

  bool quick() const { return effort == Effort::kQuick; }
  const engine::ModelConfig& modelConfig() const { return model->config(); }
  /// Lengths for a model of about 135 million parameters, halved for each doubling beyond 300
  /// million (at most three times), so that larger models keep near the time.
  int scaled(int tokens) const;
  /// The same, and no more than the model's context leaves beside `others`.
  int depth(int tokens, int others) const;
  engine::Result<std::unique_ptr<engine::Backend>> makeBackend(
      const engine::WeightPrecision& precision, int kvHeads = 0) const;
  engine::Result<void> checkStop() const;
};

/// One row of the trade-off table. A new method is one file and one line in experiments().
struct Experiment {
  const char* id;
  /// Its name for a model, before it has run.
  std::string (*method)(const engine::ModelConfig& model);
  double quickSeconds, fullSeconds;  ///< on the model and machine that Effort speaks of
  engine::Result<LabRow> (*run)(const LabContext& context);

  double seconds(Effort effort) const {
    return effort == Effort::kQuick ? quickSeconds : fullSeconds;
  }
};
std::span<const Experiment> experiments();
const Experiment* findExperiment(const std::string& id);
/// "kv-cache, attention, …"
std::string experimentNames();

// One file each.
extern const Experiment kKvCacheExperiment, kAttentionExperiment, kInt8WeightsExperiment,
    kInt8KvExperiment, kPagedKvExperiment, kBatchingExperiment;

// ---- what several of them share

/// How far a backend is from another one over the program's page of English (page_text.h): two
/// windows of 512 tokens (less where the context is shorter), the second half of each scored.
engine::Result<engine::EvaluationReport> distance(const LabContext& context,
                                                  engine::Backend& backend,
                                                  engine::Backend& reference,
                                                  engine::KvType kv = engine::KvType::kFp16);

Figure makeFigure(const std::string& id, const std::string& label, const std::string& unit,
                  const std::vector<double>& values);
Figure makeFigure(const std::string& id, const std::string& label, const std::string& unit,
                  double value);
std::string factorText(double factor);                       // "1.71×", "12.8×", "128×"
std::string bytesText(double bytes);                         // "22.5 KB", "41.2 MB" (binary)
std::string millisecondsText(double milliseconds);           // "0.42 ms", "9.1 ms", "109 ms"
std::string rateText(double perSecond);                      // "9.4 tokens/s", "107 tokens/s"
std::string lossText(const engine::EvaluationReport& loss);  // "KL 0.0011, top-1 98.7 %"
/// 3 significant digits without an exponent where that is short.
std::string numberText(double value);

}  // namespace vitrine::app::lab

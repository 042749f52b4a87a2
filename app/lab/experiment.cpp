#include "app/lab/experiment.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <spdlog/fmt/fmt.h>

#include "app/measure/page_text.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app::lab {

using engine::ErrorCode;
using engine::fail;
using engine::Result;

std::span<const Experiment> experiments() {
  static const std::array kExperiments{kKvCacheExperiment,     kAttentionExperiment,
                                       kInt8WeightsExperiment, kInt8KvExperiment,
                                       kPagedKvExperiment,     kBatchingExperiment};
  return kExperiments;
}

const Experiment* findExperiment(const std::string& id) {
  for (const Experiment& each : experiments()) {
    if (each.id == id) return &each;
  }
  return nullptr;
}

std::string experimentNames() {
  std::string names;
  for (const Experiment& each : experiments()) {
    names += (names.empty() ? "" : ", ") + std::string(each.id);
  }
  return names;
}

int LabContext::scaled(int tokens) const {
  int halvings = 0;
  for (double size = 300e6; halvings < 3 && double(model->parameterCount()) > size; size *= 2) {
    ++halvings;
  }
  return std::max(16, tokens >> halvings);
}

int LabContext::depth(int tokens, int others) const {
  return std::max(0, std::min(scaled(tokens), modelConfig().contextLength - others));
}

Result<std::unique_ptr<engine::Backend>> LabContext::makeBackend(
    const engine::WeightPrecision& precision, int kvHeads) const {
  engine::BackendOptions options;
  options.precision = precision;
  options.threads = config.threads;
  options.kvHeads = kvHeads;
  return engine::makeBackend(config.backend, model, options, {}, stop);
}

Result<void> LabContext::checkStop() const {
  if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "the lab was stopped");
  return {};
}

Result<engine::EvaluationReport> distance(const LabContext& context, engine::Backend& backend,
                                          engine::Backend& reference, engine::KvType kv) {
  const auto& tokenizer = context.model->tokenizer();
  const std::vector<engine::TokenId> page = tokenizer.encode(kPageText);
  engine::EvaluationOptions options;
  options.context = std::min(512, context.modelConfig().contextLength);
  options.kv = kv;
  if (tokenizer.addsBos()) options.bos = tokenizer.bos();
  const std::size_t used = std::min(page.size(), 2 * static_cast<std::size_t>(options.context));
  backend.setActive(false);
  return engine::evaluate(backend, &reference, context.modelConfig(), std::span(page).first(used),
                          options, {}, context.stop);
}

const Figure* LabRow::figure(const std::string& figureId) const {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [&](const Figure& each) { return each.id == figureId; });
  return found != figures.end() ? &*found : nullptr;
}

double LabRow::value(const std::string& figureId, double otherwise) const {
  const Figure* found = figure(figureId);
  return found != nullptr ? found->value.median : otherwise;
}

Figure makeFigure(const std::string& id, const std::string& label, const std::string& unit,
                  const std::vector<double>& values) {
  return {id, label, unit, spreadOf(values)};
}

Figure makeFigure(const std::string& id, const std::string& label, const std::string& unit,
                  double value) {
  return makeFigure(id, label, unit, std::vector{value});
}

std::string numberText(double value) {
  const double size = std::abs(value);
  if (size >= 1000) {
    std::string digits = fmt::format("{:.0f}", value);
    for (auto at = static_cast<int>(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3) {
      digits.insert(static_cast<std::size_t>(at), ",");
    }
    return digits;
  }
  if (size >= 100 || value == std::round(value)) return fmt::format("{:.0f}", value);
  if (size >= 10) return fmt::format("{:.1f}", value);
  if (size >= 1) return fmt::format("{:.2f}", value);
  if (size >= 0.1) return fmt::format("{:.3f}", value);
  return size >= 0.0001 ? fmt::format("{:.4f}", value) : fmt::format("{:.1e}", value);
}

std::string factorText(double factor) {
  if (factor >= 0.1 && factor < 1) return fmt::format("{:.2f}×", factor);
  return numberText(factor) + "×";
}

std::string bytesText(double bytes) {
  const std::array units{"B", "KB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  if (unit == 0 || bytes >= 100) return fmt::format("{:.0f} {}", bytes, units[unit]);
  return fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string millisecondsText(double milliseconds) {
  return numberText(milliseconds) + " ms";
}

std::string rateText(double perSecond) {
  return numberText(perSecond) + " tokens/s";
}

std::string lossText(const engine::EvaluationReport& loss) {
  // Below this it is the rounding of sums, not the method.
  const std::string divergence = loss.klMean < 1e-6 ? std::string("0") : numberText(loss.klMean);
  return fmt::format("KL {}, top-1 {:.1f} %", divergence, loss.top1Agreement * 100);
}

}  // namespace vitrine::app::lab

#include "ui/inspector/batch/batch_figures.h"

#include <chrono>
#include <map>

#include "engine/base/percentile.h"

namespace vitrine::ui {

const BatchFigures::Size* BatchFigures::ofSize(int answers) const {
  for (const Size& size : sizes) {
    if (size.answers == answers) return &size;
  }
  return nullptr;
}

BatchFigures batchFiguresOf(std::span<const engine::StepRecord> steps) {
  BatchFigures figures;
  std::map<int, std::vector<double>> times;
  std::vector<double> mixed;
  for (const engine::StepRecord& step : steps) {
    int prefill = 0;
    int decode = 0;
    for (const engine::StepRow& row : step.rows) {
      prefill += row.prefillTokens;
      decode += row.decodeTokens;
    }
    ++figures.steps;
    figures.prefillTokens += prefill;
    figures.decodeTokens += decode;
    figures.milliseconds += step.milliseconds;
    if (decode > 0 && prefill == 0) times[decode].push_back(step.milliseconds);
    if (decode > 0 && prefill > 0) mixed.push_back(step.milliseconds);
  }
  for (const auto& [answers, milliseconds] : times) {
    figures.sizes.push_back({answers, int(milliseconds.size()), engine::median(milliseconds)});
  }
  figures.mixedSteps = int(mixed.size());
  figures.mixedMedianMs = engine::median(mixed);
  return figures;
}

std::span<const engine::StepRecord> latestRun(std::span<const engine::StepRecord> steps,
                                              double pauseMs) {
  for (std::size_t i = steps.size(); i-- > 1;) {
    const std::chrono::duration<double, std::milli> gap = steps[i].start - steps[i - 1].start;
    if (gap.count() - steps[i - 1].milliseconds >= pauseMs) return steps.subspan(i);
  }
  return steps;
}

}  // namespace vitrine::ui

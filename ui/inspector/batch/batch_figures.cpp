#include "ui/inspector/batch/batch_figures.h"

#include <algorithm>
#include <chrono>
#include <map>

namespace vitrine::ui {
namespace {

double medianOf(std::vector<float>& values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

}  // namespace

const BatchFigures::Size* BatchFigures::ofSize(int answers) const {
  for (const Size& size : sizes) {
    if (size.answers == answers) return &size;
  }
  return nullptr;
}

BatchFigures batchFiguresOf(std::span<const engine::StepRecord> steps) {
  BatchFigures figures;
  std::map<int, std::vector<float>> times;
  std::vector<float> mixed;
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
  for (auto& [answers, milliseconds] : times) {
    figures.sizes.push_back({answers, int(milliseconds.size()), medianOf(milliseconds)});
  }
  figures.mixedSteps = int(mixed.size());
  figures.mixedMedianMs = medianOf(mixed);
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

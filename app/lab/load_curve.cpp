// Loads that grow: medians over repeats, the knee, and their charts.
#include <functional>

#include <spdlog/fmt/fmt.h>

#include "app/lab/load_generator.h"

namespace vitrine::app::lab {

void takeMedians(LoadCurve& curve) {
  curve.levels.clear();
  if (curve.repeats.empty()) return;
  curve.levels = curve.repeats.front();
  for (std::size_t level = 0; level < curve.levels.size(); ++level) {
    const auto take = [&](double LoadResult::*field) {
      std::vector<double> values;
      for (const auto& repeat : curve.repeats) {
        if (level < repeat.size()) values.push_back(repeat[level].*field);
      }
      curve.levels[level].*field = median(values);
    };
    for (double LoadResult::*field :
         {&LoadResult::seconds, &LoadResult::tokensPerSecond, &LoadResult::ttftP50Ms,
          &LoadResult::ttftP95Ms, &LoadResult::tpotP50Ms, &LoadResult::tpotP95Ms}) {
      take(field);
    }
  }
  markKnee(curve);
}

void markKnee(LoadCurve& curve) {
  std::vector<double> x, y;
  for (const LoadResult& level : curve.levels) {
    x.push_back(level.concurrency);
    y.push_back(level.tokensPerSecond);
  }
  curve.knee = kneeOf(x, y);
}

std::vector<Chart> loadCharts(const std::vector<LoadCurve>& curves) {
  const auto make = [](const char* id, const char* title, const char* yLabel) {
    Chart chart;
    chart.id = id;
    chart.title = title;
    chart.xLabel = "chats at once";
    chart.yLabel = yLabel;
    chart.logX = true;
    return chart;
  };
  Chart throughput = make("throughput", "Throughput by chats at once", "tokens/s");
  Chart tpot = make("tpot", "Time per token by chats at once", "ms");
  Chart ttft = make("ttft", "Time to the first token by chats at once", "ms");
  ttft.logY = true;  // a newcomer that waits for a whole batch is far above the rest

  for (const LoadCurve& curve : curves) {
    const std::string mode = engine::nameOf(curve.batching);
    const auto add = [&](Chart& chart, const char* id, const std::string& label, bool dashed,
                         double LoadResult::*field) {
      Series series;
      series.id = fmt::format("{}_{}", mode, id);
      series.label = label;
      series.dashed = dashed;
      series.colour = curve.batching == engine::Batching::kStatic ? 1 : 0;
      for (const LoadResult& level : curve.levels) {
        series.x.push_back(level.concurrency);
        series.y.push_back(level.*field);
      }
      chart.series.push_back(std::move(series));
    };
    add(throughput, "tps", mode, false, &LoadResult::tokensPerSecond);
    if (curve.knee >= 0) {
      throughput.series.back().mark = curve.knee;
      throughput.series.back().markText =
          fmt::format("knee at {}", curve.levels[static_cast<std::size_t>(curve.knee)].concurrency);
    }
    add(tpot, "tpot_p50", mode + " p50", false, &LoadResult::tpotP50Ms);
    add(tpot, "tpot_p95", mode + " p95", true, &LoadResult::tpotP95Ms);
    add(ttft, "ttft_p50", mode + " p50", false, &LoadResult::ttftP50Ms);
    add(ttft, "ttft_p95", mode + " p95", true, &LoadResult::ttftP95Ms);
  }
  return {throughput, tpot, ttft};
}

}  // namespace vitrine::app::lab

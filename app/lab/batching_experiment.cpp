// Dynamic batching: decode steps of 1 and of 8 chats in turn, and the load generator at 1, 2, 4, 8
// and 16 chats, batches formed once (static) and anew at every step (continuous).
#include <array>

#include <spdlog/fmt/fmt.h>

#include "app/lab/experiment.h"
#include "app/lab/lab_engine.h"
#include "app/lab/load_generator.h"
#include "app/lab/speed_probe.h"

namespace vitrine::app::lab {

using engine::Batching;
using engine::Result;

namespace {

constexpr int kChats = 8, kSteps = 8;
constexpr std::array kLevels{1, 2, 4, 8, 16};
constexpr std::array kModes{Batching::kContinuous, Batching::kStatic};

LoadSpec specFor(const LabContext& context, int concurrency, Batching batching) {
  LoadSpec spec;
  spec.prompt = {context.scaled(16), context.scaled(48)};
  spec.answer = {context.scaled(16), context.scaled(64)};
  spec.concurrency = concurrency;
  spec.batching = batching;
  spec.requests = std::max(8, 3 * concurrency);
  spec.seed = 11;
  return spec;
}

/// Static and continuous in turn at each level, the whole several times over.
Result<std::vector<LoadCurve>> measureLoads(const LabContext& context,
                                            const std::function<void(double)>& progress) {
  std::vector<LoadCurve> curves(kModes.size());
  const LoadSpec widest = specFor(context, kLevels.back(), Batching::kContinuous);
  VITRINE_ASSIGN(const auto lab, LabEngine::open(context.path,
                                                 configFor(context.config, context.modelConfig(),
                                                           widest, kLevels.back()),
                                                 context.stop));
  VITRINE_TRY(runLoad(*lab, specFor(context, 4, Batching::kContinuous), context.stop));  // warms
  const int repeats = context.quick() ? 3 : 8;
  const double parts = double(repeats) * kLevels.size() * kModes.size();
  double done = 0;
  for (std::size_t mode = 0; mode < kModes.size(); ++mode) {
    curves[mode].batching = kModes[mode];
    curves[mode].repeats.resize(static_cast<std::size_t>(repeats));
  }
  for (std::size_t repeat = 0; repeat < static_cast<std::size_t>(repeats); ++repeat) {
    for (const int level : kLevels) {
      for (std::size_t mode = 0; mode < kModes.size(); ++mode) {
        const LoadSpec spec = specFor(context, level, kModes[mode]);
        VITRINE_ASSIGN(const LoadResult result, runLoad(*lab, spec, context.stop));
        curves[mode].repeats[repeat].push_back(result);
        progress(++done / parts);
      }
    }
  }
  for (LoadCurve& curve : curves) takeMedians(curve);
  return curves;
}

std::vector<double> levelValues(const LoadCurve& curve, std::size_t level,
                                double LoadResult::*field) {
  std::vector<double> values;
  for (const auto& repeat : curve.repeats) values.push_back(repeat[level].*field);
  return values;
}

void addLoadFigures(LabRow& row, const std::vector<LoadCurve>& curves) {
  for (const LoadCurve& curve : curves) {
    const std::string mode = engine::nameOf(curve.batching);
    for (std::size_t level = 0; level < curve.levels.size(); ++level) {
      const int chats = curve.levels[level].concurrency;
      const auto add = [&](const char* id, const char* label, const char* unit,
                           double LoadResult::*field) {
        row.figures.push_back(makeFigure(fmt::format("{}_{}_{}", id, mode, chats),
                                         fmt::format("{}, {}, {} at once", label, mode, chats),
                                         unit, levelValues(curve, level, field)));
      };
      add("load_tps", "Load: throughput", "tokens/s", &LoadResult::tokensPerSecond);
      add("load_tpot_p50", "Load: TPOT p50", "ms", &LoadResult::tpotP50Ms);
      add("load_tpot_p95", "Load: TPOT p95", "ms", &LoadResult::tpotP95Ms);
      add("load_ttft_p50", "Load: TTFT p50", "ms", &LoadResult::ttftP50Ms);
      add("load_ttft_p95", "Load: TTFT p95", "ms", &LoadResult::ttftP95Ms);
    }
    if (curve.knee >= 0) {
      row.figures.push_back(
          makeFigure("knee_" + mode, "Knee of the throughput, " + mode, "chats",
                     curve.levels[static_cast<std::size_t>(curve.knee)].concurrency));
    }
  }
  std::vector<double> factors;
  for (std::size_t repeat = 0; repeat < curves[0].repeats.size(); ++repeat) {
    for (std::size_t level = 2; level < curves[0].levels.size(); ++level) {  // 4 chats and more
      factors.push_back(curves[0].repeats[repeat][level].tokensPerSecond /
                        curves[1].repeats[repeat][level].tokensPerSecond);
    }
  }
  row.figures.push_back(makeFigure("continuous_factor",
                                   "Throughput, continuous against static (4 chats and more)", "×",
                                   factors));
}

Result<LabRow> run(const LabContext& context) {
  const engine::ModelConfig& model = context.modelConfig();
  Interleaved times;
  {
    VITRINE_ASSIGN(const auto one, context.makeBackend(context.config.precision));
    VITRINE_ASSIGN(const auto many, context.makeBackend(context.config.precision));
    SpeedProbe::Setup setup;
    setup.kv = context.config.cache.type;
    setup.blockSize = context.config.cache.blockSize;
    setup.nKvHeads = model.nKvHeads;
    setup.depth = context.depth(128, kSteps + 1);
    setup.room = kSteps;
    VITRINE_ASSIGN(const auto oneProbe,
                   SpeedProbe::open(*one, model.vocabSize, setup, context.stop));
    setup.sequences = kChats;
    VITRINE_ASSIGN(const auto manyProbe,
                   SpeedProbe::open(*many, model.vocabSize, setup, context.stop));
    VITRINE_ASSIGN(times, interleave({[&] { return oneProbe->decode(kSteps); },
                                      [&] { return manyProbe->decode(kSteps); }},
                                     {9, 100, context.quick() ? 6.0 : 20.0, 0.005}, context.stop,
                                     [&](double share) { context.progress(0.2 * share); }));
  }
  VITRINE_ASSIGN(const auto curves,
                 measureLoads(context, [&](double share) { context.progress(0.2 + 0.8 * share); }));

  LabRow row;
  std::vector<double> factors;
  for (const double ratio : times.ratios(0, 1)) factors.push_back(ratio * kChats);
  const auto perStep = [&](std::size_t thing) {
    std::vector<double> values;
    for (const double seconds : times.seconds[thing]) values.push_back(seconds * 1e3 / kSteps);
    return values;
  };
  const auto one = times.rates(0, kSteps), many = times.rates(1, double(kSteps) * kChats);
  row.figures = {
      makeFigure("decode_factor", fmt::format("Decode of {} chats against 1", kChats), "×",
                 factors),
      makeFigure("decode_1", "Decode, 1 chat", "tokens/s", one),
      makeFigure("decode_8", fmt::format("Decode, {} chats together", kChats), "tokens/s", many),
      makeFigure("tpot_1", "Time per token, 1 chat", "ms", perStep(0)),
      makeFigure("tpot_8", fmt::format("Time per token, {} chats", kChats), "ms", perStep(1)),
  };
  addLoadFigures(row, curves);
  row.charts = loadCharts(curves);
  row.gainFactor = median(factors);
  row.gain = fmt::format("{} throughput; continuous {} static", factorText(row.gainFactor),
                         factorText(row.value("continuous_factor")));
  row.cost = fmt::format("TPOT {} → {}", numberText(median(perStep(0))),
                         millisecondsText(median(perStep(1))));
  row.measured = fmt::format("{} → {}", numberText(median(one)), rateText(median(many)));
  const LoadSpec spec = specFor(context, 1, Batching::kContinuous);
  row.how = fmt::format(
      "{} decode steps of 1 and of {} chats in turn, {} rounds. Load: prompts of {} to {} and "
      "answers of {} to {} tokens, each of 1, 2, 4, 8 and 16 chats asks again as soon as it has "
      "its answer; static and continuous batching in turn, {} times; throughput counts generated "
      "tokens over the whole time, prefill included. The knee is the largest distance from the "
      "chord of throughput over chats.",
      kSteps, kChats, times.seconds[0].size(), spec.prompt.least, spec.prompt.most,
      spec.answer.least, spec.answer.most, curves[0].repeats.size());
  return row;
}

}  // namespace

const Experiment kBatchingExperiment{
    "batching",
    [](const engine::ModelConfig&) { return fmt::format("Dynamic batching, {} chats", kChats); },
    42, 150, run};

}  // namespace vitrine::app::lab

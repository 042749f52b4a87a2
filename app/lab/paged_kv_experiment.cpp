// Paged KV: real chats of mixed lengths in one pool, contiguous and paged; and what scattered
// blocks cost in time.
#include <algorithm>
#include <cmath>
#include <random>

#include <spdlog/fmt/fmt.h>

#include "app/lab/experiment.h"
#include "app/lab/lab_engine.h"
#include "app/lab/speed_probe.h"

namespace vitrine::app::lab {

using engine::fail;
using engine::KvLayout;
using engine::Result;

namespace {

constexpr int kAnswer = 24;
constexpr std::uint64_t kSeed = 7;

/// Lengths of chats as they come: most short, a few long (log-normal around 220 tokens). Drawn by
/// Box and Muller from our own uniform numbers, so that they are the same everywhere.
std::vector<int> mixedLengths(int count, int typical, int most) {
  std::mt19937_64 random(kSeed);
  const auto even = [&] { return (double(random() >> 11) + 0.5) * 0x1.0p-53; };
  std::vector<int> lengths;
  for (int i = 0; i < count; ++i) {
    const double normal = std::sqrt(-2 * std::log(even())) * std::cos(2 * M_PI * even());
    const double length = typical * std::exp(0.7 * normal);
    lengths.push_back(std::clamp(int(length), 2 * kAnswer, most));
  }
  return lengths;
}

struct Occupancy {
  int atOnce = 0;                 ///< most chats that ran together
  double used = 0, reserved = 0;  ///< bytes, summed over the chats as each ended
  double wasted() const { return reserved > 0 ? 1 - used / reserved : 0; }
};

Result<Occupancy> occupy(const LabContext& context, LabEngine& lab, const std::vector<int>& lengths,
                         const std::function<void(double)>& progress) {
  std::mt19937_64 random(kSeed);
  const auto vocabulary = static_cast<std::uint64_t>(lab.info().config.vocabSize);
  for (const int length : lengths) {
    engine::GenerateRequest request;
    engine::TokenPrompt prompt(static_cast<std::size_t>(length - kAnswer));
    for (auto& token : prompt) token = static_cast<engine::TokenId>(random() % vocabulary);
    request.prompt = std::move(prompt);
    request.maxTokens = kAnswer;
    request.ignoreEnd = true;
    request.sampling.temperature = 0;
    lab.generate(std::move(request));
  }
  Occupancy result;
  int running = 0;
  for (std::size_t ended = 0; ended < lengths.size();) {
    VITRINE_TRY(context.checkStop());  // the engine goes with its caller
    const auto event = lab.next(std::chrono::milliseconds(50));
    if (!event) continue;
    if (std::holds_alternative<engine::TurnStarted>(*event)) {
      result.atOnce = std::max(result.atOnce, ++running);
    } else if (const auto* done = std::get_if<engine::TurnFinished>(&*event)) {
      --running;
      result.used += double(done->report.kv.bytesUsed);
      result.reserved += double(done->report.kv.bytesReserved);
      progress(double(++ended) / double(lengths.size()));
    } else if (const auto* failed = std::get_if<engine::TurnFailed>(&*event)) {
      return tl::unexpected(failed->error);
    }
  }
  return result;
}

Result<LabRow> run(const LabContext& context) {
  const engine::ModelConfig& model = context.modelConfig();
  const int window = context.depth(2048, 0);  // the context that each chat may grow to
  const int contexts = context.quick() ? 2 : 4;
  const int nChats = context.quick() ? 20 : 60;
  const std::vector<int> lengths = mixedLengths(nChats, std::max(64, window / 9), window - 1);

  engine::EngineConfig config = context.config;
  config.contextTokens = window;
  config.maxSequences = nChats;
  config.cache.enabled = true;
  config.cache.reuse = false;
  const engine::KvShape shape{config.cache.type, config.cache.blockSize, 1, model.nKvHeads};
  const auto blocks = static_cast<std::uint64_t>(window / config.cache.blockSize) *
                      static_cast<std::uint64_t>(contexts);
  config.cache.budgetBytes = engine::kvBytesPerBlock(model, shape) * blocks;

  Occupancy contiguous, paged;
  {
    config.cache.layout = KvLayout::kContiguous;
    VITRINE_ASSIGN(const auto lab, LabEngine::open(context.path, config, context.stop));
    VITRINE_ASSIGN(contiguous, occupy(context, *lab, lengths,
                                      [&](double share) { context.progress(0.35 * share); }));
    config.cache.layout = KvLayout::kPaged;
    VITRINE_TRY(lab->reconfigure(config));
    VITRINE_ASSIGN(paged, occupy(context, *lab, lengths,
                                 [&](double share) { context.progress(0.35 + 0.3 * share); }));
  }

  // The same sequence twice in one pool: its blocks in a row, and scattered over it.
  constexpr int kSteps = 12;
  const int depth = context.depth(context.quick() ? 1024 : 2048, kSteps + 1);
  VITRINE_ASSIGN(const auto backend, context.makeBackend(config.precision));
  SpeedProbe::Setup setup;
  setup.kv = config.cache.type;
  setup.blockSize = config.cache.blockSize;
  setup.nKvHeads = model.nKvHeads;
  setup.depth = depth;
  setup.room = kSteps;
  setup.sequences = 3;  // the third only spreads the second
  setup.order = BlockOrder::kMixed;
  VITRINE_ASSIGN(const auto probe,
                 SpeedProbe::open(*backend, model.vocabSize, setup, context.stop));
  context.progress(0.8);
  VITRINE_ASSIGN(const Interleaved times,
                 interleave({[&] { return probe->decode(kSteps, 0); },
                             [&] { return probe->decode(kSteps, 1); }},
                            {9, 150, context.quick() ? 5.0 : 20.0, 0.003}, context.stop,
                            [&](double share) { context.progress(0.8 + 0.2 * share); }));

  LabRow row;
  std::vector<double> cost;
  for (const double ratio : times.ratios(1, 0)) cost.push_back((ratio - 1) * 100);
  const double more = double(paged.atOnce) / std::max(contiguous.atOnce, 1);
  row.figures = {
      makeFigure("fit_contiguous", "Chats that fit at once, contiguous", "", contiguous.atOnce),
      makeFigure("fit_paged", "Chats that fit at once, paged", "", paged.atOnce),
      makeFigure("fit_factor", "Chats that fit, paged against contiguous", "×", more),
      makeFigure("waste_contiguous", "Reserved but never filled, contiguous", "%",
                 contiguous.wasted() * 100),
      makeFigure("waste_paged", "Reserved but never filled, paged", "%", paged.wasted() * 100),
      makeFigure("decode_in_order", "Decode, blocks in a row", "tokens/s", times.rates(0, kSteps)),
      makeFigure("decode_scattered", "Decode, blocks scattered", "tokens/s",
                 times.rates(1, kSteps)),
      makeFigure("time_cost", "Time for scattered blocks", "%", cost),
      makeFigure("pool_bytes", "The pool", "bytes", double(config.cache.budgetBytes)),
  };
  row.gainFactor = more;
  row.gain = fmt::format("{} more chats fit", factorText(more));
  // What lies within the noise of the measurement is no cost.
  const double middle = median(cost);
  row.cost = middle < 0.05 ? std::string("no time") : fmt::format("{:.1f} % time", middle);
  row.measured =
      fmt::format("waste {:.0f} % → {:.1f} %", contiguous.wasted() * 100, paged.wasted() * 100);
  row.how = fmt::format(
      "{} chats of 48 to {} tokens (log-normal, most around {}) were sent at once to a pool of {}, "
      "room for {} contexts of {}: how many ran together, and of what each held when it ended, "
      "how much was filled. The time is that of {} tokens decoded at depth {} with the blocks in a "
      "row and scattered, in turn, {} rounds.",
      nChats, *std::max_element(lengths.begin(), lengths.end()), std::max(64, window / 9),
      bytesText(double(config.cache.budgetBytes)), contexts, numberText(window), kSteps,
      numberText(depth), times.seconds[0].size());
  return row;
}

}  // namespace

const Experiment kPagedKvExperiment{
    "paged-kv", [](const engine::ModelConfig&) { return std::string("Paged KV"); }, 22, 90, run};

}  // namespace vitrine::app::lab

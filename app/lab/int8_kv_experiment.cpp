// INT8 KV cache: the same weights with a cache of FP16 and one of INT8.
#include <spdlog/fmt/fmt.h>

#include "app/lab/experiment.h"
#include "app/lab/speed_probe.h"
#include "engine/cache/cache_plan.h"

namespace vitrine::app::lab {

using engine::KvType;
using engine::Result;

namespace {

constexpr int kAnswer = 12;
constexpr std::uint64_t kBudget = std::uint64_t{512} << 20;

/// Positions that the engine's planner puts into a pool of kBudget.
Result<double> positionsThatFit(const LabContext& context, KvType type) {
  engine::EngineConfig config = context.config;
  config.cache.type = type;
  config.cache.budgetBytes = kBudget;
  VITRINE_ASSIGN(const engine::CachePlan plan,
                 engine::planCache(context.modelConfig(), config, {kBudget, {}}));
  return double(plan.shape.nBlocks) * plan.shape.blockSize;
}

Result<LabRow> run(const LabContext& context) {
  const int depth = context.depth(context.quick() ? 2048 : 4096, kAnswer + 1);
  VITRINE_ASSIGN(const auto fp16, context.makeBackend(context.config.precision));
  VITRINE_ASSIGN(const auto int8, context.makeBackend(context.config.precision));
  SpeedProbe::Setup setup;
  setup.blockSize = context.config.cache.blockSize;
  setup.nKvHeads = context.modelConfig().nKvHeads;
  setup.depth = depth;
  setup.room = kAnswer;
  context.progress(0.05);
  VITRINE_ASSIGN(const auto fp16Probe,
                 SpeedProbe::open(*fp16, context.modelConfig().vocabSize, setup, context.stop));
  context.progress(0.2);
  setup.kv = KvType::kInt8;
  VITRINE_ASSIGN(const auto int8Probe,
                 SpeedProbe::open(*int8, context.modelConfig().vocabSize, setup, context.stop));
  context.progress(0.35);
  VITRINE_ASSIGN(const Interleaved times,
                 interleave({[&] { return fp16Probe->decode(kAnswer); },
                             [&] { return int8Probe->decode(kAnswer); }},
                            {7, 100, context.quick() ? 6.0 : 25.0, 0.005}, context.stop,
                            [&](double share) { context.progress(0.35 + 0.45 * share); }));
  const auto bytesPerToken = [&](const engine::Backend& backend) {
    return double(backend.memory().kvBytesPerBlock) / setup.blockSize;
  };
  const double fp16Bytes = bytesPerToken(*fp16), int8Bytes = bytesPerToken(*int8);
  VITRINE_ASSIGN(const auto loss, distance(context, *int8, *fp16, KvType::kInt8));
  VITRINE_ASSIGN(const double fp16Fits, positionsThatFit(context, KvType::kFp16));
  VITRINE_ASSIGN(const double int8Fits, positionsThatFit(context, KvType::kInt8));

  LabRow row;
  const std::vector<double> factors = times.ratios(0, 1);
  row.figures = {
      makeFigure("bytes_fp16", "KV bytes a token, FP16", "bytes", fp16Bytes),
      makeFigure("bytes_int8", "KV bytes a token, INT8", "bytes", int8Bytes),
      makeFigure("fits_fp16", "Tokens that fit in 512 MB, FP16", "", fp16Fits),
      makeFigure("fits_int8", "Tokens that fit in 512 MB, INT8", "", int8Fits),
      makeFigure("depth", "Depth of the decode measurement", "", depth),
      makeFigure("decode_fp16", "Decode at that depth, FP16", "tokens/s", times.rates(0, kAnswer)),
      makeFigure("decode_int8", "Decode at that depth, INT8", "tokens/s", times.rates(1, kAnswer)),
      makeFigure("decode_factor", "Decode, INT8 against FP16", "×", factors),
      makeFigure("kl", "KL divergence from FP16", "nats", loss.klMean),
      makeFigure("top1", "Same best token as FP16", "%", loss.top1Agreement * 100),
  };
  row.gainFactor = fp16Bytes / int8Bytes;
  row.gain = fmt::format("{} more context", factorText(row.gainFactor));
  row.cost = fmt::format("{}; decode {} at depth {}", lossText(loss), factorText(median(factors)),
                         numberText(depth));
  row.measured = fmt::format("{} → {} per token", bytesText(fp16Bytes), bytesText(int8Bytes));
  row.how = fmt::format(
      "Bytes as the pool allocates them, scales included. {} tokens decoded at depth {} with each "
      "cache in turn, {} rounds; medians and the ratios of each round. KL divergence and best "
      "token against the FP16 cache over {} tokens of English.",
      kAnswer, numberText(depth), times.seconds[0].size(), loss.tokens);
  return row;
}

}  // namespace

const Experiment kInt8KvExperiment{
    "int8-kv", [](const engine::ModelConfig&) { return std::string("INT8 KV cache"); }, 17, 65,
    run};

}  // namespace vitrine::app::lab

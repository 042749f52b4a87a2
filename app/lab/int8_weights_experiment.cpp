// INT8 weights: the same model with FP16 weights, with INT8 weights and 16-bit activations (W8A16),
// with both in INT8 (W8A8), and as the file has it.
#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "app/lab/experiment.h"
#include "app/lab/speed_probe.h"
#include "engine/measure/machine.h"

namespace vitrine::app::lab {

using engine::Backend;
using engine::Result;

namespace {

constexpr int kPrompt = 128, kAnswer = 16, kBatch = 8, kBatchAnswer = 6;

struct Mode {
  std::string id, label;
  engine::WeightPrecision precision;
  double bytes = 0;  ///< held, and mapped parts that are read
  std::optional<engine::EvaluationReport> loss;
  std::vector<double> decode, prefill, batched;                    // tokens/s
  std::vector<double> decodeFactor, prefillFactor, batchedFactor;  // against FP16
};

std::vector<Mode> modesOf(const LabContext& context) {
  using engine::ActivationMode;
  using engine::WeightMode;
  const int group = context.config.precision.groupSize;
  std::vector<Mode> modes(4);
  modes[0].id = "fp16";
  modes[0].label = "FP16";
  modes[0].precision = {WeightMode::kFp16, ActivationMode::kFp16, group};
  modes[1].id = "w8a16";
  modes[1].label = "W8A16";
  modes[1].precision = {WeightMode::kInt8, ActivationMode::kFp16, group};
  modes[2].id = "w8a8";
  modes[2].label = "W8A8";
  modes[2].precision = {WeightMode::kInt8, ActivationMode::kInt8, group};
  modes[3].id = "native";
  modes[3].label = fmt::format("as in the file ({})", context.model->quantizationName());
  modes[3].precision = {WeightMode::kNative, ActivationMode::kFp16, group};
  return modes;
}

/// All modes side by side where memory allows it, else each beside FP16 alone.
std::vector<std::vector<std::size_t>> groupsOf(const LabContext& context) {
  const double need = double(context.model->parameterCount()) * (2 + 1.1 + 1.1) +
                      double(context.model->fileBytes());
  if (need < 0.6 * double(engine::availableMemoryBytes())) return {{0, 1, 2, 3}};
  return {{0, 1}, {0, 2}, {0, 3}};
}

/// Times one thing of several backends in turn and notes rates and factors.
Result<void> timeInTurn(const LabContext& context, const std::vector<Backend*>& backends,
                        const std::vector<Mode*>& modes, const SpeedProbe::Setup& setup,
                        double tokens, const std::function<Result<double>(SpeedProbe&)>& once,
                        double budgetSeconds, std::vector<double> Mode::*rates,
                        std::vector<double> Mode::*factors) {
  std::vector<std::unique_ptr<SpeedProbe>> probes;
  std::vector<Timed> things;
  for (Backend* backend : backends) {
    VITRINE_ASSIGN(auto probe, SpeedProbe::open(*backend, context.modelConfig().vocabSize, setup,
                                                context.stop));
    probes.push_back(std::move(probe));
    things.push_back([&once, probe = probes.back().get()] { return once(*probe); });
  }
  VITRINE_ASSIGN(const Interleaved times,
                 interleave(things, {5, 60, budgetSeconds, 0.008}, context.stop));
  for (std::size_t i = 0; i < modes.size(); ++i) {
    modes[i]->*rates = times.rates(i, tokens);
    modes[i]->*factors = times.ratios(0, i);  // how much faster than FP16
  }
  return {};
}

Result<void> measureGroup(const LabContext& context, std::vector<Mode>& modes,
                          const std::vector<std::size_t>& group, double share, double offset) {
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<Backend*> pointers;
  std::vector<Mode*> chosen;
  for (const std::size_t index : group) {
    VITRINE_ASSIGN(auto backend, context.makeBackend(modes[index].precision));
    const engine::BackendMemory memory = backend->memory();
    modes[index].bytes = double(memory.weightBytes + memory.mappedBytes);
    pointers.push_back(backend.get());
    chosen.push_back(&modes[index]);
    backends.push_back(std::move(backend));
  }
  const auto progress = [&](double done) { context.progress(offset + share * done); };
  progress(0.1);
  const double budget = (context.quick() ? 6.0 : 24.0) * double(group.size()) / 4;
  SpeedProbe::Setup setup;
  setup.nKvHeads = context.modelConfig().nKvHeads;
  setup.room = kPrompt;
  setup.depth = 32;
  VITRINE_TRY(timeInTurn(
      context, pointers, chosen, setup, kAnswer,
      [](SpeedProbe& probe) { return probe.decode(kAnswer); }, budget, &Mode::decode,
      &Mode::decodeFactor));
  progress(0.3);
  setup.depth = 0;
  VITRINE_TRY(timeInTurn(
      context, pointers, chosen, setup, kPrompt,
      [](SpeedProbe& probe) { return probe.prefill(kPrompt); }, budget, &Mode::prefill,
      &Mode::prefillFactor));
  progress(0.5);
  setup.depth = 32;
  setup.room = kBatchAnswer;
  setup.sequences = kBatch;
  VITRINE_TRY(timeInTurn(
      context, pointers, chosen, setup, double(kBatch) * kBatchAnswer,
      [](SpeedProbe& probe) { return probe.decode(kBatchAnswer); }, budget, &Mode::batched,
      &Mode::batchedFactor));
  progress(0.7);
  for (std::size_t i = 1; i < group.size(); ++i) {
    VITRINE_ASSIGN(chosen[i]->loss, distance(context, *pointers[i], *pointers[0]));
    progress(0.7 + 0.3 * double(i) / double(group.size() - 1));
  }
  return {};
}

void addFigures(LabRow& row, const Mode& mode) {
  const auto add = [&](const char* what, const std::string& label, const char* unit,
                       const std::vector<double>& values) {
    row.figures.push_back(
        makeFigure(fmt::format("{}_{}", what, mode.id), label + ", " + mode.label, unit, values));
  };
  add("decode", "Decode", "tokens/s", mode.decode);
  add("prefill", fmt::format("Prefill of {}", kPrompt), "tokens/s", mode.prefill);
  add("batched", fmt::format("Decode of {} chats", kBatch), "tokens/s", mode.batched);
  add("bytes", "Weights", "bytes", {mode.bytes});
  if (mode.id == "fp16") return;
  add("decode_factor", "Decode against FP16", "×", mode.decodeFactor);
  add("prefill_factor", "Prefill against FP16", "×", mode.prefillFactor);
  add("batched_factor", fmt::format("Decode of {} chats against FP16", kBatch), "×",
      mode.batchedFactor);
  if (!mode.loss) return;
  add("kl", "KL divergence from FP16", "nats", {mode.loss->klMean});
  add("top1", "Same best token as FP16", "%", {mode.loss->top1Agreement * 100});
}

Result<LabRow> run(const LabContext& context) {
  std::vector<Mode> modes = modesOf(context);
  const auto groups = groupsOf(context);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const double share = 1.0 / double(groups.size());
    VITRINE_TRY(measureGroup(context, modes, groups[i], share, share * double(i)));
  }
  LabRow row;
  for (const Mode& mode : modes) addFigures(row, mode);
  const Mode& fp16 = modes[0];
  const Mode& w8a16 = modes[1];
  const Mode& w8a8 = modes[2];
  row.gainFactor = median(w8a16.decodeFactor);
  row.gain =
      fmt::format("{} decode, {} memory; W8A8 {} prefill", factorText(row.gainFactor),
                  factorText(w8a16.bytes / fp16.bytes), factorText(median(w8a8.prefillFactor)));
  row.cost = fmt::format("{} (W8A8: {})", lossText(*w8a16.loss), lossText(*w8a8.loss));
  row.measured = fmt::format("{} → {} per token", numberText(1e3 / median(fp16.decode)),
                             millisecondsText(1e3 / median(w8a16.decode)));
  row.how = fmt::format(
      "FP16, W8A16 and W8A8 weights and those of the file, {}: {} tokens decoded one by one at "
      "depth 32, prompts of {} tokens, {} chats decoded together; {} rounds or more, medians and "
      "the ratios of each round. KL divergence and best token against FP16 over {} tokens of "
      "English.",
      groups.size() == 1 ? "in turn" : "each in turn with FP16", kAnswer, kPrompt, kBatch,
      std::min({fp16.decode.size(), fp16.prefill.size(), fp16.batched.size()}), w8a16.loss->tokens);
  return row;
}

}  // namespace

const Experiment kInt8WeightsExperiment{
    "int8-weights",
    [](const engine::ModelConfig&) { return std::string("INT8 weights (W8A16, W8A8)"); }, 30, 110,
    run};

}  // namespace vitrine::app::lab

// Attention: the same model with as many KV heads as query heads (MHA, heads repeated, exact), with
// its own (GQA), and with one (MQA, heads averaged, approximate).
#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "app/lab/experiment.h"
#include "app/lab/speed_probe.h"

namespace vitrine::app::lab {

using engine::Backend;
using engine::Result;

namespace {

constexpr int kAnswer = 12;

std::string nameOf(int nHeads, int nKvHeads) {
  const char* kind = nKvHeads == nHeads ? "MHA" : nKvHeads == 1 ? "MQA" : "GQA";
  return fmt::format("{} {} : {}", kind, nHeads, nKvHeads);
}

struct Choice {
  int kvHeads = 0;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<SpeedProbe> probe;
  double bytesPerToken = 0;
  engine::EvaluationReport loss;
  std::vector<double> decode;
};

/// The model's own first, then MHA and MQA where they differ from it and the backend has them.
Result<std::vector<Choice>> makeChoices(const LabContext& context) {
  const engine::ModelConfig& model = context.modelConfig();
  std::vector<int> wanted{model.nKvHeads, model.nHeads, 1};
  std::vector<Choice> choices;
  for (const int heads : wanted) {
    const bool known = std::any_of(choices.begin(), choices.end(),
                                   [&](const Choice& each) { return each.kvHeads == heads; });
    if (known) continue;
    auto backend = context.makeBackend(context.config.precision, heads);
    if (!backend) {
      if (backend.error().code == engine::ErrorCode::kUnsupported && !choices.empty()) continue;
      return tl::unexpected(std::move(backend).error());
    }
    Choice choice;
    choice.kvHeads = heads;
    choice.backend = std::move(*backend);
    choices.push_back(std::move(choice));
  }
  return choices;
}

LabRow makeRow(const engine::ModelConfig& model, const std::vector<Choice>& choices,
               const Interleaved& times, int depth) {
  LabRow row;
  const Choice& own = choices.front();
  const Choice* mha = &own;
  const Choice* mqa = nullptr;
  for (const Choice& choice : choices) {
    const std::string name = nameOf(model.nHeads, choice.kvHeads);
    const std::string id = std::to_string(choice.kvHeads);
    row.figures.push_back(
        makeFigure("bytes_" + id, "KV bytes a token, " + name, "bytes", choice.bytesPerToken));
    row.figures.push_back(makeFigure("decode_" + id,
                                     fmt::format("Decode at depth {}, {}", numberText(depth), name),
                                     "tokens/s", choice.decode));
    if (&choice != &own) {
      row.figures.push_back(makeFigure("kl_" + id, "KL divergence from the original, " + name,
                                       "nats", choice.loss.klMean));
      row.figures.push_back(makeFigure("top1_" + id, "Same best token as the original, " + name,
                                       "%", choice.loss.top1Agreement * 100));
    }
    if (choice.kvHeads == model.nHeads) mha = &choice;
    if (choice.kvHeads == 1 && &choice != &own) mqa = &choice;
  }
  // Against MHA where the model groups its heads, else what pooling them would gain.
  const bool grouped = mha != &own;
  const Choice& gaining = grouped || mqa == nullptr ? own : *mqa;
  const auto indexOf = [&](const Choice& choice) {
    return static_cast<std::size_t>(&choice - choices.data());
  };
  row.gainFactor = mha->bytesPerToken / gaining.bytesPerToken;
  const std::vector<double> speed = times.ratios(indexOf(*mha), indexOf(gaining));
  row.figures.push_back(
      makeFigure("memory_factor", "KV memory, MHA against this", "×", row.gainFactor));
  row.figures.push_back(makeFigure("decode_factor", "Decode at depth, against MHA", "×", speed));
  row.method = grouped ? fmt::format("{} (against {})", nameOf(model.nHeads, own.kvHeads),
                                     nameOf(model.nHeads, model.nHeads))
                       : fmt::format("{} (against {})", nameOf(model.nHeads, gaining.kvHeads),
                                     nameOf(model.nHeads, own.kvHeads));
  row.gain = fmt::format("{} less KV memory, {} decode at depth {}", factorText(row.gainFactor),
                         factorText(median(speed)), numberText(depth));
  if (grouped) {
    row.cost = "none: the model was trained so";
    if (mqa != nullptr)
      row.cost += fmt::format("; {}: {}", nameOf(model.nHeads, 1), lossText(mqa->loss));
  } else {
    row.cost = mqa != nullptr ? lossText(mqa->loss) : "none: the model has one KV head";
  }
  row.measured = fmt::format("{} → {} per token", bytesText(mha->bytesPerToken),
                             bytesText(gaining.bytesPerToken));
  row.how = fmt::format(
      "The KV heads of the loaded model repeated (exact) and averaged (approximate). Bytes as the "
      "pool allocates them; {} tokens decoded at depth {} with each in turn, {} rounds; KL "
      "divergence and best token against the original over {} tokens of English.",
      kAnswer, numberText(depth), times.seconds[0].size(),
      choices.size() > 1 ? choices.back().loss.tokens : 0);
  return row;
}

Result<LabRow> run(const LabContext& context) {
  const engine::ModelConfig& model = context.modelConfig();
  VITRINE_ASSIGN(std::vector<Choice> choices, makeChoices(context));
  SpeedProbe::Setup setup;
  setup.kv = context.config.cache.type;
  setup.blockSize = context.config.cache.blockSize;
  setup.depth = context.depth(context.quick() ? 1024 : 4096, kAnswer + 1);
  setup.room = kAnswer;
  std::vector<Timed> things;
  for (Choice& choice : choices) {
    setup.nKvHeads = choice.kvHeads;
    VITRINE_ASSIGN(choice.probe,
                   SpeedProbe::open(*choice.backend, model.vocabSize, setup, context.stop));
    choice.bytesPerToken = double(choice.backend->memory().kvBytesPerBlock) / setup.blockSize;
    things.push_back([probe = choice.probe.get()] { return probe->decode(kAnswer); });
    context.progress(0.4 * double(things.size()) / double(choices.size()));
  }
  VITRINE_ASSIGN(const Interleaved times,
                 interleave(things, {7, 100, context.quick() ? 7.0 : 25.0, 0.005}, context.stop,
                            [&](double share) { context.progress(0.4 + 0.35 * share); }));
  for (std::size_t i = 0; i < choices.size(); ++i) {
    choices[i].decode = times.rates(i, kAnswer);
    choices[i].probe.reset();
  }
  for (std::size_t i = 1; i < choices.size(); ++i) {
    VITRINE_ASSIGN(choices[i].loss, distance(context, *choices[i].backend, *choices.front().backend,
                                             engine::KvType::kFp16));
    context.progress(0.75 + 0.25 * double(i) / double(choices.size()));
  }
  return makeRow(model, choices, times, setup.depth);
}

std::string method(const engine::ModelConfig& model) {
  return model.nKvHeads < model.nHeads
             ? fmt::format("{} (against MHA)", nameOf(model.nHeads, model.nKvHeads))
             : fmt::format("{} (against MHA)", nameOf(model.nHeads, 1));
}

}  // namespace

const Experiment kAttentionExperiment{"attention", method, 18, 80, run};

}  // namespace vitrine::app::lab

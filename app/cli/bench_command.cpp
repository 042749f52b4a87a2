// `bench`: prefill and decode speed of a model on this machine.
#include <memory>

#include "app/cli/command.h"
#include "app/cli/interrupt.h"
#include "app/cli/json_output.h"
#include "app/cli/option_values.h"
#include "app/cli/options.h"
#include "engine/measure/bench.h"
#include "engine/measure/machine.h"
#include "engine/measure/probes.h"

namespace vitrine::app::cli {

using engine::BenchCase;
using engine::BenchReport;
using engine::Model;
using Json = nlohmann::ordered_json;

namespace {

struct CliBenchOptions {
  ModelOptions model;
  std::vector<int> prompts = {512}, generated = {128}, depths = {0}, sequences = {1};
  int repeats = 5;
  bool json = false;
};

/// Every combination: prefill and decode, at each depth, for each number of sequences.
std::vector<BenchCase> casesOf(const CliBenchOptions& options) {
  std::vector<BenchCase> cases;
  for (const int sequences : options.sequences) {
    for (const int depth : options.depths) {
      for (const int n : options.prompts) {
        if (n > 0) cases.push_back({n, 0, depth, sequences});
      }
      for (const int n : options.generated) {
        if (n > 0) cases.push_back({0, n, depth, sequences});
      }
    }
  }
  return cases;
}

Json toJson(const BenchReport& report) {
  return {{"test", report.test},
          {"n_prompt", report.what.nPrompt},
          {"n_gen", report.what.nGen},
          {"depth", report.what.depth},
          {"sequences", report.what.sequences},
          {"tps_median", report.tpsMedian},
          {"tps_min", report.tpsMin},
          {"tps_max", report.tpsMax},
          {"bytes_per_token", report.bytesPerToken},
          {"bandwidth_share", report.bandwidthShare}};
}

void printHead(const engine::Backend& backend, const Model& model, double bandwidth) {
  const auto info = backend.info();
  printOut(fmt::format("{} · {} · {} threads · reads {:.1f} GB/s\n", engine::processorName(),
                       info.instructionSet, info.threads, bandwidth / 1e9));
  printOut(fmt::format("{} · {} · {} · {} query and {} KV heads\n\n", model.config().name,
                       model.quantizationName(), engine::precisionKey(backend.precision()),
                       backend.config().nHeads, backend.config().nKvHeads));
  printOut(fmt::format("{:<22}{:>10}{:>10}{:>10}{:>14}{:>12}\n", "test", "tokens/s", "min", "max",
                       "MB a token", "bandwidth"));
}

void printRow(const BenchReport& report) {
  const std::string bytes =
      report.bytesPerToken > 0 ? fmt::format("{:.1f}", report.bytesPerToken / 1e6) : "";
  const std::string share =
      report.bandwidthShare > 0 ? fmt::format("{:.0f} %", report.bandwidthShare * 100) : "";
  printOut(fmt::format("{:<22}{:>10.1f}{:>10.1f}{:>10.1f}{:>14}{:>12}\n", report.test,
                       report.tpsMedian, report.tpsMin, report.tpsMax, bytes, share));
}

int bench(const CliBenchOptions& options) {
  auto path = options.model.resolveModel();
  if (!path) return report(path.error());
  auto model = Model::load(*path);
  if (!model) return report(model.error());
  const StopOnInterrupt interrupt;
  auto resolved = options.model.resolveConfig(*model, interrupt.token());
  if (!resolved) return report(resolved.error());
  const engine::EngineConfig& config = *resolved;
  auto backend =
      engine::makeBackend(config.backend, *model, config.backendOptions(), {}, interrupt.token());
  if (!backend) return report(backend.error());

  engine::BenchOptions how;
  how.repeats = options.repeats;
  how.chunk = config.prefillChunk;
  how.kv = config.cache.type;
  how.blockSize = config.cache.blockSize;
  how.readBandwidth = engine::probeReadBandwidth((*backend)->info().threads);
  if (!options.json) printHead(**backend, **model, how.readBandwidth);

  Json rows = Json::array();
  for (const BenchCase& what : casesOf(options)) {
    auto measured = engine::runBench(**backend, (*model)->config(), what, how, interrupt.token());
    if (!measured) return report(measured.error());
    if (options.json) {
      rows.push_back(toJson(*measured));
      addMode(rows.back(), config);
      rows.back()["weight_bytes"] = (*backend)->memory().weightBytes;
    } else {
      printRow(*measured);
    }
  }
  if (options.json) printJson(rows);
  return 0;
}

}  // namespace

Command addBench(CLI::App& program) {
  auto options = std::make_shared<CliBenchOptions>();
  CLI::App* app = program.add_subcommand("bench", "Measure prefill and decode speed");
  options->model.addTo(*app);
  const auto addList = [app](const std::string& flag, std::vector<int>& target,
                             const std::string& help, int least) {
    app->add_option(flag, target, help)->delimiter(',')->check(between(least, 1 << 20));
  };
  addList("-p,--n-prompt", options->prompts, "prompt tokens; 0: no prefill (512)", 0);
  addList("-n,--n-gen", options->generated, "generated tokens; 0: no decode (128)", 0);
  addList("-d,--depth", options->depths, "tokens in the cache beforehand (0)", 0);
  addList("-b,--sequences", options->sequences, "sequences together (1)", 1);
  app->add_option("-r,--repeats", options->repeats, "runs of each (5)")->check(between(1, 1000));
  app->add_flag("--json", options->json, "print a JSON array");
  return {app, [options] { return bench(*options); }};
}

}  // namespace vitrine::app::cli

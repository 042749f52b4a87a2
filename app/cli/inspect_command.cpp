// `inspect`: what a model file holds and what context fits, without loading it.
#include <memory>

#include "app/cli/command.h"
#include "app/cli/json_output.h"
#include "app/cli/options.h"
#include "engine/measure/machine.h"
#include "engine/model/inspect.h"

namespace vitrine::app::cli {

using engine::KvType;
using engine::ModelInspection;
using Json = nlohmann::ordered_json;

namespace {

struct InspectOptions {
  std::string path;
  bool json = false;
};

/// What each way to run it would take, before anything is loaded.
Json planJson(const ModelInspection& model) {
  Json plan = Json::array();
  for (const ModelInspection::WeightNeed& need : model.weightNeeds) {
    ModelInspection regrouped = model;
    regrouped.nKvHeads = need.kvHeads;
    plan.push_back({{"weights", nameOf(need.mode)},
                    {"kv_heads", need.kvHeads},
                    {"weight_bytes", need.bytes},
                    {"mapped_bytes", model.mappedBytes},
                    {"kv_bytes_per_token", regrouped.kvBytesPerToken(KvType::kFp16)},
                    {"kv_bytes_per_token_int8", regrouped.kvBytesPerToken(KvType::kInt8)}});
  }
  return plan;
}

Json toJson(const ModelInspection& model, std::uint64_t memory) {
  return {
      {"path", model.path.string()},
      {"name", model.name},
      {"architecture", model.architecture},
      {"quantization", model.quantization},
      {"parameters", model.parameters},
      {"file_bytes", model.fileBytes},
      {"parts", model.nParts},
      {"n_layers", model.nLayers},
      {"n_heads", model.nHeads},
      {"n_kv_heads", model.nKvHeads},
      {"head_dim", model.headDim},
      {"d_model", model.dModel},
      {"vocab_size", model.vocabSize},
      {"context_length", model.contextLength},
      {"kv_bytes_per_token", model.kvBytesPerToken(KvType::kFp16)},
      {"kv_bytes_per_token_int8", model.kvBytesPerToken(KvType::kInt8)},
      {"memory_plan", planJson(model)},
      {"memory_available", memory},
      {"context_that_fits", model.contextThatFits(memory, KvType::kFp16)},
      {"context_that_fits_int8", model.contextThatFits(memory, KvType::kInt8)},
      {"tensor_types", model.tensorTypes},
      {"supported", model.supported},
      {"problem", model.problem},
      {"warnings", model.warnings},
  };
}

void print(const ModelInspection& model, std::uint64_t memory) {
  const auto row = [](const char* name, const std::string& value) {
    printOut(fmt::format("{:<22}{}\n", name, value));
  };
  row("name", model.name);
  row("architecture", model.architecture);
  row("parameters", fmt::format("{:.1f} M, {}", model.parameters / 1e6, model.quantization));
  row("file", fmt::format("{:.1f} MB in {} part{}", model.fileBytes / 1e6, model.nParts,
                          model.nParts == 1 ? "" : "s"));
  row("layers", std::to_string(model.nLayers));
  row("heads",
      fmt::format("{} query, {} KV, {} each", model.nHeads, model.nKvHeads, model.headDim));
  row("context", fmt::format("{} tokens", model.contextLength));
  row("KV cache a token",
      fmt::format("{} bytes FP16, {} bytes INT8", model.kvBytesPerToken(KvType::kFp16),
                  model.kvBytesPerToken(KvType::kInt8)));
  row("fits in memory now",
      fmt::format("{} tokens FP16, {} INT8 (of {:.1f} GB)",
                  model.contextThatFits(memory, KvType::kFp16),
                  model.contextThatFits(memory, KvType::kInt8), memory / 1e9));
  for (const auto& [type, count] : model.tensorTypes) {
    row("tensors", fmt::format("{} × {}", count, type));
  }
  row("can be run", model.supported ? "yes" : "no: " + model.problem);
  for (const std::string& warning : model.warnings) row("warning", warning);
}

}  // namespace

Command addInspect(CLI::App& program) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* app = program.add_subcommand("inspect", "Show what a model file holds and what fits");
  app->add_option("path", options->path, "GGUF file (any part of a split set)")->required();
  app->add_flag("--json", options->json, "print one JSON object");
  return {app, [options] {
            auto model = engine::inspectModel(options->path);
            if (!model) return report(model.error());
            const auto memory = engine::availableMemoryBytes();
            if (options->json)
              printJson(toJson(*model, memory));
            else
              print(*model, memory);
            return 0;
          }};
}

}  // namespace vitrine::app::cli

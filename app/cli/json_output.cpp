#include "app/cli/json_output.h"

#include "app/cli/command.h"
#include "app/server/api_request.h"
#include "engine/quant/calibration_profile.h"

namespace vitrine::app::cli {

using Json = nlohmann::ordered_json;
using engine::ErrorCode;
using engine::fail;

namespace {

Json partsOf(const engine::TtftParts& parts) {
  return Json{{"render", parts.render}, {"tokenize", parts.tokenize},    {"match", parts.match},
              {"queue", parts.queue},   {"restore", parts.restore},      {"prefill", parts.prefill},
              {"sample", parts.sample}, {"detokenize", parts.detokenize}};
}

Json chunksOf(const engine::TurnReport& report) {
  Json chunks = Json::array();
  for (const engine::PrefillChunk& chunk : report.chunks) {
    chunks.push_back(Json{{"tokens", chunk.tokens},
                          {"ms", chunk.milliseconds},
                          {"others_tokens", chunk.othersTokens}});
  }
  return chunks;
}

Json causesOf(const engine::TurnReport& report) {
  Json causes = Json::array();
  for (const engine::StallCause cause : report.tokenCauses) causes.push_back(nameOf(cause));
  return causes;
}

}  // namespace

Json toJson(const engine::CacheProof& proof) {
  return Json{
      {"tokens", proof.tokens},
      {"blocks", proof.blocks},
      {"different_blocks", proof.differentBlocks},
      {"largest_logit_difference", proof.largestLogitDifference},
      {"kl_mean", proof.klMean},
      {"continued_tokens", proof.continuedTokens},
      {"first_different_token", proof.firstDifferentToken},
      {"cold_ms", proof.coldMs},
      {"cached_ms", proof.cachedMs},
  };
}

Json toJson(const engine::TurnReport& report) {
  return Json{
      {"text", report.text},
      {"token_ids", report.tokenIds},
      {"prompt_tokens", report.promptTokens},
      {"reused_tokens", report.reusedTokens},
      {"prefilled_tokens", report.prefilledTokens},
      {"generated_tokens", report.generatedTokens},
      {"stop_reason", nameOf(report.stopReason)},
      {"ttft_ms", report.ttftMs},
      {"tpot_ms", report.tpotMs},
      {"prefill_tps", report.prefillTps},
      {"decode_tps", report.decodeTps},
      {"kv",
       {{"bytes_used", report.kv.bytesUsed},
        {"bytes_reserved", report.kv.bytesReserved},
        {"bytes_formula", report.kv.bytesFormula},
        {"blocks_used", report.kv.blocksUsed},
        {"blocks_total", report.kv.blocksTotal},
        {"block_size", report.kv.blockSize}}},
      {"backend", report.backend},
      {"weights", report.weights},
      {"activations", report.activations},
      {"kv_type", report.kvType},
      {"seed", report.seed},
      {"reuse_reason", report.reuse.reason},
      {"dropped_messages", report.droppedMessages},
      {"ttft_parts_ms", partsOf(report.ttft)},
      {"forecast_ttft_ms", report.forecastTtftMs},
      {"chunks", chunksOf(report)},
      {"token_ms", report.tokenMs},
      {"token_rows", report.tokenRows},
      {"token_causes", causesOf(report)},
      {"reuse",
       {{"cause", nameOf(report.reuse.cause)},
        {"reason", report.reuse.reason},
        {"first_new_position", report.reuse.firstNewPosition},
        {"cached_text", report.reuse.cachedText},
        {"prompt_text", report.reuse.promptText}}},
      {"restore",
       {{"tokens", report.restore.tokens},
        {"bytes", report.restore.bytes},
        {"ms", report.restore.milliseconds},
        {"recompute_ms", report.restore.recomputeMs},
        {"restored", report.restore.restored}}},
  };
}

void addMode(Json& json, const engine::EngineConfig& config) {
  const engine::WeightPrecision& p = config.precision;
  const bool int8 = p.weights == engine::WeightMode::kInt8;
  const bool w8a8 = int8 && p.activations == engine::ActivationMode::kInt8;
  const auto set = [&json](const char* name, bool hasEffect, const auto& value) {
    json[name] = hasEffect ? Json(value) : Json();
  };
  json["weights"] = nameOf(p.weights);
  set("weight_scales", int8, nameOf(p.weightScales));
  set("group_size", int8 && p.weightScales == engine::WeightScales::kGroup, p.groupSize);
  json["activations"] = nameOf(p.activations);
  set("activation_scales", w8a8, nameOf(p.activationScales));
  set("outliers", w8a8, nameOf(p.outliers));
  set("smoothing", w8a8 && p.outliers == engine::OutlierMode::kSmooth, p.smoothing);
  set("outlier_threshold", w8a8 && p.outliers == engine::OutlierMode::kMixed, p.outlierThreshold);
  set("keep", int8, p.keep.text());
  json["kv_type"] = nameOf(config.cache.type);
  set("kv_keys", config.cache.type == engine::KvType::kInt8, nameOf(p.keyScales));
  set("calibration", p.needsCalibration() && p.calibration,
      p.calibration ? p.calibration->name : std::string());
}

Json toJson(const engine::MemoryLedger& ledger) {
  Json json{{"rss", ledger.rss}};
  for (const auto& part : ledger.parts()) json[part.name] = part.bytes;
  json["residual"] = ledger.residual();
  json["kv_reserved"] = ledger.kvReserved;
  json["gpu"] = ledger.gpu;
  json["threads"] = ledger.threads;
  if (ledger.device) {
    Json device{{"total", ledger.device->total}, {"free", ledger.device->free}};
    for (const auto& part : ledger.deviceParts()) device[part.name] = part.bytes;
    device["residual"] = ledger.device->residual();
    json["device"] = std::move(device);
  }
  return json;
}

void printJson(const Json& value) {
  printOut(value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

engine::Result<std::vector<engine::ChatMessage>> parseMessages(const std::string& json) {
  nlohmann::json body = nlohmann::json::parse(json, nullptr, false);
  if (body.is_discarded()) return fail(ErrorCode::kInvalidArgument, "the messages are no JSON");
  if (body.is_array()) body = nlohmann::json{{"messages", std::move(body)}};
  if (!body.is_object()) {
    return fail(ErrorCode::kInvalidArgument, "expected a list of messages, got {}",
                body.type_name());
  }
  return readMessages(body);
}

std::string summary(const engine::TurnReport& report) {
  return fmt::format("{} reused · {} prefilled · {} generated · TTFT {:.0f} ms · TPOT {:.1f} ms",
                     report.reusedTokens, report.prefilledTokens, report.generatedTokens,
                     report.ttftMs, report.tpotMs);
}

}  // namespace vitrine::app::cli

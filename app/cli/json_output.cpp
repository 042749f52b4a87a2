#include "app/cli/json_output.h"

#include "app/cli/command.h"
#include "app/server/api_request.h"

namespace vitrine::app::cli {

using Json = nlohmann::ordered_json;
using engine::ErrorCode;
using engine::fail;

Json toJson(const engine::TurnReport& report) {
  return Json{
      {"text", report.text},
      {"token_ids", report.tokenIds},
      {"prompt_tokens", report.promptTokens},
      {"reused_tokens", report.reusedTokens},
      {"prefilled_tokens", report.prefilledTokens},
      {"generated_tokens", report.generatedTokens},
      {"stop_reason", toString(report.stopReason)},
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
  };
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

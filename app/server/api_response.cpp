#include "app/server/api_response.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

#include "app/server/event_router.h"

namespace vitrine::app {
namespace {

using engine::ErrorCode;

std::string nextId(const char* prefix) {
  static std::atomic<std::uint64_t> counter{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}-{:x}-{}", prefix, now, ++counter);
}

std::string event(const Json& json) {
  return "data: " + dumped(json) + "\n\n";
}

Json usageJson(const engine::TurnReport& report) {
  return {{"prompt_tokens", report.promptTokens},
          {"completion_tokens", report.generatedTokens},
          {"total_tokens", report.promptTokens + report.generatedTokens},
          {"prompt_tokens_details", {{"cached_tokens", report.reusedTokens}}}};
}

// Beyond OpenAI's fields: where the time went.
Json timingsJson(const engine::TurnReport& report) {
  return {{"ttft_ms", report.ttftMs},
          {"tpot_ms", report.tpotMs},
          {"reused_tokens", report.reusedTokens},
          {"prefilled_tokens", report.prefilledTokens},
          {"generated_tokens", report.generatedTokens},
          {"prefill_tps", report.prefillTps},
          {"decode_tps", report.decodeTps},
          {"seed", report.seed}};
}

// JSON has no infinity.
double finite(float logprob) {
  return std::isfinite(logprob) ? logprob : -9999.0;
}

}  // namespace

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string errorBody(int status, const std::string& message, const char* code) {
  const char* type = status == 401   ? "authentication_error"
                     : status == 403 ? "permission_error"
                     : status < 500  ? "invalid_request_error"
                     : status == 503 ? "unavailable_error"
                                     : "server_error";
  Json error = {{"message", message}, {"type", type}, {"param", nullptr}, {"code", nullptr}};
  if (code != nullptr) error["code"] = code;
  return dumped({{"error", error}});
}

int httpStatus(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kContextFull:
    case ErrorCode::kTemplate:
    case ErrorCode::kUnsupported:
      return 400;
    case ErrorCode::kNotFound:
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kCancelled:
    case ErrorCode::kDeviceLost:
      return 503;
    default:
      return 500;
  }
}

std::string errorBody(const engine::Error& error) {
  const char* code = error.code == ErrorCode::kContextFull ? "context_length_exceeded"
                     : error.code == ErrorCode::kTemplate  ? "chat_template_refused"
                                                           : nullptr;
  return errorBody(httpStatus(error.code), error.message, code);
}

ResponseWriter::ResponseWriter(const ApiRequest& request, std::string model,
                               const engine::Model& loaded)
    : m_isChat(request.isChat),
      m_includeUsage(request.includeUsage),
      m_wantsLogprobs(request.generate.nLogprobs >= 0),
      m_hidesEnd(!request.generate.ignoreEnd),
      m_id(nextId(request.isChat ? "chatcmpl" : "cmpl")),
      m_model(std::move(model)),
      m_created(std::chrono::duration_cast<std::chrono::seconds>(
                    std::chrono::system_clock::now().time_since_epoch())
                    .count()),
      m_loaded(loaded) {}

Json ResponseWriter::frame(bool isChunk) const {
  const char* object = !m_isChat ? "text_completion"
                       : isChunk ? "chat.completion.chunk"
                                 : "chat.completion";
  return {{"id", m_id},
          {"object", object},
          {"created", m_created},
          {"model", m_model},
          {"system_fingerprint", m_loaded.fingerprint()}};
}

Json ResponseWriter::choice() const {
  return {{"index", 0}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
}

std::string ResponseWriter::begin() const {
  if (!m_isChat) return {};
  Json chunk = frame(true);
  Json first = choice();
  first["delta"] = {{"role", "assistant"}, {"content", ""}};
  chunk["choices"] = Json::array({first});
  if (m_includeUsage) chunk["usage"] = nullptr;
  return event(chunk);
}

std::string ResponseWriter::piece(const engine::TokensReady& ready) {
  const auto tokens = shown(ready.tokens);
  const bool hasLogprobs = m_wantsLogprobs && !tokens.empty();
  // The sign for a broken character belongs into the last piece, where a client can tell that the
  // answer was cut there.
  constexpr std::string_view kBroken = "\xEF\xBF\xBD";
  std::string text = std::exchange(m_held, {}) + ready.text;
  if (text.size() >= kBroken.size() &&
      std::string_view(text).substr(text.size() - kBroken.size()) == kBroken) {
    m_held = kBroken;
    text.resize(text.size() - kBroken.size());
  }
  if (text.empty() && !hasLogprobs) return {};
  Json chunk = frame(true);
  Json part = choice();
  if (m_isChat) {
    part["delta"] = {{"content", text}};
    if (hasLogprobs) part["logprobs"] = chatLogprobs(tokens);
  } else {
    part["text"] = text;
    if (hasLogprobs) part["logprobs"] = completionLogprobs(tokens, m_offset);
  }
  chunk["choices"] = Json::array({part});
  if (m_includeUsage) chunk["usage"] = nullptr;
  return event(chunk);
}

std::string ResponseWriter::end(const engine::TurnReport& report) {
  Json chunk = frame(true);
  Json last = choice();
  if (m_isChat) {
    last["delta"] = Json::object();
    if (!m_held.empty()) last["delta"]["content"] = std::exchange(m_held, {});
  } else {
    last["text"] = std::exchange(m_held, {});
  }
  last["finish_reason"] = finishReason(report.stopReason);
  chunk["choices"] = Json::array({last});
  if (m_includeUsage) chunk["usage"] = nullptr;
  std::string out = event(chunk);
  if (m_includeUsage) {
    Json usage = frame(true);
    usage["choices"] = Json::array();
    usage["usage"] = usageJson(report);
    usage["timings"] = timingsJson(report);
    out += event(usage);
  }
  return out + "data: [DONE]\n\n";
}

std::string ResponseWriter::failed(const engine::Error& error) {
  return "data: " + errorBody(error) + "\n\n";
}

void ResponseWriter::collect(const engine::TokensReady& ready) {
  if (!m_wantsLogprobs) return;
  const auto tokens = shown(ready.tokens);
  m_tokens.insert(m_tokens.end(), tokens.begin(), tokens.end());
}

std::string ResponseWriter::whole(const engine::TurnReport& report) const {
  Json body = frame(false);
  Json only = choice();
  if (m_isChat) {
    only["message"] = {{"role", "assistant"}, {"content", report.text}};
    if (m_wantsLogprobs) only["logprobs"] = chatLogprobs(m_tokens);
  } else {
    only["text"] = report.text;
    std::size_t offset = 0;
    if (m_wantsLogprobs) only["logprobs"] = completionLogprobs(m_tokens, offset);
  }
  only["finish_reason"] = finishReason(report.stopReason);
  body["choices"] = Json::array({only});
  body["usage"] = usageJson(report);
  body["timings"] = timingsJson(report);
  return dumped(body);
}

std::vector<engine::GeneratedToken> ResponseWriter::shown(
    const std::vector<engine::GeneratedToken>& all) const {
  if (!m_hidesEnd) return all;
  std::vector<engine::GeneratedToken> kept;
  const auto& ends = m_loaded.endTokens();
  for (const auto& token : all) {
    if (!std::binary_search(ends.begin(), ends.end(), token.id)) kept.push_back(token);
  }
  return kept;
}

std::string ResponseWriter::tokenText(engine::TokenId id) const {
  const engine::Tokenizer& tokenizer = m_loaded.tokenizer();
  return std::string(tokenizer.isControl(id) ? tokenizer.piece(id) : tokenizer.bytes(id));
}

Json ResponseWriter::tokenJson(const engine::TokenProbability& token) const {
  const std::string text = tokenText(token.id);
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", text}, {"logprob", finite(token.logprob)}, {"bytes", bytes}, {"id", token.id}};
}

Json ResponseWriter::chatLogprobs(const std::vector<engine::GeneratedToken>& tokens) const {
  Json content = Json::array();
  for (const auto& token : tokens) {
    Json entry = tokenJson({token.id, token.logprob});
    entry["top_logprobs"] = Json::array();
    for (const auto& other : token.top) entry["top_logprobs"].push_back(tokenJson(other));
    content.push_back(std::move(entry));
  }
  return {{"content", content}};
}

Json ResponseWriter::completionLogprobs(const std::vector<engine::GeneratedToken>& tokens,
                                        std::size_t& offset) const {
  Json out = {{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
  for (const auto& token : tokens) {
    const std::string text = tokenText(token.id);
    out["tokens"].push_back(text);
    out["token_logprobs"].push_back(finite(token.logprob));
    Json top = Json::object();
    for (const auto& other : token.top) {
      // Two ids may spell the same text; the likelier one stays.
      top.emplace(tokenText(other.id), finite(other.logprob));
    }
    out["top_logprobs"].push_back(std::move(top));
    out["text_offset"].push_back(offset);
    offset += static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
  }
  return out;
}

}  // namespace vitrine::app

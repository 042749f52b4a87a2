#include "app/server/api_request.h"

#include <cmath>
#include <limits>
#include <optional>

namespace vitrine::app {
namespace {

using engine::ErrorCode;
using engine::fail;
using engine::Result;

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxStops = 16;
constexpr int kMaxLogprobs = 20;

// The parser needs no stack for depth, but nothing good is nested this deep.
bool isTooDeep(std::string_view body) {
  int depth = 0;
  bool inString = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (inString) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        inString = false;
      }
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

/// The field, or null where it is missing or null.
const Json* field(const Json& body, const char* key) {
  const auto found = body.find(key);
  return found == body.end() || found->is_null() ? nullptr : &*found;
}

tl::unexpected<engine::Error> wrongType(const char* key, const char* wanted, const Json& value) {
  return fail(ErrorCode::kInvalidArgument, "'{}' must be {}, not {}", key, wanted,
              value.type_name());
}

Result<std::optional<double>> readNumber(const Json& body, const char* key) {
  const Json* value = field(body, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return wrongType(key, "a number", *value);
  return value->get<double>();
}

Result<std::optional<std::int64_t>> readWhole(const Json& body, const char* key) {
  const Json* value = field(body, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return wrongType(key, "a whole number", *value);
  if (value->is_number_unsigned() &&
      value->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return fail(ErrorCode::kInvalidArgument, "'{}' is too large", key);
  }
  if (value->is_number_integer()) return value->get<std::int64_t>();
  const double number = value->get<double>();
  if (number != std::floor(number) || std::fabs(number) > 9e15) {
    return fail(ErrorCode::kInvalidArgument, "'{}' must be a whole number; it is {}", key, number);
  }
  return static_cast<std::int64_t>(number);
}

Result<void> readFloat(const Json& body, const char* key, float& out) {
  VITRINE_ASSIGN(const auto value, readNumber(body, key));
  if (!value) return {};
  out = static_cast<float>(*value);
  // A number that single precision cannot hold must not become a harmless one.
  if (!std::isfinite(out)) {
    return fail(ErrorCode::kInvalidArgument, "'{}' is out of range; it is {}", key, *value);
  }
  return {};
}

Result<void> readSampling(const Json& body, engine::SamplingParams& out) {
  VITRINE_TRY(readFloat(body, "temperature", out.temperature));
  VITRINE_TRY(readFloat(body, "top_p", out.topP));
  VITRINE_TRY(readFloat(body, "min_p", out.minP));
  VITRINE_TRY(readFloat(body, "repetition_penalty", out.repeatPenalty));
  VITRINE_TRY(readFloat(body, "repeat_penalty", out.repeatPenalty));
  VITRINE_TRY(readFloat(body, "presence_penalty", out.presencePenalty));
  VITRINE_TRY(readFloat(body, "frequency_penalty", out.frequencyPenalty));
  VITRINE_ASSIGN(const auto topK, readWhole(body, "top_k"));
  if (topK) {
    if (*topK < -1) {
      return fail(ErrorCode::kInvalidArgument,
                  "'top_k' must be -1 or 0 (no filter) or a number of tokens; it is {}", *topK);
    }
    // More than any vocabulary has is no filter.
    out.topK = static_cast<int>(std::min<std::int64_t>(*topK, std::numeric_limits<int>::max()));
  }
  VITRINE_ASSIGN(const auto seed, readWhole(body, "seed"));
  if (seed) {
    if (*seed < -1) {
      return fail(ErrorCode::kInvalidArgument,
                  "'seed' must be a whole number from 0, or -1 for a random one; it is {}", *seed);
    }
    if (*seed >= 0) out.seed = static_cast<std::uint64_t>(*seed);
  }
  return out.validate();
}

Result<void> readStops(const Json& body, std::vector<std::string>& out) {
  const Json* value = field(body, "stop");
  if (value == nullptr) return {};
  const auto add = [&](const Json& text) -> Result<void> {
    if (!text.is_string()) return wrongType("stop", "a text or a list of texts", text);
    if (text.get_ref<const std::string&>().empty()) {
      return fail(ErrorCode::kInvalidArgument, "'stop' must not hold an empty text");
    }
    out.push_back(text.get<std::string>());
    return {};
  };
  if (!value->is_array()) return add(*value);
  if (value->size() > kMaxStops) {
    return fail(ErrorCode::kInvalidArgument, "'stop' may hold at most {} texts; it holds {}",
                kMaxStops, value->size());
  }
  for (const Json& text : *value) VITRINE_TRY(add(text));
  return {};
}

// Fields whose silent neglect would give another answer than the client asked for.
Result<void> refuseUnsupported(const Json& body) {
  VITRINE_ASSIGN(const auto n, readWhole(body, "n"));
  if (n && *n != 1) {
    return fail(ErrorCode::kInvalidArgument, "'n' must be 1: one answer a request; it is {}", *n);
  }
  VITRINE_ASSIGN(const auto bestOf, readWhole(body, "best_of"));
  if (bestOf && *bestOf != 1) {
    return fail(ErrorCode::kInvalidArgument, "'best_of' must be 1; it is {}", *bestOf);
  }
  if (const Json* bias = field(body, "logit_bias"); bias != nullptr && !bias->empty()) {
    return fail(ErrorCode::kInvalidArgument, "'logit_bias' is not supported");
  }
  if (const Json* format = field(body, "response_format")) {
    if (!format->is_object()) return wrongType("response_format", "an object", *format);
    if (format->value("type", Json()) != "text") {
      return fail(ErrorCode::kInvalidArgument,
                  "'response_format' supports only {{\"type\": \"text\"}}");
    }
  }
  if (const Json* choice = field(body, "tool_choice")) {
    if (*choice != "auto" && *choice != "none") {
      return fail(ErrorCode::kInvalidArgument, "calls of tools are not supported");
    }
  }
  if (const Json* suffix = field(body, "suffix"); suffix != nullptr && *suffix != "") {
    return fail(ErrorCode::kInvalidArgument, "'suffix' is not supported");
  }
  VITRINE_ASSIGN(const bool echo, readBool(body, "echo", false));
  if (echo) return fail(ErrorCode::kInvalidArgument, "'echo' is not supported");
  return {};
}

Result<void> readCommon(const Json& body, const engine::GenerationDefaults& defaults,
                        ApiRequest& out) {
  out.generate.sampling = defaultSampling(defaults);
  VITRINE_TRY(readSampling(body, out.generate.sampling));
  VITRINE_TRY(readStops(body, out.generate.stop));
  for (const char* key : {"max_tokens", "max_completion_tokens"}) {
    VITRINE_ASSIGN(const auto tokens, readWhole(body, key));
    if (!tokens || *tokens == -1) continue;  // -1: no limit, as with llama.cpp
    if (*tokens < 1) {
      return fail(ErrorCode::kInvalidArgument, "'{}' must be at least 1; it is {}", key, *tokens);
    }
    out.generate.maxTokens =
        static_cast<int>(std::min<std::int64_t>(*tokens, std::numeric_limits<int>::max()));
  }
  VITRINE_ASSIGN(out.generate.ignoreEnd, readBool(body, "ignore_eos", false));
  VITRINE_ASSIGN(out.stream, readBool(body, "stream", false));
  if (const Json* options = field(body, "stream_options")) {
    if (!options->is_object()) return wrongType("stream_options", "an object", *options);
    VITRINE_ASSIGN(out.includeUsage, readBool(*options, "include_usage", false));
  }
  VITRINE_TRY(refuseUnsupported(body));
  out.generate.conversation = "API";
  out.generate.keepOnDisk = false;  // whose prompts these are is not ours to know
  return {};
}

Result<void> setLogprobs(const char* key, std::int64_t count, ApiRequest& out) {
  if (count < 0 || count > kMaxLogprobs) {
    return fail(ErrorCode::kInvalidArgument, "'{}' must be between 0 and {}; it is {}", key,
                kMaxLogprobs, count);
  }
  out.generate.nLogprobs = static_cast<int>(count);
  return {};
}

Result<std::string> readContent(const Json& message, std::size_t index) {
  const auto found = message.find("content");
  if (found == message.end() || found->is_null()) {
    return fail(ErrorCode::kInvalidArgument, "'messages[{}]' has no 'content'", index);
  }
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) {
    return fail(ErrorCode::kInvalidArgument,
                "'messages[{}].content' must be a text or a list of parts, not {}", index,
                found->type_name());
  }
  std::string text;
  for (const Json& part : *found) {
    if (!part.is_object() || !part.contains("type") || part["type"] != "text" ||
        !part.contains("text") || !part["text"].is_string()) {
      return fail(ErrorCode::kInvalidArgument,
                  "'messages[{}].content' may hold only parts of type text", index);
    }
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

}  // namespace

Result<Json> parseBody(std::string_view body) {
  if (isTooDeep(body)) {
    return fail(ErrorCode::kInvalidArgument, "the body is nested deeper than {} levels", kMaxDepth);
  }
  try {
    Json json = Json::parse(body.begin(), body.end());
    if (!json.is_object()) {
      return fail(ErrorCode::kInvalidArgument, "the body must be a JSON object, not {}",
                  json.type_name());
    }
    return json;
  } catch (const Json::exception& error) {
    // The parser's sentence quotes bytes of the body, which need not be UTF-8.
    std::string message;
    for (const char c : std::string_view(error.what())) {
      message += c >= ' ' && c < '\x7F' ? c : '?';
    }
    return fail(ErrorCode::kInvalidArgument, "the body is not valid JSON: {}", message);
  }
}

engine::SamplingParams defaultSampling(const engine::GenerationDefaults& defaults) {
  engine::SamplingParams params;
  params.temperature = defaults.temperature.value_or(params.temperature);
  params.topK = defaults.topK.value_or(params.topK);
  params.topP = defaults.topP.value_or(params.topP);
  params.minP = defaults.minP.value_or(params.minP);
  params.repeatPenalty = defaults.repeatPenalty.value_or(params.repeatPenalty);
  return params;
}

Result<bool> readBool(const Json& body, const char* key, bool otherwise) {
  const Json* value = field(body, key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return wrongType(key, "true or false", *value);
  return value->get<bool>();
}

Result<std::vector<engine::ChatMessage>> readMessages(const Json& body) {
  const Json* list = field(body, "messages");
  if (list == nullptr) return fail(ErrorCode::kInvalidArgument, "'messages' is missing");
  if (!list->is_array()) return wrongType("messages", "a list", *list);
  if (list->empty()) return fail(ErrorCode::kInvalidArgument, "'messages' is empty");
  std::vector<engine::ChatMessage> messages;
  messages.reserve(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& message = (*list)[i];
    if (!message.is_object()) {
      return fail(ErrorCode::kInvalidArgument, "'messages[{}]' must be an object, not {}", i,
                  message.type_name());
    }
    const auto role = message.find("role");
    if (role == message.end() || !role->is_string()) {
      return fail(ErrorCode::kInvalidArgument, "'messages[{}]' has no 'role'", i);
    }
    const auto& name = role->get_ref<const std::string&>();
    if (name != "system" && name != "developer" && name != "user" && name != "assistant" &&
        name != "tool") {
      return fail(ErrorCode::kInvalidArgument,
                  "'messages[{}].role' must be system, developer, user, assistant or tool", i);
    }
    VITRINE_ASSIGN(std::string content, readContent(message, i));
    // Templates know one name for what stands above the conversation.
    messages.push_back({name == "developer" ? "system" : name, std::move(content), {}});
  }
  return messages;
}

Result<ApiRequest> readChatRequest(const Json& body, const engine::GenerationDefaults& defaults) {
  ApiRequest request;
  VITRINE_ASSIGN(auto messages, readMessages(body));
  request.generate.prompt = engine::ChatPrompt{std::move(messages)};
  VITRINE_TRY(readCommon(body, defaults, request));
  VITRINE_ASSIGN(const bool wants, readBool(body, "logprobs", false));
  VITRINE_ASSIGN(const auto top, readWhole(body, "top_logprobs"));
  if (wants) VITRINE_TRY(setLogprobs("top_logprobs", top.value_or(0), request));
  return request;
}

Result<ApiRequest> readCompletionRequest(const Json& body,
                                         const engine::GenerationDefaults& defaults) {
  ApiRequest request;
  request.isChat = false;
  const Json* prompt = field(body, "prompt");
  if (prompt == nullptr) return fail(ErrorCode::kInvalidArgument, "'prompt' is missing");
  if (prompt->is_array() && prompt->size() == 1 && !(*prompt)[0].is_number()) {
    prompt = &(*prompt)[0];
  }
  if (prompt->is_string()) {
    // Who writes a raw prompt writes its control tokens too, as with llama.cpp and vLLM.
    VITRINE_ASSIGN(const bool parses, readBool(body, "parse_special", true));
    request.generate.prompt = engine::RawPrompt{prompt->get<std::string>(), parses};
  } else if (prompt->is_array() && !prompt->empty()) {
    VITRINE_ASSIGN(auto tokens, readTokens(Json{{"prompt", *prompt}}, "prompt",
                                           std::numeric_limits<int>::max()));
    request.generate.prompt = std::move(tokens);
  } else {
    return fail(ErrorCode::kInvalidArgument, "'prompt' must be one text or one list of token ids");
  }
  VITRINE_TRY(readCommon(body, defaults, request));
  if (request.generate.maxTokens == 0 && field(body, "max_tokens") == nullptr) {
    request.generate.maxTokens = 16;  // the API's own default for completions
  }
  VITRINE_ASSIGN(const auto logprobs, readWhole(body, "logprobs"));
  if (logprobs) VITRINE_TRY(setLogprobs("logprobs", *logprobs, request));
  return request;
}

Result<std::vector<engine::TokenId>> readTokens(const Json& body, const char* key, int vocabSize) {
  const Json* list = field(body, key);
  if (list == nullptr) return fail(ErrorCode::kInvalidArgument, "'{}' is missing", key);
  if (!list->is_array()) return wrongType(key, "a list of token ids", *list);
  std::vector<engine::TokenId> tokens;
  tokens.reserve(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& id = (*list)[i];
    const bool isId = id.is_number_integer() && id.get<std::int64_t>() >= 0 &&
                      (!id.is_number_unsigned() || id.get<std::uint64_t>() < (1ULL << 31U)) &&
                      id.get<std::int64_t>() < vocabSize;
    if (!isId) {
      return fail(ErrorCode::kInvalidArgument, "'{}[{}]' is no token of this model", key, i);
    }
    tokens.push_back(id.get<engine::TokenId>());
  }
  return tokens;
}

}  // namespace vitrine::app

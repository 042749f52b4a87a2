#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/engine_types.h"

// What a client sends: strict JSON, then the fields that mean something to us. Unknown fields are
// ignored; known ones with a wrong type or a value without meaning are refused, with their name.

namespace vitrine::app {

using Json = nlohmann::json;

struct ApiRequest {
  engine::GenerateRequest generate;
  bool isChat = true;
  bool stream = false;
  bool includeUsage = false;
};

/// One JSON object. Errors: not UTF-8, not JSON, nested deeper than a sane body, not an object.
engine::Result<Json> parseBody(std::string_view body);

/// Defaults where a client says nothing: the model's own settings, else the program's.
engine::SamplingParams defaultSampling(const engine::GenerationDefaults& defaults);

engine::Result<ApiRequest> readChatRequest(const Json& body,
                                           const engine::GenerationDefaults& defaults);
engine::Result<ApiRequest> readCompletionRequest(const Json& body,
                                                 const engine::GenerationDefaults& defaults);
/// The `messages` of a body. Content parts of type text are joined.
engine::Result<std::vector<engine::ChatMessage>> readMessages(const Json& body);
/// A list of token ids under `key`, all within the vocabulary.
engine::Result<std::vector<engine::TokenId>> readTokens(const Json& body, const char* key,
                                                        int vocabSize);
/// Null and missing count as `otherwise`.
engine::Result<bool> readBool(const Json& body, const char* key, bool otherwise);

}  // namespace vitrine::app

#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/server/api_request.h"
#include "engine/engine_types.h"
#include "engine/tokenizer/tokenizer.h"

// What a client gets back, in the shapes of OpenAI's API.

namespace vitrine::app {

/// {"error": {"message", "type", "code"}}
std::string errorBody(int status, const std::string& message, const char* code = nullptr);
int httpStatus(engine::ErrorCode code);
std::string errorBody(const engine::Error& error);

/// JSON on one line; a byte that is not UTF-8 becomes U+FFFD.
std::string dumped(const Json& json);

/// Builds the answer to one request, whole or in pieces.
class ResponseWriter final {
 public:
  /// `model`: its name in the API. The tokenizer must outlive the writer.
  ResponseWriter(const ApiRequest& request, std::string model, const engine::Model& loaded);

  // Streamed: each returns the text of server-sent events, maybe empty.
  std::string begin() const;
  std::string piece(const engine::TokensReady& ready);
  std::string end(const engine::TurnReport& report);
  static std::string failed(const engine::Error& error);

  // Whole: tokens are collected first.
  void collect(const engine::TokensReady& ready);
  std::string whole(const engine::TurnReport& report) const;

 private:
  Json frame(bool isChunk) const;
  Json choice() const;
  Json tokenJson(const engine::TokenProbability& token) const;
  Json chatLogprobs(const std::vector<engine::GeneratedToken>& tokens) const;
  Json completionLogprobs(const std::vector<engine::GeneratedToken>& tokens,
                          std::size_t& offset) const;
  std::vector<engine::GeneratedToken> shown(const std::vector<engine::GeneratedToken>& all) const;
  std::string tokenText(engine::TokenId id) const;

  bool m_isChat, m_includeUsage, m_wantsLogprobs, m_hidesEnd;
  std::string m_id, m_model;
  std::int64_t m_created;
  const engine::Model& m_loaded;
  std::vector<engine::GeneratedToken> m_tokens;
  std::string m_held;        // the sign of a character that did not become whole: only at the end
  std::size_t m_offset = 0;  // characters before the next token, for completions
};

}  // namespace vitrine::app

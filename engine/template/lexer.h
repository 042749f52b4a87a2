#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/template/value.h"

namespace vitrine::engine::jinja {

enum class TokenKind {
  kText,        // text outside of tags
  kPrintBegin,  // {{
  kPrintEnd,    // }}
  kTagBegin,    // {%
  kTagEnd,      // %}
  kName,
  kString,  // text holds the string with its escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  Position at;
};

/// Cuts a template into tokens, with trim_blocks, lstrip_blocks and the `-` and `+` signs of tags
/// applied as Jinja2 does. Comments and raw blocks are resolved here. Throws TemplateError.
std::vector<Token> tokenize(std::string_view source);

}  // namespace vitrine::engine::jinja

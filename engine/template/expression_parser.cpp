// The grammar of expressions, in the order of Jinja2's precedence: the last binds most.
#include <charconv>
#include <limits>
#include <utility>

#include "engine/template/library.h"
#include "engine/template/parser.h"

namespace vitrine::engine::jinja {
namespace {

// Longer chains (a + b + c …) than any template needs; the tree is walked recursively.
constexpr int kMaxDepth = 300;

}  // namespace

ExpressionPtr Parser::make(ExpressionKind kind, Position at) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->at = at;
  return node;
}

ExpressionPtr Parser::finished(ExpressionPtr node) const {
  int depth = 0;
  for (const auto& item : node->items) depth = std::max(depth, item ? item->depth : 0);
  for (const auto& [name, item] : node->named) depth = std::max(depth, item->depth);
  if (depth >= kMaxDepth) throw TemplateError("this expression is nested too deeply", node->at);
  node->depth = depth + 1;
  return node;
}

ExpressionPtr Parser::parseExpression(bool allowsCondition) {
  const Nesting nesting(*this);
  return allowsCondition ? parseCondition() : parseOr();
}

// One expression, or several with commas, which make a tuple.
ExpressionPtr Parser::parseTuple(bool allowsCondition) {
  const Position at = current().at;
  auto first = parseExpression(allowsCondition);
  if (!isOperator(",")) return first;
  auto tuple = make(ExpressionKind::kTuple, at);
  tuple->items.push_back(std::move(first));
  while (takeOperator(",")) {
    const TokenKind kind = current().kind;
    if (kind == TokenKind::kPrintEnd || kind == TokenKind::kTagEnd || isOperator(")") ||
        isOperator("]")) {
      break;
    }
    tuple->items.push_back(parseExpression(allowsCondition));
  }
  return finished(std::move(tuple));
}

ExpressionPtr Parser::parseCondition() {
  auto value = parseOr();
  while (isName("if")) {
    auto node = make(ExpressionKind::kCondition, next().at);
    ++m_conditional;
    node->items.push_back(std::move(value));
    node->items.push_back(parseOr());
    node->items.push_back(takeName("else") ? parseExpression() : nullptr);
    --m_conditional;
    value = finished(std::move(node));
  }
  return value;
}

ExpressionPtr Parser::parseOr() {
  auto left = parseAnd();
  while (isName("or")) {
    auto node = make(ExpressionKind::kOr, next().at);
    node->items.push_back(std::move(left));
    node->items.push_back(parseAnd());
    left = finished(std::move(node));
  }
  return left;
}

ExpressionPtr Parser::parseAnd() {
  auto left = parseNot();
  while (isName("and")) {
    auto node = make(ExpressionKind::kAnd, next().at);
    node->items.push_back(std::move(left));
    node->items.push_back(parseNot());
    left = finished(std::move(node));
  }
  return left;
}

ExpressionPtr Parser::parseNot() {
  if (!isName("not")) return parseCompare();
  const Nesting nesting(*this);
  auto node = make(ExpressionKind::kNot, next().at);
  node->items.push_back(parseNot());
  return finished(std::move(node));
}

ExpressionPtr Parser::parseCompare() {
  auto left = parseSum();
  ExpressionPtr node;
  while (true) {
    std::string name;
    const Position at = current().at;
    if (isOperator("==") || isOperator("!=") || isOperator("<") || isOperator("<=") ||
        isOperator(">") || isOperator(">=")) {
      name = next().text;
    } else if (takeName("in")) {
      name = "in";
    } else if (isName("not") && m_tokens[m_at + 1].kind == TokenKind::kName &&
               m_tokens[m_at + 1].text == "in") {
      next();
      next();
      name = "not in";
    } else {
      break;
    }
    if (!node) {
      node = make(ExpressionKind::kCompare, at);
      node->items.push_back(std::move(left));
    }
    node->operators.push_back(name);
    node->items.push_back(parseSum());
  }
  return node ? finished(std::move(node)) : std::move(left);
}

ExpressionPtr Parser::parseSum() {
  auto left = parseConcat();
  while (isOperator("+") || isOperator("-")) {
    auto node = make(ExpressionKind::kBinary, current().at);
    node->name = next().text;
    node->items.push_back(std::move(left));
    node->items.push_back(parseConcat());
    left = finished(std::move(node));
  }
  return left;
}

ExpressionPtr Parser::parseConcat() {
  auto first = parseProduct();
  if (!isOperator("~")) return first;
  auto node = make(ExpressionKind::kConcat, current().at);
  node->items.push_back(std::move(first));
  while (takeOperator("~")) node->items.push_back(parseProduct());
  return finished(std::move(node));
}

ExpressionPtr Parser::parseProduct() {
  auto left = parsePower();
  while (isOperator("*") || isOperator("/") || isOperator("//") || isOperator("%")) {
    auto node = make(ExpressionKind::kBinary, current().at);
    node->name = next().text;
    node->items.push_back(std::move(left));
    node->items.push_back(parsePower());
    left = finished(std::move(node));
  }
  return left;
}

ExpressionPtr Parser::parsePower() {
  auto left = parseUnary();
  while (isOperator("**")) {
    auto node = make(ExpressionKind::kBinary, next().at);
    node->name = "**";
    node->items.push_back(std::move(left));
    node->items.push_back(parseUnary());
    left = finished(std::move(node));
  }
  return left;
}

ExpressionPtr Parser::parseUnary(bool allowsFilter) {
  ExpressionPtr node;
  if (isOperator("-") || isOperator("+")) {
    const Nesting nesting(*this);
    const bool negative = isOperator("-");
    auto sign = make(negative ? ExpressionKind::kNegative : ExpressionKind::kPositive, next().at);
    sign->items.push_back(parseUnary(false));
    node = finished(std::move(sign));
  } else {
    node = parsePrimary();
  }
  node = parsePostfix(std::move(node));
  return allowsFilter ? parseFiltersAndTests(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::parseNumber(const Token& token) {
  auto node = make(ExpressionKind::kConstant, token.at);
  const char* begin = token.text.data();
  const char* end = begin + token.text.size();
  if (token.kind == TokenKind::kFloat) {
    // As Python: too large is infinite, too small is 0. A literal has no sign.
    double value = 0;
    const auto result = std::from_chars(begin, end, value);
    if (result.ec == std::errc::result_out_of_range) {
      const bool isSmall =
          token.text.find("e-") != std::string::npos || token.text.find("E-") != std::string::npos;
      value = isSmall ? 0 : std::numeric_limits<double>::infinity();
    }
    node->value = value;
    return node;
  }
  int base = 10;
  if (token.text.size() > 2 && token.text[0] == '0') {
    const char letter = static_cast<char>(token.text[1] | 0x20);
    base = letter == 'x' ? 16 : (letter == 'o' ? 8 : (letter == 'b' ? 2 : 10));
    if (base != 10) begin += 2;
  }
  std::int64_t value = 0;
  const auto result = std::from_chars(begin, end, value, base);
  if (result.ec != std::errc() || result.ptr != end) {
    throw TemplateError("the number " + token.text + " cannot be used", token.at);
  }
  node->value = value;
  return node;
}

ExpressionPtr Parser::parsePrimary() {
  const Token& token = current();
  if (token.kind == TokenKind::kName) {
    next();
    auto node = make(ExpressionKind::kConstant, token.at);
    if (token.text == "true" || token.text == "True") {
      node->value = true;
    } else if (token.text == "false" || token.text == "False") {
      node->value = false;
    } else if (token.text == "none" || token.text == "None") {
      node->value = Value();
    } else {
      node->kind = ExpressionKind::kName;
      node->name = token.text;
      for (auto& names : m_macroNames) names.insert(token.text);
    }
    return node;
  }
  if (token.kind == TokenKind::kString) {
    auto node = make(ExpressionKind::kConstant, token.at);
    std::string text = next().text;
    while (current().kind == TokenKind::kString) text += next().text;
    node->value = Value(std::string_view(text));
    return node;
  }
  if (token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat) {
    return parseNumber(next());
  }
  if (takeOperator("(")) {
    ExpressionPtr inner;
    if (isOperator(")")) {
      inner = make(ExpressionKind::kTuple, token.at);
    } else {
      inner = parseTuple();
    }
    expectOperator(")");
    return inner;
  }
  if (takeOperator("[")) {
    auto node = make(ExpressionKind::kList, token.at);
    while (!isOperator("]")) {
      if (!node->items.empty()) expectOperator(",");
      if (isOperator("]")) break;
      node->items.push_back(parseExpression());
    }
    next();
    return finished(std::move(node));
  }
  if (isOperator("{")) return parseDict();
  failHere("expected a value, found " + describe(token));
}

ExpressionPtr Parser::parseDict() {
  auto node = make(ExpressionKind::kDict, next().at);
  while (!isOperator("}")) {
    if (!node->items.empty()) expectOperator(",");
    if (isOperator("}")) break;
    node->items.push_back(parseExpression());
    expectOperator(":");
    node->items.push_back(parseExpression());
  }
  next();
  return finished(std::move(node));
}

ExpressionPtr Parser::parsePostfix(ExpressionPtr node) {
  while (true) {
    const Position at = current().at;
    if (takeOperator(".")) {
      if (current().kind == TokenKind::kInteger) {
        auto subscript = make(ExpressionKind::kSubscript, at);
        subscript->items.push_back(std::move(node));
        subscript->items.push_back(parseNumber(next()));
        node = finished(std::move(subscript));
        continue;
      }
      auto attribute = make(ExpressionKind::kAttribute, at);
      attribute->name = expectName();
      attribute->items.push_back(std::move(node));
      node = finished(std::move(attribute));
    } else if (isOperator("[")) {
      node = parseSubscript(std::move(node));
    } else if (isOperator("(")) {
      auto call = make(ExpressionKind::kCall, at);
      call->items.push_back(std::move(node));
      parseArguments(*call);
      node = finished(std::move(call));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::parseSubscript(ExpressionPtr node) {
  auto subscript = make(ExpressionKind::kSubscript, next().at);
  subscript->items.push_back(std::move(node));
  const Position at = current().at;
  ExpressionPtr parts[3];
  int nParts = 0;
  bool isSlice = false;
  while (nParts < 3) {
    if (!isOperator(":") && !isOperator("]")) parts[nParts] = parseTuple();
    ++nParts;
    if (!takeOperator(":")) break;
    isSlice = true;
  }
  expectOperator("]");
  if (isSlice) {
    auto slice = make(ExpressionKind::kSlice, at);
    for (auto& part : parts) slice->items.push_back(std::move(part));
    subscript->items.push_back(finished(std::move(slice)));
  } else {
    if (!parts[0]) throw TemplateError("an index is missing between '[' and ']'", at);
    subscript->items.push_back(std::move(parts[0]));
  }
  return finished(std::move(subscript));
}

void Parser::parseArguments(Expression& call) {
  expectOperator("(");
  bool isFirst = true;
  while (!isOperator(")")) {
    if (!isFirst) expectOperator(",");
    isFirst = false;
    if (isOperator(")")) break;
    if (takeOperator("**")) {
      call.starNamed = parseExpression();
    } else if (takeOperator("*")) {
      call.starArguments = parseExpression();
    } else if (current().kind == TokenKind::kName &&
               m_tokens[m_at + 1].kind == TokenKind::kOperator && m_tokens[m_at + 1].text == "=") {
      std::string name = next().text;
      next();
      call.named.emplace_back(std::move(name), parseExpression());
    } else {
      if (!call.named.empty() || call.starNamed) {
        failHere("an argument without a name follows one with a name");
      }
      call.items.push_back(parseExpression());
    }
  }
  next();
}

ExpressionPtr Parser::parseFiltersAndTests(ExpressionPtr node) {
  while (true) {
    if (isOperator("|")) {
      next();
      node = parseFilter(std::move(node));
    } else if (node && isName("is")) {
      node = parseTest(std::move(node));
    } else if (node && isOperator("(")) {
      node = parsePostfix(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::parseFilter(ExpressionPtr node) {
  auto filter = make(ExpressionKind::kFilter, current().at);
  filter->name = expectName();
  while (takeOperator(".")) filter->name += "." + expectName();
  if (m_conditional == 0 && findFilter(filter->name) == nullptr) {
    throw TemplateError("the filter '" + filter->name + "' is not known", filter->at);
  }
  filter->items.push_back(std::move(node));
  if (isOperator("(")) parseArguments(*filter);
  return finished(std::move(filter));
}

ExpressionPtr Parser::parseTest(ExpressionPtr node) {
  const Nesting nesting(*this);
  const Position at = next().at;
  const bool negated = takeName("not");
  auto test = make(ExpressionKind::kTest, current().at);
  test->name = expectName();
  while (takeOperator(".")) test->name += "." + expectName();
  if (m_conditional == 0 && findTest(test->name) == nullptr) {
    throw TemplateError("the test '" + test->name + "' is not known", test->at);
  }
  test->items.push_back(std::move(node));
  const TokenKind kind = current().kind;
  if (isOperator("(")) {
    parseArguments(*test);
  } else if (kind == TokenKind::kString || kind == TokenKind::kInteger ||
             kind == TokenKind::kFloat || isOperator("[") || isOperator("{") ||
             (kind == TokenKind::kName && !isName("else") && !isName("or") && !isName("and"))) {
    if (isName("is")) failHere("tests cannot be chained with 'is'");
    // `x is defined if y` and the like: these words go on with the expression around.
    if (!isName("if") && !isName("in") && !isName("not") && !isName("recursive")) {
      test->items.push_back(parsePostfix(parsePrimary()));
    }
  }
  auto result = finished(std::move(test));
  if (!negated) return result;
  auto node2 = make(ExpressionKind::kNot, at);
  node2->items.push_back(std::move(result));
  return finished(std::move(node2));
}

}  // namespace vitrine::engine::jinja

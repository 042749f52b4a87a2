// Tokens and statements; expression_parser.cpp has the rest.
#include "engine/template/parser.h"

#include <algorithm>

namespace vitrine::engine::jinja {

// ---------------------------------------------------------------- tokens

const Token& Parser::next() {
  const Token& token = m_tokens[m_at];
  if (token.kind != TokenKind::kEnd) ++m_at;
  return token;
}

bool Parser::isOperator(std::string_view text) const {
  return current().kind == TokenKind::kOperator && current().text == text;
}

bool Parser::isName(std::string_view text) const {
  return current().kind == TokenKind::kName && current().text == text;
}

bool Parser::takeOperator(std::string_view text) {
  if (!isOperator(text)) return false;
  next();
  return true;
}

bool Parser::takeName(std::string_view text) {
  if (!isName(text)) return false;
  next();
  return true;
}

void Parser::expectOperator(std::string_view text) {
  if (!takeOperator(text)) {
    failHere("expected '" + std::string(text) + "', found " + describe(current()));
  }
}

std::string Parser::expectName() {
  if (current().kind != TokenKind::kName) failHere("expected a name, found " + describe(current()));
  return next().text;
}

void Parser::expectTagEnd() {
  if (current().kind != TokenKind::kTagEnd) failHere("expected '%}', found " + describe(current()));
  next();
}

void Parser::failHere(const std::string& message) const {
  throw TemplateError(message, current().at);
}

std::string Parser::describe(const Token& token) const {
  switch (token.kind) {
    case TokenKind::kText:
      return "text";
    case TokenKind::kPrintBegin:
      return "'{{'";
    case TokenKind::kPrintEnd:
      return "'}}'";
    case TokenKind::kTagBegin:
      return "'{%'";
    case TokenKind::kTagEnd:
      return "'%}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return "'" + token.text + "'";
  }
}

// ---------------------------------------------------------------- statements

Body Parser::parse() {
  Body body = parseBody({});
  if (current().kind != TokenKind::kEnd) failHere("unexpected " + describe(current()));
  return body;
}

// Reads up to a tag whose name is one of `ends`; that name is then the current token.
Body Parser::parseBody(const std::vector<std::string_view>& ends) {
  const Nesting nesting(*this);
  Body body;
  while (current().kind != TokenKind::kEnd) {
    const Token& token = next();
    if (token.kind == TokenKind::kText) {
      auto statement = std::make_unique<Statement>();
      statement->kind = StatementKind::kText;
      statement->at = token.at;
      statement->text = token.text;
      body.push_back(std::move(statement));
    } else if (token.kind == TokenKind::kPrintBegin) {
      auto statement = std::make_unique<Statement>();
      statement->kind = StatementKind::kPrint;
      statement->at = token.at;
      statement->expression = parseTuple();
      if (current().kind != TokenKind::kPrintEnd) {
        failHere("expected '}}', found " + describe(current()));
      }
      next();
      body.push_back(std::move(statement));
    } else {
      if (current().kind == TokenKind::kName &&
          std::find(ends.begin(), ends.end(), current().text) != ends.end()) {
        return body;
      }
      parseTag(body, token);
    }
  }
  if (!ends.empty()) failHere("'" + std::string(ends.back()) + "' is missing");
  return body;
}

void Parser::finishBlock(Statement& statement, std::string_view end) {
  expectTagEnd();
  statement.body = parseBody({end});
  next();
  expectTagEnd();
}

void Parser::parseTag(Body& body, const Token& begin) {
  const Position at = begin.at;
  if (current().kind != TokenKind::kName) {
    failHere("expected the name of a tag, found " + describe(current()));
  }
  const std::string name = current().text;
  if (name == "for") {
    body.push_back(parseFor(at));
    return;
  }
  if (name == "if") {
    body.push_back(parseIf(at));
    return;
  }
  auto statement = std::make_unique<Statement>();
  statement->at = at;
  if (name == "set") {
    next();
    parseSet(*statement);
  } else if (name == "macro") {
    next();
    parseMacro(*statement);
  } else if (name == "call") {
    next();
    parseCallBlock(*statement);
  } else if (name == "filter") {
    next();
    parseFilterBlock(*statement);
  } else if (name == "with") {
    next();
    parseWith(*statement);
  } else if (name == "generation") {
    next();
    statement->kind = StatementKind::kScope;
    finishBlock(*statement, "endgeneration");
  } else if (name == "break" || name == "continue") {
    next();
    statement->kind = name == "break" ? StatementKind::kBreak : StatementKind::kContinue;
    expectTagEnd();
  } else if (name.compare(0, 3, "end") == 0 || name == "else" || name == "elif") {
    failHere("'" + name + "' without its beginning");
  } else {
    failHere("the tag '" + name + "' is not known");
  }
  body.push_back(std::move(statement));
}

std::unique_ptr<Statement> Parser::parseFor(Position at) {
  next();
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kFor;
  statement->at = at;
  statement->target = parseTarget(false);
  if (!takeName("in")) failHere("expected 'in', found " + describe(current()));
  statement->expression = parseTuple(false);
  if (takeName("if")) statement->condition = parseExpression();
  statement->recursive = takeName("recursive");
  expectTagEnd();
  statement->body = parseBody({"else", "endfor"});
  if (takeName("else")) {
    expectTagEnd();
    statement->otherwise = parseBody({"endfor"});
  }
  next();
  expectTagEnd();
  return statement;
}

std::unique_ptr<Statement> Parser::parseIf(Position at) {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kIf;
  statement->at = at;
  ++m_conditional;
  while (true) {
    const std::string name = next().text;  // if, elif, else, endif
    if (name == "endif") break;
    Branch branch;
    if (name != "else") branch.condition = parseTuple(false);
    expectTagEnd();
    branch.body = name == "else" ? parseBody({"endif"}) : parseBody({"elif", "else", "endif"});
    statement->branches.push_back(std::move(branch));
  }
  --m_conditional;
  expectTagEnd();
  return statement;
}

// A name, names with commas (also in parentheses), or (for set) an attribute of a namespace.
ExpressionPtr Parser::parseTarget(bool allowsAttribute) {
  const Nesting nesting(*this);
  const Position at = current().at;
  std::vector<ExpressionPtr> names;
  bool isTuple = false;
  while (true) {
    if (takeOperator("(")) {
      names.push_back(parseTarget(false));
      expectOperator(")");
    } else {
      auto name = make(ExpressionKind::kName, current().at);
      name->name = expectName();
      if (name->name == "true" || name->name == "false" || name->name == "none" ||
          name->name == "True" || name->name == "False" || name->name == "None") {
        throw TemplateError("'" + name->name + "' cannot be assigned to", name->at);
      }
      if (allowsAttribute && names.empty() && takeOperator(".")) {
        auto attribute = make(ExpressionKind::kAttribute, at);
        attribute->name = expectName();
        attribute->items.push_back(std::move(name));
        return attribute;
      }
      names.push_back(std::move(name));
    }
    if (!takeOperator(",")) break;
    isTuple = true;
    if (!isOperator("(") && (current().kind != TokenKind::kName || isName("in"))) break;
  }
  if (!isTuple) return std::move(names.front());
  auto tuple = make(ExpressionKind::kTuple, at);
  tuple->items = std::move(names);
  return tuple;
}

void Parser::parseSet(Statement& statement) {
  statement.target = parseTarget(true);
  if (takeOperator("=")) {
    statement.kind = StatementKind::kSet;
    statement.expression = parseTuple();
    expectTagEnd();
    return;
  }
  statement.kind = StatementKind::kSetBlock;
  if (isOperator("|")) statement.expression = parseFiltersAndTests(nullptr);
  finishBlock(statement, "endset");
}

void Parser::parseParameters(Macro& macro) {
  expectOperator("(");
  while (!isOperator(")")) {
    if (!macro.parameters.empty()) expectOperator(",");
    if (isOperator(")")) break;
    macro.parameters.push_back(expectName());
    if (takeOperator("=")) {
      macro.defaults.push_back(parseExpression());
    } else if (!macro.defaults.empty()) {
      failHere("a parameter without a default follows one with a default");
    }
  }
  next();
}

void Parser::parseMacroBody(Macro& macro, std::string_view end) {
  expectTagEnd();
  m_macroNames.emplace_back();
  macro.body = parseBody({end});
  next();
  expectTagEnd();
  const auto names = std::move(m_macroNames.back());
  m_macroNames.pop_back();
  macro.takesMore = names.count("varargs") > 0;
  macro.takesMoreNamed = names.count("kwargs") > 0;
  macro.takesCaller = names.count("caller") > 0;
}

void Parser::parseMacro(Statement& statement) {
  statement.kind = StatementKind::kMacro;
  statement.macro = std::make_unique<Macro>();
  statement.macro->name = expectName();
  parseParameters(*statement.macro);
  parseMacroBody(*statement.macro, "endmacro");
}

void Parser::parseCallBlock(Statement& statement) {
  statement.kind = StatementKind::kCall;
  statement.macro = std::make_unique<Macro>();
  statement.macro->name = "caller";
  if (isOperator("(")) parseParameters(*statement.macro);
  statement.expression = parseExpression();
  if (statement.expression->kind != ExpressionKind::kCall) {
    throw TemplateError("'call' needs a call of a macro", statement.expression->at);
  }
  parseMacroBody(*statement.macro, "endcall");
}

void Parser::parseFilterBlock(Statement& statement) {
  statement.kind = StatementKind::kFilterBlock;
  statement.expression = parseFilter(nullptr);
  if (isOperator("|")) {
    statement.expression = parseFiltersAndTests(std::move(statement.expression));
  }
  finishBlock(statement, "endfilter");
}

void Parser::parseWith(Statement& statement) {
  statement.kind = StatementKind::kScope;
  while (current().kind != TokenKind::kTagEnd) {
    if (!statement.assignments.empty()) expectOperator(",");
    auto target = parseTarget(false);
    expectOperator("=");
    statement.assignments.emplace_back(std::move(target), parseExpression());
  }
  finishBlock(statement, "endwith");
}

}  // namespace vitrine::engine::jinja

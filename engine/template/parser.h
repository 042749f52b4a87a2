#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/template/ast.h"
#include "engine/template/lexer.h"

namespace vitrine::engine::jinja {

/// Reads a template into its tree. Throws TemplateError with line and column. How deep a tree may
/// become is bounded, so that walking it needs a bounded stack.
class Parser {
 public:
  explicit Parser(std::string_view source) : m_tokens(tokenize(source)) {}
  Body parse();

 private:
  // statements: parser.cpp
  Body parseBody(const std::vector<std::string_view>& ends);
  void parseTag(Body& body, const Token& begin);
  std::unique_ptr<Statement> parseFor(Position at);
  std::unique_ptr<Statement> parseIf(Position at);
  void parseSet(Statement& statement);
  void parseMacro(Statement& statement);
  void parseCallBlock(Statement& statement);
  void parseParameters(Macro& macro);
  void parseMacroBody(Macro& macro, std::string_view end);
  void parseFilterBlock(Statement& statement);
  void parseWith(Statement& statement);
  void finishBlock(Statement& statement, std::string_view end);
  ExpressionPtr parseTarget(bool allowsAttribute);

  // expressions: expression_parser.cpp
  ExpressionPtr parseExpression(bool allowsCondition = true);
  ExpressionPtr parseTuple(bool allowsCondition = true);
  ExpressionPtr parseCondition();
  ExpressionPtr parseOr();
  ExpressionPtr parseAnd();
  ExpressionPtr parseNot();
  ExpressionPtr parseCompare();
  ExpressionPtr parseSum();
  ExpressionPtr parseConcat();
  ExpressionPtr parseProduct();
  ExpressionPtr parsePower();
  ExpressionPtr parseUnary(bool allowsFilter = true);
  ExpressionPtr parsePrimary();
  ExpressionPtr parseNumber(const Token& token);
  ExpressionPtr parseDict();
  ExpressionPtr parsePostfix(ExpressionPtr node);
  ExpressionPtr parseFiltersAndTests(ExpressionPtr node);
  ExpressionPtr parseFilter(ExpressionPtr node);
  ExpressionPtr parseTest(ExpressionPtr node);
  ExpressionPtr parseSubscript(ExpressionPtr node);
  void parseArguments(Expression& call);

  // tokens
  const Token& current() const { return m_tokens[m_at]; }
  const Token& next();
  bool isOperator(std::string_view text) const;
  bool isName(std::string_view text) const;
  bool takeOperator(std::string_view text);
  bool takeName(std::string_view text);
  void expectOperator(std::string_view text);
  std::string expectName();
  void expectTagEnd();
  [[noreturn]] void failHere(const std::string& message) const;
  std::string describe(const Token& token) const;

  ExpressionPtr make(ExpressionKind kind, Position at) const;
  /// Sets the depth of a node whose children are complete.
  ExpressionPtr finished(ExpressionPtr node) const;

  /// Counts how deep the parser is, and refuses what would need too much stack.
  class Nesting;

  std::vector<Token> m_tokens;
  std::size_t m_at = 0;
  int m_nesting = 0;
  int m_conditional = 0;  // inside of an if: an unknown filter is an error only when it is reached
  std::vector<std::unordered_set<std::string>> m_macroNames;  // names read in each open macro
};

class Parser::Nesting {
 public:
  explicit Nesting(Parser& parser) : m_parser(parser) {
    if (++m_parser.m_nesting > kMax) {
      --m_parser.m_nesting;
      m_parser.failHere("this is nested too deeply");
    }
  }
  ~Nesting() { --m_parser.m_nesting; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  static constexpr int kMax = 120;
  Parser& m_parser;
};

}  // namespace vitrine::engine::jinja

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/template/value.h"

// The tree that a template is compiled to. Positions point into the source, for messages.

namespace vitrine::engine::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind {
  kConstant,   // value
  kName,       // name
  kList,       // items
  kTuple,      // items
  kDict,       // items: key, value, key, value, …
  kAttribute,  // items[0].name
  kSubscript,  // items[0][items[1]]
  kSlice,      // items: start, stop, step (each may be null); only as a subscript
  kCall,       // items[0](items[1…], named)
  kFilter,     // items[0]|name(items[1…], named); items[0] null: the body of a filter block
  kTest,       // items[0] is name(items[1…], named)
  kNot,        // items[0]
  kNegative,   // items[0]
  kPositive,   // items[0]
  kAnd,        // items[0], items[1]
  kOr,         // items[0], items[1]
  kBinary,     // items[0] name items[1]: + - * / // % **
  kConcat,     // items joined: a ~ b ~ c
  kCompare,    // items[0] operators[0] items[1] operators[1] items[2] …
  kCondition,  // items[0] if items[1] else items[2] (may be null)
};

struct Expression {
  ExpressionKind kind;
  Position at;
  int depth = 1;  ///< nodes above each other
  std::string name;
  Value value;
  std::vector<ExpressionPtr> items;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  std::vector<std::string> operators;
  ExpressionPtr starArguments, starNamed;  ///< f(*a, **b)
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

enum class StatementKind {
  kText,         // text
  kPrint,        // expression
  kIf,           // branches: (condition or null for else, body)
  kFor,          // target in expression, if condition; body; otherwise
  kSet,          // target = expression
  kSetBlock,     // target = body, through expression (a filter chain) if there
  kMacro,        // macro
  kCall,         // expression is the call; macro is the caller
  kFilterBlock,  // expression: the filter chain; body
  kScope,        // body in a scope of its own: with (assignments), generation, block
  kBreak,
  kContinue,
};

struct Branch {
  ExpressionPtr condition;
  Body body;
};

struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Body body;
  bool takesMore = false;       ///< uses varargs
  bool takesMoreNamed = false;  ///< uses kwargs
  bool takesCaller = false;     ///< uses caller
};

struct Statement {
  StatementKind kind;
  Position at;
  std::string text;
  ExpressionPtr expression, target, condition;
  std::vector<Branch> branches;
  Body body, otherwise;
  bool recursive = false;
  std::unique_ptr<Macro> macro;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> assignments;
};

}  // namespace vitrine::engine::jinja

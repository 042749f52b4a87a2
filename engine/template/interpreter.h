#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/template/ast.h"

namespace vitrine::engine::jinja {

/// Variables of one block; names that are not here are looked up outside.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> outer) : parent(std::move(outer)) {}
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables;
};

/// Runs one template once. A template comes with a model from a stranger: its steps, its memory
/// and its recursion are bounded, and what exceeds them ends in a TemplateError.
class Interpreter {
 public:
  /// `budget`: steps. A step is a node of the tree, or some bytes or items that are made.
  explicit Interpreter(std::size_t budget);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  void setGlobal(std::string_view name, Value value);
  Text render(const Body& body);

  Value call(const Value& callee, const Arguments& arguments);
  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object, const Value& key);
  Value applyFilter(std::string_view name, const Value& input, const Arguments& arguments);
  bool applyTest(std::string_view name, const Value& input, const Arguments& arguments);
  Value binary(std::string_view operatorName, const Value& left, const Value& right);
  bool contains(const Value& container, const Value& item);

  /// What a for loop goes over. Errors: not iterable. A generator is used up.
  std::vector<Value> iterate(const Value& value);
  std::int64_t length(const Value& value);

  // Each throws when the budget is spent; to be called before the memory is taken.
  void charge(std::size_t steps) { Budget::spend(steps); }
  void chargeBytes(std::size_t bytes) { charge(bytes / 16); }
  void chargeItems(std::size_t items) { charge(items * 4); }

  /// Kept until the end, then emptied: namespaces and scopes may hold each other.
  void keep(std::shared_ptr<Namespace> space) { m_namespaces.push_back(std::move(space)); }
  Text callMacro(const Macro& macro, const std::shared_ptr<Scope>& closure,
                 const Arguments& arguments);
  Text runLoop(const Statement& loop, const Value& items, int depth,
               const std::shared_ptr<Scope>& scope);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  Flow run(const Body& body);
  Flow run(const Statement& statement);
  void runFor(const Statement& loop, const Value& iterable, int depth);
  void runSetBlock(const Statement& statement);
  void runCall(const Statement& statement);
  void runWith(const Statement& statement);
  Text capture(const Body& body);
  void assign(const Expression& target, Value value);

  Value evaluate(const Expression& expression);
  Value evaluateNode(const Expression& expression);
  Value evaluateName(const Expression& expression);
  Value evaluateCompare(const Expression& expression);
  Value evaluateCall(const Expression& expression);
  Value evaluateSubscript(const Expression& expression);
  Value slice(const Value& object, const Expression& slice);
  Arguments evaluateArguments(const Expression& expression);

  Budget m_budget;
  int m_depth = 0;
  std::shared_ptr<Scope> m_globals, m_scope;
  Text* m_out = nullptr;
  const Value* m_filterInput = nullptr;  // the text that a filter block's chain starts from
  std::vector<std::shared_ptr<Namespace>> m_namespaces;
  std::vector<std::shared_ptr<Scope>> m_closures;
};

}  // namespace vitrine::engine::jinja

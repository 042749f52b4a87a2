// Statements; evaluate.cpp has expressions.
#include "engine/template/interpreter.h"

#include <algorithm>

#include "engine/template/library.h"
#include "engine/template/objects.h"

namespace vitrine::engine::jinja {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    Budget::spend(scope->variables.size() / 16);
    for (const auto& [key, value] : scope->variables) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  Budget::spend(variables.size() / 16);
  for (auto& [key, old] : variables) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(std::string(name), std::move(value));
}

Interpreter::Interpreter(std::size_t budget)
    : m_budget(budget),
      m_globals(std::make_shared<Scope>(nullptr)),
      m_scope(std::make_shared<Scope>(m_globals)) {}

Interpreter::~Interpreter() {
  // Breaks the circles. Everything is still held by the two lists while it is emptied, so no
  // chain of destructors can run deep.
  for (const auto& space : m_namespaces) space->attributes.clear();
  for (const auto& scope : m_closures) scope->variables.clear();
}

void Interpreter::setGlobal(std::string_view name, Value value) {
  m_globals->set(name, std::move(value));
}

Text Interpreter::render(const Body& body) {
  return capture(body);
}

Text Interpreter::capture(const Body& body) {
  Text out;
  Text* outer = m_out;
  m_out = &out;
  try {
    run(body);
  } catch (...) {
    m_out = outer;
    throw;
  }
  m_out = outer;
  return out;
}

Interpreter::Flow Interpreter::run(const Body& body) {
  for (const auto& statement : body) {
    const Flow flow = run(*statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Statement& statement) {
  const RecursionGuard guard(m_depth);
  charge(1);
  switch (statement.kind) {
    case StatementKind::kText:
      chargeBytes(statement.text.size());
      m_out->append(statement.text);
      break;
    case StatementKind::kPrint: {
      const Text text = evaluate(*statement.expression).str();
      chargeBytes(text.size());
      m_out->append(text);
      break;
    }
    case StatementKind::kIf:
      for (const Branch& branch : statement.branches) {
        if (!branch.condition || evaluate(*branch.condition).isTrue()) return run(branch.body);
      }
      break;
    case StatementKind::kFor:
      runFor(statement, evaluate(*statement.expression), 1);
      break;
    case StatementKind::kSet:
      assign(*statement.target, evaluate(*statement.expression));
      break;
    case StatementKind::kSetBlock:
      runSetBlock(statement);
      break;
    case StatementKind::kMacro:
      charge(64);
      m_closures.push_back(m_scope);
      m_scope->set(
          statement.macro->name,
          Value(std::shared_ptr<Object>(std::make_shared<MacroObject>(*statement.macro, m_scope))));
      break;
    case StatementKind::kCall:
      runCall(statement);
      break;
    case StatementKind::kFilterBlock: {
      const ScopeGuard scope(m_scope);
      const Value body(capture(statement.body));
      const Value* outer = m_filterInput;
      m_filterInput = &body;
      const Text text = evaluate(*statement.expression).str();
      m_filterInput = outer;
      m_out->append(text);
      break;
    }
    case StatementKind::kScope:
      runWith(statement);
      break;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Interpreter::runSetBlock(const Statement& statement) {
  Value value;
  {
    const ScopeGuard scope(m_scope);
    value = Value(capture(statement.body));
  }
  if (statement.expression) {
    const Value body = value;
    const Value* outer = m_filterInput;
    m_filterInput = &body;
    value = evaluate(*statement.expression);
    m_filterInput = outer;
  }
  assign(*statement.target, std::move(value));
}

void Interpreter::runCall(const Statement& statement) {
  charge(64);
  m_closures.push_back(m_scope);
  const Expression& callExpression = *statement.expression;
  const Value callee = evaluate(*callExpression.items[0]);
  Arguments arguments = evaluateArguments(callExpression);
  arguments.named.emplace_back(
      "caller",
      Value(std::shared_ptr<Object>(std::make_shared<MacroObject>(*statement.macro, m_scope))));
  const Text text = call(callee, arguments).str();
  chargeBytes(text.size());
  m_out->append(text);
}

void Interpreter::runWith(const Statement& statement) {
  std::vector<Value> values;
  for (const auto& [target, expression] : statement.assignments) {
    values.push_back(evaluate(*expression));
  }
  const ScopeGuard scope(m_scope);
  for (std::size_t i = 0; i < values.size(); ++i) {
    assign(*statement.assignments[i].first, std::move(values[i]));
  }
  run(statement.body);
}

Text Interpreter::runLoop(const Statement& loop, const Value& items, int depth,
                          const std::shared_ptr<Scope>& scope) {
  Text out;
  Text* outerOut = m_out;
  auto outerScope = m_scope;
  m_out = &out;
  m_scope = scope;
  try {
    runFor(loop, items, depth);
  } catch (...) {
    m_out = outerOut;
    m_scope = outerScope;
    throw;
  }
  m_out = outerOut;
  m_scope = outerScope;
  return out;
}

void Interpreter::runFor(const Statement& loop, const Value& iterable, int depth) {
  std::vector<Value> items = iterate(iterable);
  if (loop.condition) {
    std::vector<Value> chosen;
    for (Value& item : items) {
      const ScopeGuard scope(m_scope);
      assign(*loop.target, item);
      if (evaluate(*loop.condition).isTrue()) chosen.push_back(std::move(item));
    }
    items = std::move(chosen);
  }
  auto object = std::make_shared<LoopObject>(items, depth, loop, m_scope);
  // As in Jinja2, `else` runs unless the body was once run to its end.
  bool completedOnce = false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    charge(1);
    const ScopeGuard scope(m_scope);
    object->moveTo(i);
    m_scope->set("loop", Value(std::shared_ptr<Object>(object)));
    assign(*loop.target, items[i]);
    const Flow flow = run(loop.body);
    if (flow == Flow::kBreak) break;
    completedOnce |= flow == Flow::kNext;
  }
  object->finish();
  if (!completedOnce && !loop.otherwise.empty()) run(loop.otherwise);
}

void Interpreter::assign(const Expression& target, Value value) {
  if (target.kind == ExpressionKind::kName) {
    m_scope->set(target.name, std::move(value));
    return;
  }
  if (target.kind == ExpressionKind::kAttribute) {
    const Value object = evaluate(*target.items[0]);
    Namespace* space = object.nameSpace();
    if (space == nullptr) {
      throw TemplateError("only attributes of a namespace can be set", target.at);
    }
    chargeItems(1);
    space->set(target.name, std::move(value));
    return;
  }
  const std::vector<Value> values = iterate(value);
  if (values.size() != target.items.size()) {
    throw TemplateError("cannot take " + std::to_string(values.size()) + " values apart into " +
                            std::to_string(target.items.size()) + " names",
                        target.at);
  }
  for (std::size_t i = 0; i < values.size(); ++i) assign(*target.items[i], values[i]);
}

Text Interpreter::callMacro(const Macro& macro, const std::shared_ptr<Scope>& closure,
                            const Arguments& arguments) {
  const auto outer = m_scope;
  auto scope = std::make_shared<Scope>(closure);
  const std::size_t nParameters = macro.parameters.size();
  const std::size_t nRequired = nParameters - macro.defaults.size();
  std::vector<bool> given(nParameters, false);
  const auto refuse = [&](const std::string& why) {
    throw TemplateError("macro '" + macro.name + "' " + why);
  };

  std::vector<Value> more;
  std::vector<std::pair<Value, Value>> moreNamed;
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < nParameters) {
      scope->set(macro.parameters[i], arguments.positional[i]);
      given[i] = true;
    } else if (macro.takesMore) {
      more.push_back(arguments.positional[i]);
    } else {
      refuse("takes not more than " + std::to_string(nParameters) + " arguments");
    }
  }
  bool hasCaller = false;
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(macro.parameters.begin(), macro.parameters.end(), name);
    if (found != macro.parameters.end()) {
      const auto index = static_cast<std::size_t>(found - macro.parameters.begin());
      if (given[index]) refuse("got two values for '" + name + "'");
      scope->set(name, value);
      given[index] = true;
    } else if (name == "caller" && macro.takesCaller) {
      hasCaller = true;
      scope->set(name, value);
    } else if (macro.takesMoreNamed) {
      moreNamed.emplace_back(Value(std::string_view(name)), value);
    } else {
      refuse("takes no argument '" + name + "'");
    }
  }
  if (macro.takesMore)
    scope->set("varargs", Value::sequence(std::move(more), SequenceKind::kTuple));
  if (macro.takesMoreNamed) scope->set("kwargs", Value::dict(std::move(moreNamed)));
  if (macro.takesCaller && !hasCaller) {
    scope->set("caller", Value(Undefined{"no caller was given to macro '" + macro.name + "'"}));
  }

  m_scope = scope;
  Text text;
  try {
    for (std::size_t i = 0; i < nParameters; ++i) {
      if (given[i]) continue;
      scope->set(macro.parameters[i], i >= nRequired
                                          ? evaluate(*macro.defaults[i - nRequired])
                                          : Value(Undefined{"parameter '" + macro.parameters[i] +
                                                            "' was not provided"}));
    }
    text = capture(macro.body);
  } catch (...) {
    m_scope = outer;
    throw;
  }
  m_scope = outer;
  return text;
}

}  // namespace vitrine::engine::jinja

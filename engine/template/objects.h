#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/template/interpreter.h"
#include "engine/template/library.h"

// Values with behaviour, and small helpers of the interpreter.

namespace vitrine::engine::jinja {

/// Counts nested calls of the interpreter's own functions, so that the stack stays bounded.
class RecursionGuard {
 public:
  explicit RecursionGuard(int& depth) : m_depth(depth) {
    if (depth >= kMax) throw TemplateError("this template calls itself too deeply");
    ++depth;
  }
  ~RecursionGuard() { --m_depth; }
  RecursionGuard(const RecursionGuard&) = delete;
  RecursionGuard& operator=(const RecursionGuard&) = delete;

 private:
  static constexpr int kMax = 1000;
  int& m_depth;
};

/// A new scope until the end of a block.
class ScopeGuard {
 public:
  explicit ScopeGuard(std::shared_ptr<Scope>& current) : m_current(current), m_outer(current) {
    current = std::make_shared<Scope>(m_outer);
  }
  ~ScopeGuard() { m_current = m_outer; }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  std::shared_ptr<Scope>& m_current;
  std::shared_ptr<Scope> m_outer;
};

class MacroObject final : public Object {
 public:
  MacroObject(const Macro& macro, std::shared_ptr<Scope> closure)
      : m_macro(macro), m_closure(std::move(closure)) {}
  std::optional<Value> attribute(std::string_view name) override;
  Value call(Interpreter& interpreter, const Arguments& arguments) override;
  std::string describe() const override { return "Macro '" + m_macro.name + "'"; }

 private:
  const Macro& m_macro;
  std::shared_ptr<Scope> m_closure;
};

/// `loop` inside of a for block. Valid while the loop runs.
class LoopObject final : public Object {
 public:
  LoopObject(const std::vector<Value>& items, int depth, const Statement& loop,
             std::shared_ptr<Scope> scope)
      : m_items(&items), m_count(items.size()), m_depth(depth), m_loop(loop), m_scope(scope) {}
  void moveTo(std::size_t index) { m_index = index; }
  void finish() { m_items = nullptr; }

  std::optional<Value> attribute(std::string_view name) override;
  std::optional<Value> callMethod(Interpreter& interpreter, std::string_view name,
                                  const Arguments& arguments) override;
  /// loop(items): the same block over other items; for `recursive` loops.
  Value call(Interpreter& interpreter, const Arguments& arguments) override;
  std::string describe() const override { return "LoopContext"; }

 private:
  const std::vector<Value>* m_items;
  std::size_t m_count, m_index = 0;
  int m_depth;
  const Statement& m_loop;
  std::weak_ptr<Scope> m_scope;
  std::optional<std::vector<Value>> m_lastChanged;
};

/// A method without its call: `x.strip`.
class BoundMethod final : public Object {
 public:
  BoundMethod(Value self, FilterFunction function, std::string name)
      : m_self(std::move(self)), m_function(function), m_name(std::move(name)) {}
  Value call(Interpreter& interpreter, const Arguments& arguments) override {
    return m_function(interpreter, m_self, arguments);
  }
  std::string describe() const override { return "method '" + m_name + "'"; }

 private:
  Value m_self;
  FilterFunction m_function;
  std::string m_name;
};

}  // namespace vitrine::engine::jinja

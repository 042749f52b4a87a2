#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/template/text.h"

namespace vitrine::engine::jinja {

struct Position {
  int line = 1;
  int column = 1;
};

/// A failure while a template is read or run. Stays inside this folder: ChatTemplate turns it
/// into an Error.
struct TemplateError : std::runtime_error {
  TemplateError(const std::string& message, Position where)
      : std::runtime_error(message), at(where) {}
  /// Without a position yet; the expression that is being evaluated adds it.
  explicit TemplateError(const std::string& message) : std::runtime_error(message), at{0, 0} {}
  Position at;
};
/// The template called raise_exception: its sentence, as it is.
struct TemplateRefusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Interpreter;
class Value;
struct Arguments;

struct Undefined {
  std::string what;  ///< "'name' is undefined"
};
struct None {};

/// Everything that Python iterates in order, told apart only where Jinja2 lets a template see it.
enum class SequenceKind { kList, kTuple, kRange, kGenerator, kKeys, kValues, kItems };

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  int depth = 1;      ///< containers inside each other; bounded
  std::string label;  ///< how a range prints
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in order of insertion
  int depth = 1;
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
};

/// namespace(): the only thing a template can change.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

/// Something with attributes of its own (loop, cycler) or that can be called (macro, method).
class Object {
 public:
  virtual ~Object() = default;
  virtual std::optional<Value> attribute(std::string_view name);
  virtual std::optional<Value> callMethod(Interpreter& interpreter, std::string_view name,
                                          const Arguments& arguments);
  virtual bool isCallable() const { return true; }
  virtual Value call(Interpreter& interpreter, const Arguments& arguments);
  virtual std::string describe() const = 0;
};

/// A value of the template language. Cheap to copy: long things are shared and never change.
class Value {
 public:
  using Variant =
      std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>,
                   std::shared_ptr<Sequence>, std::shared_ptr<const Dict>,
                   std::shared_ptr<Namespace>, std::shared_ptr<Object>>;

  Value() : m_data(None{}) {}
  Value(Undefined undefined) : m_data(std::move(undefined)) {}
  Value(bool value) : m_data(value) {}
  Value(std::int64_t value) : m_data(value) {}
  Value(int value) : m_data(static_cast<std::int64_t>(value)) {}
  Value(std::size_t value) : m_data(static_cast<std::int64_t>(value)) {}
  Value(double value) : m_data(value) {}
  Value(Text text) : m_data(std::make_shared<const Text>(std::move(text))) {}
  Value(std::shared_ptr<const Text> text) : m_data(std::move(text)) {}
  Value(std::string_view text) : Value(Text(std::string(text))) {}
  Value(const char* text) : Value(Text(std::string(text))) {}
  Value(std::shared_ptr<Namespace> value) : m_data(std::move(value)) {}
  Value(std::shared_ptr<Object> value) : m_data(std::move(value)) {}
  /// Errors: containers nested too deeply.
  static Value sequence(std::vector<Value> items, SequenceKind kind = SequenceKind::kList);
  static Value dict(std::vector<std::pair<Value, Value>> entries);

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&m_data);
  }

  bool isUndefined() const { return as<Undefined>() != nullptr; }
  bool isNone() const { return as<None>() != nullptr; }
  const Text* text() const;
  Sequence* sequence() const;
  const Dict* dict() const;
  Namespace* nameSpace() const;
  Object* object() const;
  /// Whole numbers, true and false.
  bool integer(std::int64_t& out) const;
  bool number(double& out) const;

  bool isTrue() const;
  /// As Python's str() and repr(). Content of messages keeps its origin.
  Text str() const;
  Text repr() const;
  /// The name of its Python type, for messages: "str", "int", …
  std::string typeName() const;
  int depth() const;

 private:
  Variant m_data;
};

bool equal(const Value& a, const Value& b);
/// Negative, zero, positive. Errors: the two have no order.
int compare(const Value& a, const Value& b, const char* operatorName);

/// What is given in a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// The steps that this thread's running template has left; walking values spends them, since what
/// is small in memory may be endless to walk (lists that hold the same list twice, and so on).
class Budget {
 public:
  explicit Budget(std::size_t steps);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;
  /// Errors: the budget of this thread is spent. Without a budget nothing happens.
  static void spend(std::size_t steps);

 private:
  std::size_t m_left;
  Budget* m_outer;
};

/// Undefined values may not be used: throws what they say.
void requireDefined(const Value& value);

/// repr() of a float as Python prints it: the shortest text that reads back the same.
std::string printFloat(double value);

}  // namespace vitrine::engine::jinja

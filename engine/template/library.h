#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "engine/template/value.h"

// What templates can call: Jinja2's filters and tests, the methods of Python's str, dict and list,
// and the functions that transformers adds.

namespace vitrine::engine::jinja {

using FilterFunction = Value (*)(Interpreter& interpreter, const Value& input,
                                 const Arguments& arguments);
using TestFunction = bool (*)(Interpreter& interpreter, const Value& input,
                              const Arguments& arguments);

/// Null if there is none of that name.
FilterFunction findFilter(std::string_view name);
TestFunction findTest(std::string_view name);
/// A method of a str, dict, list or tuple.
FilterFunction findMethod(const Value& self, std::string_view name);

// The tables, one a file.
FilterFunction findTextFilter(std::string_view name);
FilterFunction findListFilter(std::string_view name);
FilterFunction findStringMethod(std::string_view name);

/// range, dict, namespace, cycler, joiner, raise_exception, strftime_now. None if unknown.
Value findGlobal(std::string_view name);

/// Arguments laid out in the order of a function's parameters. Errors: too many, unknown.
class Parameters {
 public:
  Parameters(const Arguments& arguments, std::string_view function,
             std::initializer_list<std::string_view> names);
  /// Null if it was not given.
  const Value* operator[](std::size_t i) const { return m_values[i]; }
  bool has(std::size_t i) const { return m_values[i] != nullptr; }
  /// Errors: missing, or not of that type.
  const Value& required(std::size_t i) const;
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  bool isTrue(std::size_t i, bool otherwise) const;
  Text text(std::size_t i, std::string_view otherwise) const;

 private:
  std::string m_function;
  std::vector<std::string_view> m_names;
  std::vector<const Value*> m_values;
};

/// Python's `format % value` and `format.format(…)`.
Text formatPercent(Interpreter& interpreter, const Text& format, const Value& value);
Text formatBraces(Interpreter& interpreter, const Text& format, const Arguments& arguments);
/// One value in a format specification ("05.2f"). Errors: the specification does not fit.
Text formatOne(Interpreter& interpreter, const Value& value, std::string_view specification);

struct JsonOptions {
  bool ensureAscii = false;
  int indent = -1;  ///< -1: on one line
  std::string itemSeparator = ", ";
  std::string keySeparator = ": ";
  bool sortKeys = false;
};
/// Python's json.dumps.
Text toJson(Interpreter& interpreter, const Value& value, const JsonOptions& options);

// Pieces that filters and methods share.
Text replaceText(Interpreter& interpreter, const Text& text, const Text& from, const Text& to,
                 std::int64_t count);
Text joinTexts(Interpreter& interpreter, const Text& separator, const std::vector<Value>& items);
Text trimText(const Text& text, bool left, bool right, const Value* characters);
Text padText(Interpreter& interpreter, const Text& text, std::int64_t width, std::string_view fill,
             double leftShare);

}  // namespace vitrine::engine::jinja

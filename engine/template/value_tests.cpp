// Tests: what may stand after `is`.
#include <cmath>

#include "engine/template/interpreter.h"
#include "engine/template/library.h"
#include "engine/template/unicode.h"

namespace vitrine::engine::jinja {
namespace {

const Value& other(const Arguments& arguments) {
  if (arguments.positional.size() != 1) throw TemplateError("this test takes one value");
  return arguments.positional[0];
}

std::int64_t whole(const Value& value) {
  requireDefined(value);
  std::int64_t number = 0;
  if (!value.integer(number)) {
    throw TemplateError("this test takes a whole number, not a " + value.typeName());
  }
  return number;
}

bool isDefined(Interpreter&, const Value& v, const Arguments&) {
  return !v.isUndefined();
}
bool isUndefined(Interpreter&, const Value& v, const Arguments&) {
  return v.isUndefined();
}
bool isNone(Interpreter&, const Value& v, const Arguments&) {
  return v.isNone();
}
bool isString(Interpreter&, const Value& v, const Arguments&) {
  return v.text() != nullptr;
}
bool isMapping(Interpreter&, const Value& v, const Arguments&) {
  return v.dict() != nullptr;
}
bool isBoolean(Interpreter&, const Value& v, const Arguments&) {
  return v.as<bool>() != nullptr;
}
bool isFloat(Interpreter&, const Value& v, const Arguments&) {
  return v.as<double>() != nullptr;
}
bool isInteger(Interpreter&, const Value& v, const Arguments&) {
  return v.as<std::int64_t>() != nullptr;
}
bool isNumber(Interpreter&, const Value& v, const Arguments&) {
  double number = 0;
  return v.number(number);
}
bool isTrue(Interpreter&, const Value& v, const Arguments&) {
  return v.as<bool>() != nullptr && *v.as<bool>();
}
bool isFalse(Interpreter&, const Value& v, const Arguments&) {
  return v.as<bool>() != nullptr && !*v.as<bool>();
}
bool isSequence(Interpreter&, const Value& v, const Arguments&) {
  if (v.text() != nullptr || v.dict() != nullptr || v.isUndefined()) return true;
  const Sequence* list = v.sequence();
  return list != nullptr &&
         (list->kind == SequenceKind::kList || list->kind == SequenceKind::kTuple ||
          list->kind == SequenceKind::kRange);
}
bool isIterable(Interpreter&, const Value& v, const Arguments&) {
  return v.text() != nullptr || v.dict() != nullptr || v.isUndefined() || v.sequence() != nullptr;
}
bool isCallable(Interpreter&, const Value& v, const Arguments&) {
  return v.object() != nullptr && v.object()->isCallable();
}
bool isEven(Interpreter&, const Value& v, const Arguments&) {
  return whole(v) % 2 == 0;
}
bool isOdd(Interpreter&, const Value& v, const Arguments&) {
  return whole(v) % 2 != 0;
}
bool isDivisibleBy(Interpreter& in, const Value& v, const Arguments& arguments) {
  return whole(in.binary("%", v, other(arguments))) == 0;
}
bool isLowerCase(Interpreter& in, const Value& v, const Arguments&) {
  const Value text = v.str();
  return findMethod(text, "islower")(in, text, {}).isTrue();
}
bool isUpperCase(Interpreter& in, const Value& v, const Arguments&) {
  const Value text = v.str();
  return findMethod(text, "isupper")(in, text, {}).isTrue();
}
bool isEqual(Interpreter&, const Value& v, const Arguments& a) {
  return equal(v, other(a));
}
bool isNotEqual(Interpreter&, const Value& v, const Arguments& a) {
  return !equal(v, other(a));
}
bool isLess(Interpreter&, const Value& v, const Arguments& a) {
  return compare(v, other(a), "<") < 0;
}
bool isAtMost(Interpreter&, const Value& v, const Arguments& a) {
  return compare(v, other(a), "<=") <= 0;
}
bool isGreater(Interpreter&, const Value& v, const Arguments& a) {
  return compare(v, other(a), ">") > 0;
}
bool isAtLeast(Interpreter&, const Value& v, const Arguments& a) {
  return compare(v, other(a), ">=") >= 0;
}
bool isIn(Interpreter& in, const Value& v, const Arguments& a) {
  return in.contains(other(a), v);
}
bool isSameAs(Interpreter&, const Value& v, const Arguments& a) {
  return v.typeName() == other(a).typeName() && equal(v, other(a));
}
bool isFilter(Interpreter&, const Value& v, const Arguments&) {
  return v.text() != nullptr && findFilter(v.text()->bytes()) != nullptr;
}
bool isTest(Interpreter&, const Value& v, const Arguments&) {
  return v.text() != nullptr && findTest(v.text()->bytes()) != nullptr;
}
bool isEscaped(Interpreter&, const Value&, const Arguments&) {
  return false;
}

}  // namespace

TestFunction findTest(std::string_view name) {
  struct Entry {
    std::string_view name;
    TestFunction function;
  };
  constexpr Entry kTests[] = {
      {"defined", isDefined},
      {"undefined", isUndefined},
      {"none", isNone},
      {"string", isString},
      {"mapping", isMapping},
      {"boolean", isBoolean},
      {"float", isFloat},
      {"integer", isInteger},
      {"number", isNumber},
      {"true", isTrue},
      {"false", isFalse},
      {"sequence", isSequence},
      {"iterable", isIterable},
      {"callable", isCallable},
      {"even", isEven},
      {"odd", isOdd},
      {"divisibleby", isDivisibleBy},
      {"lower", isLowerCase},
      {"upper", isUpperCase},
      {"equalto", isEqual},
      {"eq", isEqual},
      {"==", isEqual},
      {"ne", isNotEqual},
      {"!=", isNotEqual},
      {"lt", isLess},
      {"<", isLess},
      {"lessthan", isLess},
      {"le", isAtMost},
      {"<=", isAtMost},
      {"gt", isGreater},
      {">", isGreater},
      {"greaterthan", isGreater},
      {"ge", isAtLeast},
      {">=", isAtLeast},
      {"in", isIn},
      {"sameas", isSameAs},
      {"filter", isFilter},
      {"test", isTest},
      {"escaped", isEscaped},
  };
  for (const Entry& entry : kTests) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace vitrine::engine::jinja

// Arithmetic, with Python's rules.
#include <cmath>
#include <limits>

#include "engine/template/interpreter.h"
#include "engine/template/library.h"

namespace vitrine::engine::jinja {
namespace {

[[noreturn]] void refuse(std::string_view name, const Value& a, const Value& b) {
  throw TemplateError("'" + std::string(name) + "' is not possible between " + a.typeName() +
                      " and " + b.typeName());
}

[[noreturn]] void overflow() {
  throw TemplateError("a number became too large");
}

Value power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw TemplateError("0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  std::int64_t result = 1;
  std::int64_t factor = base;
  for (std::int64_t rest = exponent; rest > 0; rest >>= 1) {
    if ((rest & 1) != 0 && __builtin_mul_overflow(result, factor, &result)) overflow();
    if (rest > 1 && __builtin_mul_overflow(factor, factor, &factor)) overflow();
  }
  return result;
}

Value wholeArithmetic(std::string_view name, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool tooLarge = false;
  if (name == "+") {
    tooLarge = __builtin_add_overflow(a, b, &result);
  } else if (name == "-") {
    tooLarge = __builtin_sub_overflow(a, b, &result);
  } else if (name == "*") {
    tooLarge = __builtin_mul_overflow(a, b, &result);
  } else if (name == "**") {
    return power(a, b);
  } else {
    if (b == 0) throw TemplateError("division by zero");
    if (name == "/") return static_cast<double>(a) / static_cast<double>(b);
    if (b == -1) {  // the one quotient that may overflow
      if (name == "%") return 0;
      tooLarge = __builtin_sub_overflow(std::int64_t{0}, a, &result);
    } else {
      const bool adjusts = a % b != 0 && ((a < 0) != (b < 0));
      result = name == "//" ? a / b - (adjusts ? 1 : 0) : a % b + (adjusts ? b : 0);
    }
  }
  if (tooLarge) overflow();
  return result;
}

Value floatArithmetic(std::string_view name, double a, double b) {
  if (name == "+") return a + b;
  if (name == "-") return a - b;
  if (name == "*") return a * b;
  if (name == "**") return std::pow(a, b);
  if (b == 0) throw TemplateError("division by zero");
  if (name == "/") return a / b;
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (name == "%") return rest;
  return std::floor((a - rest) / b + 0.5);
}

Value repeat(Interpreter& interpreter, const Value& value, std::int64_t count) {
  count = std::max<std::int64_t>(count, 0);
  const auto times = static_cast<std::size_t>(count);
  constexpr std::size_t kMany = std::numeric_limits<std::size_t>::max() / 64;
  if (const Text* text = value.text()) {
    if (text->empty()) return value;
    interpreter.charge(times);  // first, so that the product cannot overflow
    if (text->size() > kMany / (times + 1)) interpreter.charge(kMany);
    interpreter.chargeBytes(text->size() * times);
    Text result;
    for (std::size_t i = 0; i < times; ++i) result.append(*text);
    return result;
  }
  const Sequence& list = *value.sequence();
  if (list.items.empty()) return Value::sequence({}, list.kind);
  interpreter.charge(times);
  if (list.items.size() > kMany / (times + 1)) interpreter.charge(kMany);
  interpreter.chargeItems(list.items.size() * times);
  std::vector<Value> items;
  items.reserve(list.items.size() * times);
  for (std::size_t i = 0; i < times; ++i) {
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return Value::sequence(std::move(items), list.kind);
}

bool isListOrTuple(const Value& value) {
  const Sequence* list = value.sequence();
  return list != nullptr &&
         (list->kind == SequenceKind::kList || list->kind == SequenceKind::kTuple);
}

}  // namespace

Value Interpreter::binary(std::string_view name, const Value& a, const Value& b) {
  requireDefined(a);
  if (name == "%" && a.text() != nullptr) return formatPercent(*this, *a.text(), b);
  requireDefined(b);
  std::int64_t wholeA = 0;
  std::int64_t wholeB = 0;
  const bool isWholeA = a.integer(wholeA);
  const bool isWholeB = b.integer(wholeB);
  if (isWholeA && isWholeB) return wholeArithmetic(name, wholeA, wholeB);
  double numberA = 0;
  double numberB = 0;
  if (a.number(numberA) && b.number(numberB)) return floatArithmetic(name, numberA, numberB);

  if (name == "+") {
    if (a.text() != nullptr && b.text() != nullptr) {
      chargeBytes(a.text()->size() + b.text()->size());
      Text joined = *a.text();
      joined.append(*b.text());
      return joined;
    }
    if (isListOrTuple(a) && isListOrTuple(b) && a.sequence()->kind == b.sequence()->kind) {
      std::vector<Value> items = iterate(a);
      for (Value& item : iterate(b)) items.push_back(std::move(item));
      return Value::sequence(std::move(items), a.sequence()->kind);
    }
  }
  if (name == "*") {
    if ((a.text() != nullptr || isListOrTuple(a)) && isWholeB) return repeat(*this, a, wholeB);
    if ((b.text() != nullptr || isListOrTuple(b)) && isWholeA) return repeat(*this, b, wholeA);
  }
  refuse(name, a, b);
}

}  // namespace vitrine::engine::jinja

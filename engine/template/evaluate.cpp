// Expressions: names, attributes, indices, slices, calls, comparisons.
#include <algorithm>

#include "engine/template/interpreter.h"
#include "engine/template/library.h"
#include "engine/template/objects.h"
#include "engine/template/unicode.h"

namespace vitrine::engine::jinja {

Value Interpreter::evaluate(const Expression& expression) {
  const RecursionGuard guard(m_depth);
  charge(1);
  try {
    return evaluateNode(expression);
  } catch (TemplateError& error) {
    if (error.at.line == 0) error.at = expression.at;
    throw;
  }
}

Value Interpreter::evaluateNode(const Expression& e) {
  switch (e.kind) {
    case ExpressionKind::kConstant:
      return e.value;
    case ExpressionKind::kName:
      return evaluateName(e);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple: {
      chargeItems(e.items.size());
      std::vector<Value> items;
      items.reserve(e.items.size());
      for (const auto& item : e.items) items.push_back(evaluate(*item));
      const bool isTuple = e.kind == ExpressionKind::kTuple;
      return Value::sequence(std::move(items),
                             isTuple ? SequenceKind::kTuple : SequenceKind::kList);
    }
    case ExpressionKind::kDict: {
      chargeItems(e.items.size());
      std::vector<std::pair<Value, Value>> entries;
      for (std::size_t i = 0; i < e.items.size(); i += 2) {
        Value key = evaluate(*e.items[i]);
        if (key.dict() != nullptr || key.typeName() == "list") {
          throw TemplateError("a " + key.typeName() + " cannot be the key of a dict");
        }
        entries.emplace_back(std::move(key), evaluate(*e.items[i + 1]));
      }
      return Value::dict(std::move(entries));
    }
    case ExpressionKind::kAttribute:
      return attribute(evaluate(*e.items[0]), e.name);
    case ExpressionKind::kSubscript:
      return evaluateSubscript(e);
    case ExpressionKind::kSlice:
      throw TemplateError("a slice can only stand in brackets");
    case ExpressionKind::kCall:
      return evaluateCall(e);
    case ExpressionKind::kFilter: {
      if (!e.items[0] && m_filterInput == nullptr) throw TemplateError("a filter without a value");
      const Value input = e.items[0] ? evaluate(*e.items[0]) : *m_filterInput;
      return applyFilter(e.name, input, evaluateArguments(e));
    }
    case ExpressionKind::kTest: {
      const Value input = evaluate(*e.items[0]);
      return applyTest(e.name, input, evaluateArguments(e));
    }
    case ExpressionKind::kNot:
      return !evaluate(*e.items[0]).isTrue();
    case ExpressionKind::kNegative: {
      const Value value = evaluate(*e.items[0]);
      if (const auto* number = value.as<double>()) return -*number;
      return binary("-", Value(0), value);
    }
    case ExpressionKind::kPositive: {
      const Value value = evaluate(*e.items[0]);
      if (value.as<double>() != nullptr) return value;
      return binary("+", Value(0), value);
    }
    case ExpressionKind::kAnd: {
      Value left = evaluate(*e.items[0]);
      return left.isTrue() ? evaluate(*e.items[1]) : left;
    }
    case ExpressionKind::kOr: {
      Value left = evaluate(*e.items[0]);
      return left.isTrue() ? left : evaluate(*e.items[1]);
    }
    case ExpressionKind::kBinary: {
      const Value left = evaluate(*e.items[0]);
      return binary(e.name, left, evaluate(*e.items[1]));
    }
    case ExpressionKind::kConcat: {
      Text joined;
      for (const auto& item : e.items) {
        const Text part = evaluate(*item).str();
        chargeBytes(part.size());
        joined.append(part);
      }
      return joined;
    }
    case ExpressionKind::kCompare:
      return evaluateCompare(e);
    case ExpressionKind::kCondition: {
      if (evaluate(*e.items[1]).isTrue()) return evaluate(*e.items[0]);
      if (e.items[2]) return evaluate(*e.items[2]);
      return Undefined{"the inline if-expression has no else and its condition is false"};
    }
  }
  return {};
}

Value Interpreter::evaluateName(const Expression& e) {
  if (const Value* value = m_scope->find(e.name)) return *value;
  Value function = findGlobal(e.name);
  if (!function.isNone()) return function;
  return Undefined{"'" + e.name + "' is undefined"};
}

Value Interpreter::evaluateCompare(const Expression& e) {
  Value left = evaluate(*e.items[0]);
  for (std::size_t i = 0; i < e.operators.size(); ++i) {
    const std::string& name = e.operators[i];
    Value right = evaluate(*e.items[i + 1]);
    bool holds = false;
    if (name == "==") {
      holds = equal(left, right);
    } else if (name == "!=") {
      holds = !equal(left, right);
    } else if (name == "in") {
      holds = contains(right, left);
    } else if (name == "not in") {
      holds = !contains(right, left);
    } else {
      // NaN has no order, so each is asked for as it is.
      double a = 0;
      double b = 0;
      const bool areNumbers = left.number(a) && right.number(b);
      const bool areWhole =
          areNumbers && left.as<double>() == nullptr && right.as<double>() == nullptr;
      if (areNumbers && !areWhole) {
        holds = name == "<" ? a < b : name == "<=" ? a <= b : name == ">" ? a > b : a >= b;
      } else {
        const int order = compare(left, right, name.c_str());
        holds = name == "<"    ? order < 0
                : name == "<=" ? order <= 0
                : name == ">"  ? order > 0
                               : order >= 0;
      }
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Arguments Interpreter::evaluateArguments(const Expression& e) {
  Arguments arguments;
  for (std::size_t i = 1; i < e.items.size(); ++i) {
    arguments.positional.push_back(evaluate(*e.items[i]));
  }
  if (e.starArguments) {
    for (Value& value : iterate(evaluate(*e.starArguments))) {
      arguments.positional.push_back(std::move(value));
    }
  }
  for (const auto& [name, value] : e.named) arguments.named.emplace_back(name, evaluate(*value));
  if (e.starNamed) {
    const Value more = evaluate(*e.starNamed);
    if (more.dict() == nullptr) throw TemplateError("only a dict can stand after '**'");
    for (const auto& [key, value] : more.dict()->entries) {
      arguments.named.emplace_back(key.str().bytes(), value);
    }
  }
  return arguments;
}

// Calls of methods (`x.strip()`) go straight to the method, without making a value of it.
Value Interpreter::evaluateCall(const Expression& e) {
  const Expression& callee = *e.items[0];
  if (callee.kind == ExpressionKind::kAttribute) {
    const Value self = evaluate(*callee.items[0]);
    if (FilterFunction method = findMethod(self, callee.name)) {
      return method(*this, self, evaluateArguments(e));
    }
    const Arguments arguments = evaluateArguments(e);
    if (Object* object = self.object()) {
      if (auto result = object->callMethod(*this, callee.name, arguments)) return *result;
    }
    return call(attribute(self, callee.name), arguments);
  }
  const Value function = evaluate(callee);
  return call(function, evaluateArguments(e));
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  const RecursionGuard guard(m_depth);
  requireDefined(callee);
  Object* object = callee.object();
  if (object == nullptr || !object->isCallable()) {
    throw TemplateError("a " + callee.typeName() + " cannot be called");
  }
  return object->call(*this, arguments);
}

Value Interpreter::attribute(const Value& object, std::string_view name) {
  requireDefined(object);
  if (Object* special = object.object()) {
    if (auto value = special->attribute(name)) return *value;
  } else if (const Namespace* space = object.nameSpace()) {
    if (const Value* value = space->find(name)) return *value;
  } else if (FilterFunction method = findMethod(object, name)) {
    return std::shared_ptr<Object>(
        std::make_shared<BoundMethod>(object, method, std::string(name)));
  } else if (const Dict* dict = object.dict()) {
    if (const Value* value = dict->find(name)) return *value;
  }
  return Undefined{"'" + object.typeName() + " object' has no attribute '" + std::string(name) +
                   "'"};
}

Value Interpreter::item(const Value& object, const Value& key) {
  requireDefined(object);
  std::int64_t index = 0;
  const bool isIndex = key.integer(index);
  const auto missing = [&] {
    return Undefined{"'" + object.typeName() + " object' has no element " + key.repr().bytes()};
  };
  if (const Dict* dict = object.dict()) {
    if (const Value* value = dict->find(key)) return *value;
  } else if (const Sequence* list = object.sequence(); list != nullptr && isIndex) {
    const bool isIndexed = list->kind == SequenceKind::kList ||
                           list->kind == SequenceKind::kTuple || list->kind == SequenceKind::kRange;
    const auto count = static_cast<std::int64_t>(list->items.size());
    if (index < 0) index += count;
    if (!isIndexed || index < 0 || index >= count) return missing();
    return list->items[index];
  } else if (const Text* text = object.text(); text != nullptr && isIndex) {
    chargeBytes(text->size());
    const auto count = static_cast<std::int64_t>(countCharacters(text->bytes()));
    if (index < 0) index += count;
    if (index < 0 || index >= count) return missing();
    const std::size_t begin = byteOffset(text->bytes(), index);
    return text->slice(begin, begin + characterLength(text->bytes(), begin));
  }
  // As in Jinja2, x['name'] finds attributes too.
  if (const Text* name = key.text()) return attribute(object, name->bytes());
  return missing();
}

Value Interpreter::evaluateSubscript(const Expression& e) {
  const Value object = evaluate(*e.items[0]);
  if (e.items[1]->kind == ExpressionKind::kSlice) return slice(object, *e.items[1]);
  return item(object, evaluate(*e.items[1]));
}

Value Interpreter::slice(const Value& object, const Expression& e) {
  requireDefined(object);
  std::int64_t given[3] = {0, 0, 1};
  bool has[3] = {false, false, false};
  for (int i = 0; i < 3; ++i) {
    if (!e.items[i]) continue;
    const Value part = evaluate(*e.items[i]);
    if (part.isNone()) continue;
    requireDefined(part);
    if (!part.integer(given[i])) throw TemplateError("slices take whole numbers");
    has[i] = true;
  }
  const std::int64_t step = given[2];
  if (step == 0) throw TemplateError("the step of a slice cannot be 0");

  const Text* text = object.text();
  const Sequence* list = object.sequence();
  const bool isSliced =
      list != nullptr && (list->kind == SequenceKind::kList || list->kind == SequenceKind::kTuple ||
                          list->kind == SequenceKind::kRange);
  if (text == nullptr && !isSliced) {
    return Undefined{"a " + object.typeName() + " cannot be sliced"};
  }
  const auto count = static_cast<std::int64_t>(text != nullptr ? countCharacters(text->bytes())
                                                               : list->items.size());
  // Bounds as Python's slice.indices().
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? count : count - 1;
  const auto bound = [&](int i, std::int64_t otherwise) {
    if (!has[i]) return otherwise;
    const std::int64_t value = given[i] < 0 ? given[i] + count : given[i];
    return std::clamp(value, low, high);
  };
  const std::int64_t start = bound(0, step > 0 ? low : high);
  const std::int64_t stop = bound(1, step > 0 ? high : low);

  if (text != nullptr) {
    chargeBytes(text->size());
    if (step == 1) {
      if (start >= stop) return Text();
      return text->slice(byteOffset(text->bytes(), start), byteOffset(text->bytes(), stop));
    }
    const std::vector<Value> characters = iterate(object);
    Text result;
    for (__int128 i = start; step > 0 ? i < stop : i > stop; i += step) {
      result.append(*characters[static_cast<std::size_t>(i)].text());
    }
    return result;
  }
  std::vector<Value> items;
  for (__int128 i = start; step > 0 ? i < stop : i > stop; i += step) {
    items.push_back(list->items[static_cast<std::size_t>(i)]);
  }
  chargeItems(items.size());
  return Value::sequence(std::move(items), list->kind == SequenceKind::kTuple
                                               ? SequenceKind::kTuple
                                               : SequenceKind::kList);
}

Value Interpreter::applyFilter(std::string_view name, const Value& input,
                               const Arguments& arguments) {
  const FilterFunction filter = findFilter(name);
  if (filter == nullptr) {
    throw TemplateError("the filter '" + std::string(name) + "' is not known");
  }
  return filter(*this, input, arguments);
}

bool Interpreter::applyTest(std::string_view name, const Value& input, const Arguments& arguments) {
  const TestFunction test = findTest(name);
  if (test == nullptr) throw TemplateError("the test '" + std::string(name) + "' is not known");
  return test(*this, input, arguments);
}

std::vector<Value> Interpreter::iterate(const Value& value) {
  if (value.isUndefined()) return {};
  if (Sequence* list = value.sequence()) {
    chargeItems(list->items.size());
    if (list->kind == SequenceKind::kGenerator) return std::exchange(list->items, {});
    return list->items;
  }
  std::vector<Value> items;
  if (const Dict* dict = value.dict()) {
    chargeItems(dict->entries.size());
    for (const auto& [key, item] : dict->entries) items.push_back(key);
  } else if (const Text* text = value.text()) {
    chargeItems(text->size() * 2);
    for (std::size_t i = 0; i < text->size();) {
      const std::size_t length = characterLength(text->bytes(), i);
      items.emplace_back(text->slice(i, i + length));
      i += length;
    }
  } else {
    throw TemplateError("a " + value.typeName() + " cannot be gone through");
  }
  return items;
}

std::int64_t Interpreter::length(const Value& value) {
  if (value.isUndefined()) return 0;
  if (const Text* text = value.text()) {
    return static_cast<std::int64_t>(countCharacters(text->bytes()));
  }
  if (const Dict* dict = value.dict()) return static_cast<std::int64_t>(dict->entries.size());
  const Sequence* list = value.sequence();
  if (list != nullptr && list->kind != SequenceKind::kGenerator) {
    return static_cast<std::int64_t>(list->items.size());
  }
  throw TemplateError("a " + value.typeName() + " has no length");
}

bool Interpreter::contains(const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    const Text* part = item.text();
    if (part == nullptr) {
      throw TemplateError("'in' a string takes a string, not a " + item.typeName());
    }
    chargeBytes(text->size());
    return text->bytes().find(part->bytes()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return dict->find(item) != nullptr;
  const std::vector<Value> items = iterate(container);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& other) { return equal(other, item); });
}

}  // namespace vitrine::engine::jinja

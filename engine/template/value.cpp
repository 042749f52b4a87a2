#include "engine/template/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/template/unicode.h"

namespace vitrine::engine::jinja {
namespace {

// Values cannot hold each other deeper than this, so that walking them needs little stack.
constexpr int kMaxNesting = 100;

int checkedDepth(int inner) {
  if (inner >= kMaxNesting) throw TemplateError("lists are nested too deeply");
  return inner + 1;
}

thread_local Budget* t_budget = nullptr;

// Namespaces may hold themselves, so printing and comparing stop somewhere.
class DepthGuard {
 public:
  DepthGuard() {
    Budget::spend(1);
    if (++s_depth > 2 * kMaxNesting) {
      --s_depth;
      throw TemplateError("a value contains itself");
    }
  }
  ~DepthGuard() { --s_depth; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  static thread_local int s_depth;
};
thread_local int DepthGuard::s_depth = 0;

std::string quoted(std::string_view text) {
  const bool useDouble =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = useDouble ? '"' : '\'';
  std::string out(1, quote);
  const auto hex = [&](const char* prefix, char32_t c, int digits) {
    out += prefix;
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
      out += "0123456789abcdef"[c >> shift & 15U];
    }
  };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = characterLength(text, i);
    const char32_t c = decodeAt(text, i, length);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (isPrintable(c)) {
      out.append(text, i, length);
    } else if (c < 0x100) {
      hex("\\x", c, 2);
    } else if (c < 0x10000) {
      hex("\\u", c, 4);
    } else {
      hex("\\U", c, 8);
    }
    i += length;
  }
  return out + quote;
}

Text reprOfSequence(const Sequence& sequence) {
  if (sequence.kind == SequenceKind::kRange) return Text(sequence.label);
  if (sequence.kind == SequenceKind::kGenerator) return Text("<generator object>");
  Text out;
  const char* close = "]";
  switch (sequence.kind) {
    case SequenceKind::kTuple:
      out.append("(");
      close = sequence.items.size() == 1 ? ",)" : ")";
      break;
    case SequenceKind::kKeys:
      out.append("dict_keys([");
      close = "])";
      break;
    case SequenceKind::kValues:
      out.append("dict_values([");
      close = "])";
      break;
    case SequenceKind::kItems:
      out.append("dict_items([");
      close = "])";
      break;
    default:
      out.append("[");
  }
  for (std::size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) out.append(", ");
    out.append(sequence.items[i].repr());
  }
  out.append(close);
  return out;
}

bool equalSequences(const Sequence& a, const Sequence& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  if (a.kind == SequenceKind::kGenerator) return false;
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), equal);
}

bool equalDicts(const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && equal(entry.second, *other);
  });
}

}  // namespace

Budget::Budget(std::size_t steps) : m_left(steps), m_outer(t_budget) {
  t_budget = this;
}
Budget::~Budget() {
  t_budget = m_outer;
}

void Budget::spend(std::size_t steps) {
  if (t_budget == nullptr) return;
  if (steps > t_budget->m_left) throw TemplateError("this template does not come to an end");
  t_budget->m_left -= steps;
}

std::optional<Value> Object::attribute(std::string_view /*name*/) {
  return std::nullopt;
}

std::optional<Value> Object::callMethod(Interpreter& /*interpreter*/, std::string_view /*name*/,
                                        const Arguments& /*arguments*/) {
  return std::nullopt;
}

Value Object::call(Interpreter& /*interpreter*/, const Arguments& /*arguments*/) {
  throw TemplateError(describe() + " cannot be called");
}

const Value* Dict::find(const Value& key) const {
  if (const Text* text = key.text()) return find(text->bytes());
  for (const auto& entry : entries) {
    if (equal(entry.first, key)) return &entry.second;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  Budget::spend(entries.size() / 8);
  for (const auto& entry : entries) {
    const Text* text = entry.first.text();
    if (text != nullptr && text->bytes() == key) return &entry.second;
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  depth = std::max(depth, checkedDepth(std::max(key.depth(), value.depth())));
  if (const Value* old = find(key)) {
    *const_cast<Value*>(old) = std::move(value);  // NOLINT: the entry is ours
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
}

const Value* Namespace::find(std::string_view name) const {
  Budget::spend(attributes.size() / 8);
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  Budget::spend(attributes.size() / 8);
  for (auto& [key, old] : attributes) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  attributes.emplace_back(std::string(name), std::move(value));
}

Value Value::sequence(std::vector<Value> items, SequenceKind kind) {
  auto sequence = std::make_shared<Sequence>();
  sequence->kind = kind;
  int inner = 0;
  for (const Value& item : items) inner = std::max(inner, item.depth());
  sequence->depth = checkedDepth(inner);
  sequence->items = std::move(items);
  Value value;
  value.m_data = std::move(sequence);
  return value;
}

Value Value::dict(std::vector<std::pair<Value, Value>> entries) {
  auto dict = std::make_shared<Dict>();
  for (auto& [key, item] : entries) dict->set(std::move(key), std::move(item));
  Value value;
  value.m_data = std::shared_ptr<const Dict>(std::move(dict));
  return value;
}

const Text* Value::text() const {
  const auto* pointer = as<std::shared_ptr<const Text>>();
  return pointer != nullptr ? pointer->get() : nullptr;
}
Sequence* Value::sequence() const {
  const auto* pointer = as<std::shared_ptr<Sequence>>();
  return pointer != nullptr ? pointer->get() : nullptr;
}
const Dict* Value::dict() const {
  const auto* pointer = as<std::shared_ptr<const Dict>>();
  return pointer != nullptr ? pointer->get() : nullptr;
}
Namespace* Value::nameSpace() const {
  const auto* pointer = as<std::shared_ptr<Namespace>>();
  return pointer != nullptr ? pointer->get() : nullptr;
}
Object* Value::object() const {
  const auto* pointer = as<std::shared_ptr<Object>>();
  return pointer != nullptr ? pointer->get() : nullptr;
}

bool Value::integer(std::int64_t& out) const {
  if (const auto* value = as<std::int64_t>()) {
    out = *value;
    return true;
  }
  if (const auto* value = as<bool>()) {
    out = *value ? 1 : 0;
    return true;
  }
  return false;
}

bool Value::number(double& out) const {
  if (const auto* value = as<double>()) {
    out = *value;
    return true;
  }
  std::int64_t whole = 0;
  if (!integer(whole)) return false;
  out = static_cast<double>(whole);
  return true;
}

bool Value::isTrue() const {
  if (isUndefined() || isNone()) return false;
  if (const Text* string = text()) return !string->empty();
  if (const Sequence* list = sequence()) {
    return list->kind == SequenceKind::kGenerator || !list->items.empty();
  }
  if (const Dict* map = dict()) return !map->entries.empty();
  double value = 1;
  if (number(value)) return value != 0;
  return true;
}

Text Value::str() const {
  if (const Text* string = text()) return *string;
  if (isUndefined()) return {};
  return repr();
}

Text Value::repr() const {
  const DepthGuard guard;
  if (isUndefined()) return Text("Undefined");
  if (isNone()) return Text("None");
  if (const auto* value = as<bool>()) return Text(*value ? "True" : "False");
  if (const auto* value = as<std::int64_t>()) return Text(std::to_string(*value));
  if (const auto* value = as<double>()) return Text(printFloat(*value));
  if (const Text* string = text()) {
    Budget::spend(string->size() / 4);
    return Text::derived(quoted(string->bytes()), *string);
  }
  if (const Sequence* list = sequence()) return reprOfSequence(*list);
  Text out;
  if (const Dict* map = dict()) {
    out.append("{");
    for (std::size_t i = 0; i < map->entries.size(); ++i) {
      if (i > 0) out.append(", ");
      out.append(map->entries[i].first.repr());
      out.append(": ");
      out.append(map->entries[i].second.repr());
    }
    out.append("}");
  } else if (const Namespace* space = nameSpace()) {
    out.append("<Namespace {");
    for (std::size_t i = 0; i < space->attributes.size(); ++i) {
      if (i > 0) out.append(", ");
      out.append(quoted(space->attributes[i].first));
      out.append(": ");
      out.append(space->attributes[i].second.repr());
    }
    out.append("}>");
  } else {
    out.append("<" + object()->describe() + ">");
  }
  return out;
}

std::string Value::typeName() const {
  if (isUndefined()) return "Undefined";
  if (isNone()) return "NoneType";
  if (as<bool>() != nullptr) return "bool";
  if (as<std::int64_t>() != nullptr) return "int";
  if (as<double>() != nullptr) return "float";
  if (text() != nullptr) return "str";
  if (dict() != nullptr) return "dict";
  if (nameSpace() != nullptr) return "Namespace";
  if (const Sequence* list = sequence()) {
    switch (list->kind) {
      case SequenceKind::kList:
        return "list";
      case SequenceKind::kTuple:
        return "tuple";
      case SequenceKind::kRange:
        return "range";
      case SequenceKind::kGenerator:
        return "generator";
      case SequenceKind::kKeys:
        return "dict_keys";
      case SequenceKind::kValues:
        return "dict_values";
      case SequenceKind::kItems:
        return "dict_items";
    }
  }
  return object()->describe();
}

int Value::depth() const {
  if (const Sequence* list = sequence()) return list->depth;
  if (const Dict* map = dict()) return map->depth;
  return 0;
}

bool equal(const Value& a, const Value& b) {
  const DepthGuard guard;
  std::int64_t wholeA = 0;
  std::int64_t wholeB = 0;
  if (a.integer(wholeA) && b.integer(wholeB)) return wholeA == wholeB;
  double numberA = 0;
  double numberB = 0;
  if (a.number(numberA) && b.number(numberB)) return numberA == numberB;
  if (a.text() != nullptr && b.text() != nullptr) {
    Budget::spend(std::min(a.text()->size(), b.text()->size()) / 64);
    return a.text()->bytes() == b.text()->bytes();
  }
  if (a.isNone() || b.isNone()) return a.isNone() && b.isNone();
  if (a.isUndefined() || b.isUndefined()) return a.isUndefined() && b.isUndefined();
  if (a.sequence() != nullptr && b.sequence() != nullptr) {
    return equalSequences(*a.sequence(), *b.sequence());
  }
  if (a.dict() != nullptr && b.dict() != nullptr) return equalDicts(*a.dict(), *b.dict());
  if (a.nameSpace() != nullptr) return a.nameSpace() == b.nameSpace();
  return a.object() != nullptr && a.object() == b.object();
}

int compare(const Value& a, const Value& b, const char* operatorName) {
  const DepthGuard guard;
  requireDefined(a);
  requireDefined(b);
  const auto sign = [](auto x, auto y) { return x < y ? -1 : (y < x ? 1 : 0); };
  std::int64_t wholeA = 0;
  std::int64_t wholeB = 0;
  if (a.integer(wholeA) && b.integer(wholeB)) return sign(wholeA, wholeB);
  double numberA = 0;
  double numberB = 0;
  if (a.number(numberA) && b.number(numberB)) return sign(numberA, numberB);
  // UTF-8 sorts as its code points do.
  if (a.text() != nullptr && b.text() != nullptr) {
    Budget::spend(std::min(a.text()->size(), b.text()->size()) / 64);
    return sign(a.text()->bytes().compare(b.text()->bytes()), 0);
  }
  const Sequence* listA = a.sequence();
  const Sequence* listB = b.sequence();
  if (listA != nullptr && listB != nullptr && listA->kind == listB->kind &&
      (listA->kind == SequenceKind::kList || listA->kind == SequenceKind::kTuple)) {
    const std::size_t common = std::min(listA->items.size(), listB->items.size());
    for (std::size_t i = 0; i < common; ++i) {
      if (!equal(listA->items[i], listB->items[i])) {
        return compare(listA->items[i], listB->items[i], operatorName);
      }
    }
    return sign(listA->items.size(), listB->items.size());
  }
  throw TemplateError(std::string("'") + operatorName + "' is not possible between " +
                      a.typeName() + " and " + b.typeName());
}

void requireDefined(const Value& value) {
  if (const auto* undefined = value.as<Undefined>()) throw TemplateError(undefined->what);
}

std::string printFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const double size = std::fabs(value);
  const bool exponent = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto format = exponent ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, format).ptr;
  std::string out(buffer, end);
  if (!exponent && out.find('.') == std::string::npos) out += ".0";
  return out;
}

}  // namespace vitrine::engine::jinja

// Methods of dict, list and tuple, and where to look for one. Those that change a list or dict are
// refused, as in Jinja2's sandbox.
#include <algorithm>

#include "engine/template/interpreter.h"
#include "engine/template/library.h"

namespace vitrine::engine::jinja {
namespace {

Value get(Interpreter&, const Value& v, const Arguments& a) {
  const Parameters given(a, "get", {"key", "default"});
  if (const Value* value = v.dict()->find(given.required(0))) return *value;
  return given.has(1) ? *given[1] : Value();
}

Value view(Interpreter& in, const Value& v, SequenceKind kind) {
  const Dict& dict = *v.dict();
  in.chargeItems(dict.entries.size() * (kind == SequenceKind::kItems ? 3 : 1));
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries) {
    if (kind == SequenceKind::kKeys) items.push_back(key);
    if (kind == SequenceKind::kValues) items.push_back(value);
    if (kind == SequenceKind::kItems) {
      items.push_back(Value::sequence({key, value}, SequenceKind::kTuple));
    }
  }
  return Value::sequence(std::move(items), kind);
}
Value keys(Interpreter& in, const Value& v, const Arguments&) {
  return view(in, v, SequenceKind::kKeys);
}
Value values(Interpreter& in, const Value& v, const Arguments&) {
  return view(in, v, SequenceKind::kValues);
}
Value items(Interpreter& in, const Value& v, const Arguments&) {
  return view(in, v, SequenceKind::kItems);
}
Value copy(Interpreter&, const Value& v, const Arguments&) {
  return v;
}

Value indexOf(Interpreter& in, const Value& v, const Arguments& a) {
  const Value& wanted = Parameters(a, "index", {"value"}).required(0);
  const std::vector<Value> all = in.iterate(v);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (equal(all[i], wanted)) return i;
  }
  throw TemplateError(wanted.repr().bytes() + " is not in the list");
}
Value countOf(Interpreter& in, const Value& v, const Arguments& a) {
  const Value& wanted = Parameters(a, "count", {"value"}).required(0);
  const std::vector<Value> all = in.iterate(v);
  return static_cast<std::int64_t>(
      std::count_if(all.begin(), all.end(), [&](const Value& x) { return equal(x, wanted); }));
}

Value refuseChange(Interpreter&, const Value& v, const Arguments&) {
  throw TemplateError("a template cannot change a " + v.typeName());
}

struct Entry {
  std::string_view name;
  FilterFunction function;
};

template <std::size_t N>
FilterFunction lookUp(const Entry (&entries)[N], std::string_view name) {
  for (const Entry& entry : entries) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace

FilterFunction findMethod(const Value& object, std::string_view name) {
  static constexpr Entry kDictMethods[] = {
      {"get", get},
      {"keys", keys},
      {"values", values},
      {"items", items},
      {"copy", copy},
      {"pop", refuseChange},
      {"update", refuseChange},
      {"clear", refuseChange},
      {"setdefault", refuseChange},
      {"popitem", refuseChange},
  };
  static constexpr Entry kListMethods[] = {
      {"index", indexOf},       {"count", countOf},        {"copy", copy},
      {"append", refuseChange}, {"extend", refuseChange},  {"insert", refuseChange},
      {"pop", refuseChange},    {"remove", refuseChange},  {"clear", refuseChange},
      {"sort", refuseChange},   {"reverse", refuseChange},
  };
  static constexpr Entry kTupleMethods[] = {{"index", indexOf}, {"count", countOf}};
  if (object.text() != nullptr) return findStringMethod(name);
  if (object.dict() != nullptr) return lookUp(kDictMethods, name);
  if (const Sequence* list = object.sequence()) {
    if (list->kind == SequenceKind::kList) return lookUp(kListMethods, name);
    if (list->kind == SequenceKind::kTuple || list->kind == SequenceKind::kRange) {
      return lookUp(kTupleMethods, name);
    }
  }
  return nullptr;
}

}  // namespace vitrine::engine::jinja

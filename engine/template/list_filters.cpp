// Filters over lists and dicts.
#include <algorithm>
#include <array>

#include "engine/template/interpreter.h"
#include "engine/template/library.h"
#include "engine/template/unicode.h"

namespace vitrine::engine::jinja {
namespace {

Value generator(std::vector<Value> items) {
  return Value::sequence(std::move(items), SequenceKind::kGenerator);
}

// 'a.b.0' of a value, as the attribute parameters of filters spell it.
Value dotted(Interpreter& in, Value value, const Value& path, const Value* otherwise = nullptr) {
  std::int64_t index = 0;
  if (path.integer(index)) {
    value = in.item(value, path);
  } else {
    const std::string names = path.str().bytes();
    std::size_t begin = 0;
    while (begin <= names.size()) {
      const std::size_t dot = std::min(names.find('.', begin), names.size());
      const std::string name = names.substr(begin, dot - begin);
      begin = dot + 1;
      const bool isNumber =
          !name.empty() && name.size() < 18 &&
          std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
      const Value key = isNumber ? Value(static_cast<std::int64_t>(std::stoll(name)))
                                 : Value(std::string_view(name));
      if (value.isUndefined() && otherwise != nullptr) return *otherwise;
      value = in.item(value, key);
    }
  }
  return value.isUndefined() && otherwise != nullptr ? *otherwise : value;
}

// What sorting and grouping look at: lower case, unless case matters.
Value sortKey(Interpreter& in, const Value& item, const Value* attribute, bool caseSensitive) {
  Value key = attribute != nullptr && !attribute->isNone() ? dotted(in, item, *attribute) : item;
  if (caseSensitive || key.text() == nullptr) return key;
  return Text(toLower(key.text()->bytes()));
}

struct Keyed {
  Value key, item;
};

std::vector<Keyed> keyed(Interpreter& in, const Value& value, const Value* attribute,
                         bool caseSensitive) {
  std::vector<Keyed> items;
  for (Value& item : in.iterate(value)) {
    Value key = sortKey(in, item, attribute, caseSensitive);
    items.push_back({std::move(key), std::move(item)});
  }
  in.charge(items.size() * 8);
  return items;
}

void sortKeyed(std::vector<Keyed>& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? compare(b.key, a.key, "<") < 0 : compare(a.key, b.key, "<") < 0;
  });
}

Value length(Interpreter& in, const Value& value, const Arguments&) {
  return in.length(value);
}

Value toList(Interpreter& in, const Value& value, const Arguments&) {
  return Value::sequence(in.iterate(value));
}

Value first(Interpreter& in, const Value& value, const Arguments&) {
  std::vector<Value> items = in.iterate(value);
  if (items.empty()) return Undefined{"No first item, sequence was empty."};
  return items.front();
}

Value last(Interpreter& in, const Value& value, const Arguments&) {
  std::vector<Value> items = in.iterate(value);
  if (items.empty()) return Undefined{"No last item, sequence was empty."};
  return items.back();
}

Value join(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "join", {"d", "attribute"});
  std::vector<Value> items = in.iterate(value);
  if (given.has(1) && !given[1]->isNone()) {
    for (Value& item : items) item = dotted(in, item, *given[1]);
  }
  return joinTexts(in, given.text(0, ""), items);
}

Value defaultFilter(Interpreter&, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "default", {"default_value", "boolean"});
  const bool replaces = value.isUndefined() || (given.isTrue(1, false) && !value.isTrue());
  if (!replaces) return value;
  return given.has(0) ? *given[0] : Value(Text());
}

Value reverse(Interpreter& in, const Value& value, const Arguments&) {
  std::vector<Value> items = in.iterate(value);
  std::reverse(items.begin(), items.end());
  if (value.text() != nullptr) return joinTexts(in, Text(), items);
  return generator(std::move(items));
}

Value items(Interpreter& in, const Value& value, const Arguments&) {
  if (value.isUndefined()) return generator({});
  const Dict* dict = value.dict();
  if (dict == nullptr) throw TemplateError("items takes a dict, not a " + value.typeName());
  in.chargeItems(dict->entries.size() * 3);
  std::vector<Value> pairs;
  for (const auto& [key, item] : dict->entries) {
    pairs.push_back(Value::sequence({key, item}, SequenceKind::kTuple));
  }
  return generator(std::move(pairs));
}

Value dictSort(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "dictsort", {"case_sensitive", "by", "reverse"});
  const Dict* dict = value.dict();
  if (dict == nullptr) throw TemplateError("dictsort takes a dict, not a " + value.typeName());
  const std::string by = given.text(1, "key").bytes();
  if (by != "key" && by != "value") throw TemplateError("dictsort: by must be key or value");
  in.chargeItems(dict->entries.size() * 4);
  std::vector<Keyed> pairs;
  for (const auto& [key, item] : dict->entries) {
    pairs.push_back({sortKey(in, by == "key" ? key : item, nullptr, given.isTrue(0, false)),
                     Value::sequence({key, item}, SequenceKind::kTuple)});
  }
  sortKeyed(pairs, given.isTrue(2, false));
  std::vector<Value> sorted;
  for (Keyed& pair : pairs) sorted.push_back(std::move(pair.item));
  return Value::sequence(std::move(sorted));
}

Value sort(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "sort", {"reverse", "case_sensitive", "attribute"});
  std::vector<Keyed> items = keyed(in, value, given[2], given.isTrue(1, false));
  sortKeyed(items, given.isTrue(0, false));
  std::vector<Value> sorted;
  for (Keyed& item : items) sorted.push_back(std::move(item.item));
  return Value::sequence(std::move(sorted));
}

Value unique(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "unique", {"case_sensitive", "attribute"});
  std::vector<Value> seen;
  std::vector<Value> kept;
  for (Keyed& item : keyed(in, value, given[1], given.isTrue(0, false))) {
    in.charge(seen.size());
    const bool known = std::any_of(seen.begin(), seen.end(),
                                   [&](const Value& other) { return equal(other, item.key); });
    if (known) continue;
    seen.push_back(std::move(item.key));
    kept.push_back(std::move(item.item));
  }
  return generator(std::move(kept));
}

Value extreme(Interpreter& in, const Value& value, const Arguments& arguments, int sign) {
  const Parameters given(arguments, sign < 0 ? "min" : "max", {"case_sensitive", "attribute"});
  std::vector<Keyed> items = keyed(in, value, given[1], given.isTrue(0, false));
  if (items.empty()) return Undefined{"No aggregated item, sequence was empty."};
  const Keyed* best = &items.front();
  for (const Keyed& item : items) {
    if (compare(item.key, best->key, "<") * sign > 0) best = &item;
  }
  return best->item;
}
Value minimum(Interpreter& in, const Value& value, const Arguments& arguments) {
  return extreme(in, value, arguments, -1);
}
Value maximum(Interpreter& in, const Value& value, const Arguments& arguments) {
  return extreme(in, value, arguments, 1);
}

Value sum(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "sum", {"attribute", "start"});
  Value total = given.has(1) ? *given[1] : Value(0);
  for (const Value& item : in.iterate(value)) {
    const bool byAttribute = given.has(0) && !given[0]->isNone();
    total = in.binary("+", total, byAttribute ? dotted(in, item, *given[0]) : item);
  }
  return total;
}

Value groupBy(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "groupby", {"attribute", "default", "case_sensitive"});
  const Value& attribute = given.required(0);
  std::vector<Keyed> items;
  std::vector<Value> shown;
  for (Value& item : in.iterate(value)) {
    Value key = dotted(in, item, attribute, given[1]);
    if (!given.isTrue(2, false) && key.text() != nullptr) {
      key = Text::derived(toLower(key.text()->bytes()), *key.text());
    }
    items.push_back({std::move(key), std::move(item)});
  }
  in.charge(items.size() * 8);
  sortKeyed(items, false);
  std::vector<Value> groups;
  for (std::size_t i = 0; i < items.size();) {
    std::vector<Value> members;
    const std::size_t begin = i;
    while (i < items.size() && equal(items[i].key, items[begin].key)) {
      members.push_back(items[i++].item);
    }
    // Named by its first member, in that one's own spelling.
    Value name = dotted(in, items[begin].item, attribute, given[1]);
    groups.push_back(Value::sequence({std::move(name), Value::sequence(std::move(members))},
                                     SequenceKind::kTuple));
  }
  return Value::sequence(std::move(groups));
}

Value batch(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "batch", {"linecount", "fill_with"});
  const std::int64_t size = given.integer(0, 0);
  if (size < 1) throw TemplateError("batch takes a count above 0");
  std::vector<Value> rows;
  std::vector<Value> row;
  for (Value& item : in.iterate(value)) {
    if (static_cast<std::int64_t>(row.size()) == size) {
      rows.push_back(Value::sequence(std::exchange(row, {})));
    }
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (given.has(1) && !given[1]->isNone()) {
      in.chargeItems(static_cast<std::size_t>(size));
      row.resize(static_cast<std::size_t>(size), *given[1]);
    }
    rows.push_back(Value::sequence(std::move(row)));
  }
  return generator(std::move(rows));
}

Value sliceFilter(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "slice", {"slices", "fill_with"});
  const std::int64_t slices = given.integer(0, 0);
  if (slices < 1) throw TemplateError("slice takes a count above 0");
  in.chargeItems(static_cast<std::size_t>(slices));
  const std::vector<Value> all = in.iterate(value);
  const auto count = static_cast<std::int64_t>(all.size());
  const std::int64_t perSlice = count / slices;
  const std::int64_t longer = count % slices;
  std::vector<Value> rows;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < slices; ++i) {
    const std::int64_t end = at + perSlice + (i < longer ? 1 : 0);
    std::vector<Value> row(all.begin() + at, all.begin() + end);
    if (given.has(1) && !given[1]->isNone() && i >= longer && longer > 0) row.push_back(*given[1]);
    rows.push_back(Value::sequence(std::move(row)));
    at = end;
  }
  return generator(std::move(rows));
}

Value map(Interpreter& in, const Value& value, const Arguments& arguments) {
  std::vector<Value> results;
  if (arguments.positional.empty()) {
    const Parameters given(arguments, "map", {"attribute", "default"});
    const Value& attribute = given.required(0);
    for (Value& item : in.iterate(value)) {
      results.push_back(dotted(in, std::move(item), attribute, given[1]));
    }
    return generator(std::move(results));
  }
  Arguments rest = arguments;
  const std::string name = rest.positional.front().str().bytes();
  rest.positional.erase(rest.positional.begin());
  for (const Value& item : in.iterate(value)) {
    in.charge(1);
    results.push_back(in.applyFilter(name, item, rest));
  }
  return generator(std::move(results));
}

Value choose(Interpreter& in, const Value& value, const Arguments& arguments, bool byAttribute,
             bool wanted) {
  Arguments rest = arguments;
  Value attribute;
  const auto take = [&](Value& out) {
    if (rest.positional.empty()) return false;
    out = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    return true;
  };
  if (byAttribute && !take(attribute)) throw TemplateError("the attribute to look at is missing");
  Value test;
  const bool hasTest = take(test);
  const std::string name = hasTest ? test.str().bytes() : std::string();
  std::vector<Value> kept;
  for (Value& item : in.iterate(value)) {
    in.charge(1);
    const Value looked = byAttribute ? dotted(in, item, attribute) : item;
    const bool holds = hasTest ? in.applyTest(name, looked, rest) : looked.isTrue();
    if (holds == wanted) kept.push_back(std::move(item));
  }
  return generator(std::move(kept));
}

Value select(Interpreter& in, const Value& value, const Arguments& arguments) {
  return choose(in, value, arguments, false, true);
}
Value reject(Interpreter& in, const Value& value, const Arguments& arguments) {
  return choose(in, value, arguments, false, false);
}
Value selectAttr(Interpreter& in, const Value& value, const Arguments& arguments) {
  return choose(in, value, arguments, true, true);
}
Value rejectAttr(Interpreter& in, const Value& value, const Arguments& arguments) {
  return choose(in, value, arguments, true, false);
}

Value attr(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "attr", {"name"});
  // Only attributes, never the entries of a dict.
  if (value.dict() != nullptr && findMethod(value, given.required(0).str().bytes()) == nullptr) {
    return Undefined{"'dict object' has no attribute"};
  }
  return in.attribute(value, given.required(0).str().bytes());
}

}  // namespace

FilterFunction findListFilter(std::string_view name) {
  struct Entry {
    std::string_view name;
    FilterFunction function;
  };
  constexpr Entry kFilters[] = {
      {"length", length},
      {"count", length},
      {"list", toList},
      {"first", first},
      {"last", last},
      {"join", join},
      {"default", defaultFilter},
      {"d", defaultFilter},
      {"reverse", reverse},
      {"items", items},
      {"dictsort", dictSort},
      {"sort", sort},
      {"unique", unique},
      {"min", minimum},
      {"max", maximum},
      {"sum", sum},
      {"groupby", groupBy},
      {"batch", batch},
      {"slice", sliceFilter},
      {"map", map},
      {"select", select},
      {"reject", reject},
      {"selectattr", selectAttr},
      {"rejectattr", rejectAttr},
      {"attr", attr},
  };
  for (const Entry& entry : kFilters) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

FilterFunction findFilter(std::string_view name) {
  if (FilterFunction filter = findTextFilter(name)) return filter;
  return findListFilter(name);
}

}  // namespace vitrine::engine::jinja

#include "engine/template/objects.h"

#include <algorithm>
#include <array>
#include <ctime>

namespace vitrine::engine::jinja {
namespace {

using GlobalFunction = Value (*)(Interpreter&, const Arguments&);

class FunctionObject final : public Object {
 public:
  FunctionObject(std::string_view name, GlobalFunction function)
      : m_name(name), m_function(function) {}
  Value call(Interpreter& interpreter, const Arguments& arguments) override {
    return m_function(interpreter, arguments);
  }
  std::string describe() const override { return "function '" + m_name + "'"; }

 private:
  std::string m_name;
  GlobalFunction m_function;
};

class CyclerObject final : public Object {
 public:
  explicit CyclerObject(std::vector<Value> items) : m_items(std::move(items)) {}
  bool isCallable() const override { return false; }
  std::optional<Value> attribute(std::string_view name) override {
    if (name == "current") return m_items[m_index];
    return std::nullopt;
  }
  std::optional<Value> callMethod(Interpreter& /*interpreter*/, std::string_view name,
                                  const Arguments& /*arguments*/) override {
    if (name == "reset") {
      m_index = 0;
      return Value();
    }
    if (name != "next") return std::nullopt;
    const Value item = m_items[m_index];
    m_index = (m_index + 1) % m_items.size();
    return item;
  }
  std::string describe() const override { return "Cycler"; }

 private:
  std::vector<Value> m_items;
  std::size_t m_index = 0;
};

class JoinerObject final : public Object {
 public:
  explicit JoinerObject(Text separator) : m_separator(std::move(separator)) {}
  Value call(Interpreter& /*interpreter*/, const Arguments& /*arguments*/) override {
    if (m_used) return m_separator;
    m_used = true;
    return Text();
  }
  std::string describe() const override { return "Joiner"; }

 private:
  Text m_separator;
  bool m_used = false;
};

Value makeRange(Interpreter& interpreter, const Arguments& arguments) {
  if (!arguments.named.empty() || arguments.positional.empty() || arguments.positional.size() > 3) {
    throw TemplateError("range takes one to three numbers");
  }
  std::array<std::int64_t, 3> given{};
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    if (!arguments.positional[i].integer(given[i]))
      throw TemplateError("range takes whole numbers");
  }
  const bool onlyStop = arguments.positional.size() == 1;
  const std::int64_t start = onlyStop ? 0 : given[0];
  const std::int64_t stop = onlyStop ? given[0] : given[1];
  const std::int64_t step = arguments.positional.size() == 3 ? given[2] : 1;
  if (step == 0) throw TemplateError("range takes no step of 0");
  // Jinja2's sandbox has the same bound.
  constexpr std::int64_t kMaxRange = 100000;
  std::vector<Value> items;
  __int128 at = start;
  while (step > 0 ? at < stop : at > stop) {
    if (static_cast<std::int64_t>(items.size()) == kMaxRange) {
      throw TemplateError("a range may have at most 100000 numbers");
    }
    items.emplace_back(static_cast<std::int64_t>(at));
    at += step;
  }
  interpreter.chargeItems(items.size());
  Value value = Value::sequence(std::move(items), SequenceKind::kRange);
  value.sequence()->label = "range(" + std::to_string(start) + ", " + std::to_string(stop) +
                            (step != 1 ? ", " + std::to_string(step) : std::string()) + ")";
  return value;
}

Value makeDict(Interpreter& interpreter, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) throw TemplateError("dict takes one mapping at most");
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (const Dict* dict = source.dict()) {
      entries = dict->entries;
    } else {
      for (const Value& pair : interpreter.iterate(source)) {
        std::vector<Value> parts = interpreter.iterate(pair);
        if (parts.size() != 2) throw TemplateError("dict takes pairs");
        entries.emplace_back(std::move(parts[0]), std::move(parts[1]));
      }
    }
  }
  for (const auto& [name, value] : arguments.named) {
    entries.emplace_back(Value(std::string_view(name)), value);
  }
  interpreter.charge(entries.size() * entries.size() / 16);
  interpreter.chargeItems(entries.size());
  return Value::dict(std::move(entries));
}

Value makeNamespace(Interpreter& interpreter, const Arguments& arguments) {
  auto space = std::make_shared<Namespace>();
  const Value values = makeDict(interpreter, arguments);
  for (const auto& [key, value] : values.dict()->entries) space->set(key.str().bytes(), value);
  interpreter.charge(32);
  interpreter.keep(space);
  return space;
}

Value makeCycler(Interpreter& /*interpreter*/, const Arguments& arguments) {
  if (arguments.positional.empty()) throw TemplateError("cycler takes at least one value");
  return std::shared_ptr<Object>(std::make_shared<CyclerObject>(arguments.positional));
}

Value makeJoiner(Interpreter& /*interpreter*/, const Arguments& arguments) {
  const Parameters given(arguments, "joiner", {"sep"});
  return std::shared_ptr<Object>(std::make_shared<JoinerObject>(given.text(0, ", ")));
}

Value raiseException(Interpreter& /*interpreter*/, const Arguments& arguments) {
  const Parameters given(arguments, "raise_exception", {"message"});
  throw TemplateRefusal(given.required(0).str().bytes());
}

Value strftimeNow(Interpreter& /*interpreter*/, const Arguments& arguments) {
  const Parameters given(arguments, "strftime_now", {"format"});
  const std::string format = given.required(0).str().bytes();
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 1024> buffer{};
  if (format.empty()) return Text();
  const std::size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &local);
  return Text(std::string(buffer.data(), size));
}

}  // namespace

Value findGlobal(std::string_view name) {
  struct Entry {
    std::string_view name;
    GlobalFunction function;
  };
  constexpr std::array<Entry, 7> kFunctions = {{{"range", makeRange},
                                                {"dict", makeDict},
                                                {"namespace", makeNamespace},
                                                {"cycler", makeCycler},
                                                {"joiner", makeJoiner},
                                                {"raise_exception", raiseException},
                                                {"strftime_now", strftimeNow}}};
  for (const Entry& entry : kFunctions) {
    if (entry.name == name) {
      return std::shared_ptr<Object>(std::make_shared<FunctionObject>(name, entry.function));
    }
  }
  return {};
}

std::optional<Value> MacroObject::attribute(std::string_view name) {
  if (name == "name") return Value(std::string_view(m_macro.name));
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names(m_macro.parameters.begin(), m_macro.parameters.end());
  return Value::sequence(std::move(names), SequenceKind::kTuple);
}

Value MacroObject::call(Interpreter& interpreter, const Arguments& arguments) {
  return interpreter.callMacro(m_macro, m_closure, arguments);
}

std::optional<Value> LoopObject::attribute(std::string_view name) {
  if (name == "index") return Value(m_index + 1);
  if (name == "index0") return Value(m_index);
  if (name == "first") return Value(m_index == 0);
  if (name == "last") return Value(m_index + 1 == m_count);
  if (name == "length") return Value(m_count);
  if (name == "revindex") return Value(m_count - m_index);
  if (name == "revindex0") return Value(m_count - m_index - 1);
  if (name == "depth") return Value(m_depth);
  if (name == "depth0") return Value(m_depth - 1);
  const bool isPrevious = name == "previtem";
  if (!isPrevious && name != "nextitem") return std::nullopt;
  if (isPrevious && m_index == 0) return Value(Undefined{"there is no previous item"});
  if (!isPrevious && m_index + 1 >= m_count) return Value(Undefined{"there is no next item"});
  if (m_items == nullptr) return Value(Undefined{"the loop is over"});
  return (*m_items)[isPrevious ? m_index - 1 : m_index + 1];
}

std::optional<Value> LoopObject::callMethod(Interpreter& /*interpreter*/, std::string_view name,
                                            const Arguments& arguments) {
  if (name == "cycle") {
    if (arguments.positional.empty()) throw TemplateError("loop.cycle takes at least one value");
    return arguments.positional[m_index % arguments.positional.size()];
  }
  if (name == "changed") {
    const auto& now = arguments.positional;
    const bool same = m_lastChanged && m_lastChanged->size() == now.size() &&
                      std::equal(now.begin(), now.end(), m_lastChanged->begin(), equal);
    m_lastChanged = now;
    return Value(!same);
  }
  return std::nullopt;
}

Value LoopObject::call(Interpreter& interpreter, const Arguments& arguments) {
  if (!m_loop.recursive) {
    throw TemplateError("loop can only be called in a loop that is marked 'recursive'");
  }
  if (arguments.positional.size() != 1) throw TemplateError("loop takes one list");
  const auto scope = m_scope.lock();
  if (!scope) throw TemplateError("the loop is over");
  return interpreter.runLoop(m_loop, arguments.positional[0], m_depth + 1, scope);
}

}  // namespace vitrine::engine::jinja

// Pieces that filters and methods share, and JSON.
#include "engine/template/library.h"

#include <algorithm>
#include <cmath>

#include "engine/template/interpreter.h"
#include "engine/template/unicode.h"

namespace vitrine::engine::jinja {

Parameters::Parameters(const Arguments& arguments, std::string_view function,
                       std::initializer_list<std::string_view> names)
    : m_function(function), m_names(names), m_values(names.size(), nullptr) {
  if (arguments.positional.size() > m_names.size()) {
    throw TemplateError(m_function + " takes at most " + std::to_string(m_names.size()) +
                        " values, not " + std::to_string(arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    m_values[i] = &arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(m_names.begin(), m_names.end(), name);
    if (found == m_names.end()) throw TemplateError(m_function + " takes no '" + name + "'");
    const auto index = static_cast<std::size_t>(found - m_names.begin());
    if (m_values[index] != nullptr) {
      throw TemplateError(m_function + " got two values for '" + name + "'");
    }
    m_values[index] = &value;
  }
}

const Value& Parameters::required(std::size_t i) const {
  if (m_values[i] == nullptr) {
    throw TemplateError(m_function + " needs a value for '" + std::string(m_names[i]) + "'");
  }
  return *m_values[i];
}

std::int64_t Parameters::integer(std::size_t i, std::int64_t otherwise) const {
  if (m_values[i] == nullptr || m_values[i]->isNone()) return otherwise;
  std::int64_t value = 0;
  if (!m_values[i]->integer(value)) {
    throw TemplateError(m_function + " takes a whole number for '" + std::string(m_names[i]) +
                        "', not a " + m_values[i]->typeName());
  }
  return value;
}

bool Parameters::isTrue(std::size_t i, bool otherwise) const {
  return m_values[i] == nullptr ? otherwise : m_values[i]->isTrue();
}

Text Parameters::text(std::size_t i, std::string_view otherwise) const {
  return m_values[i] == nullptr ? Text(std::string(otherwise)) : m_values[i]->str();
}

// What stays keeps its origin, and what is put in brings its own.
Text replaceText(Interpreter& interpreter, const Text& text, const Text& from, const Text& to,
                 std::int64_t count) {
  const std::string& bytes = text.bytes();
  interpreter.chargeBytes(bytes.size());
  Text out;
  std::size_t begin = 0;
  std::size_t search = 0;
  for (std::int64_t i = 0; count < 0 || i < count; ++i) {
    std::size_t found = search;
    if (from.empty()) {
      if (search > bytes.size()) break;
    } else {
      found = bytes.find(from.bytes(), search);
      if (found == std::string::npos) break;
    }
    interpreter.chargeBytes(to.size() + 16);
    out.append(text.slice(begin, found));
    out.append(to);
    begin = found + from.size();
    search = begin;
    if (from.empty()) {
      if (found == bytes.size()) break;
      search = found + characterLength(bytes, found);
    }
  }
  out.append(text.slice(begin, bytes.size()));
  return out;
}

Text joinTexts(Interpreter& interpreter, const Text& separator, const std::vector<Value>& items) {
  Text out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Text part = items[i].str();
    interpreter.chargeBytes(part.size() + separator.size() + 16);
    if (i > 0) out.append(separator);
    out.append(part);
  }
  return out;
}

Text trimText(const Text& text, bool left, bool right, const Value* characters) {
  std::string set;
  std::string_view view;
  const bool hasSet = characters != nullptr && !characters->isNone();
  if (hasSet) {
    set = characters->str().bytes();
    view = set;
    Budget::spend(text.size() / 16 * (set.size() + 1));
  }
  const Trimmed range = trimmed(text.bytes(), left, right, hasSet ? &view : nullptr);
  return text.slice(range.begin, range.end);
}

Text padText(Interpreter& interpreter, const Text& text, std::int64_t width, std::string_view fill,
             double leftShare) {
  const auto length = static_cast<std::int64_t>(countCharacters(text.bytes()));
  if (width <= length) return text;
  const auto missing = static_cast<std::size_t>(width - length);
  interpreter.charge(missing);
  std::size_t left = leftShare == 1 ? missing : 0;
  // Python's centring puts the odd one to the left only when both are odd.
  if (leftShare == 0.5) left = missing / 2 + (missing & static_cast<std::size_t>(width) & 1U);
  const auto repeated = [&](std::size_t count) {
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) bytes += fill;
    return bytes;
  };
  Text out(repeated(left));
  out.append(text);
  out.append(repeated(missing - left));
  return out;
}

namespace {

class JsonWriter {
 public:
  JsonWriter(Interpreter& interpreter, const JsonOptions& options)
      : m_interpreter(interpreter), m_options(options) {}

  void write(const Value& value, int level) {
    m_interpreter.charge(1);
    double number = 0;
    if (value.isNone()) {
      m_out += "null";
    } else if (const auto* truth = value.as<bool>()) {
      m_out += *truth ? "true" : "false";
    } else if (value.as<double>() != nullptr && value.number(number) && !std::isfinite(number)) {
      m_out += std::isnan(number) ? "NaN" : (number < 0 ? "-Infinity" : "Infinity");
    } else if (value.number(number)) {
      m_out += value.repr().bytes();
    } else if (const Text* text = value.text()) {
      writeString(*text);
    } else if (const Dict* dict = value.dict()) {
      writeDict(*dict, level);
    } else if (const Sequence* list = value.sequence();
               list != nullptr &&
               (list->kind == SequenceKind::kList || list->kind == SequenceKind::kTuple)) {
      if (list->items.empty()) {
        m_out += "[]";
        return;
      }
      m_out += '[';
      for (std::size_t i = 0; i < list->items.size(); ++i) {
        separate(i, level + 1);
        write(list->items[i], level + 1);
      }
      newLine(level);
      m_out += ']';
    } else {
      throw TemplateError("a " + value.typeName() + " cannot be written as JSON");
    }
  }

  Text take() { return Text::derived(std::move(m_out), m_message); }

 private:
  void newLine(int level) {
    if (m_options.indent < 0) return;
    m_interpreter.chargeBytes(static_cast<std::size_t>(m_options.indent) * level);
    m_out += '\n';
    m_out.append(static_cast<std::size_t>(m_options.indent) * level, ' ');
  }

  void separate(std::size_t i, int level) {
    if (i > 0) m_out += m_options.itemSeparator;
    newLine(level);
  }

  void writeDict(const Dict& dict, int level) {
    if (dict.entries.empty()) {
      m_out += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (m_options.sortKeys) {
      std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
        return compare(a->first, b->first, "<") < 0;
      });
    }
    m_out += '{';
    for (std::size_t i = 0; i < entries.size(); ++i) {
      separate(i, level + 1);
      const Value& key = entries[i]->first;
      if (const Text* text = key.text()) {
        writeString(*text);
      } else {
        m_out += '"';
        write(key, level + 1);
        m_out += '"';
      }
      m_out += m_options.keySeparator;
      write(entries[i]->second, level + 1);
    }
    newLine(level);
    m_out += '}';
  }

  void writeString(const Text& text) {
    m_interpreter.chargeBytes(text.size() * 2);
    if (m_message == Text::kTemplate) m_message = text.firstMessage();
    const std::string& bytes = text.bytes();
    m_out += '"';
    for (std::size_t i = 0; i < bytes.size();) {
      const std::size_t length = characterLength(bytes, i);
      const char32_t c = decodeAt(bytes, i, length);
      i += length;
      constexpr std::string_view kFrom = "\"\\\n\r\t\b\f";
      constexpr std::string_view kTo = "\"\\nrtbf";
      const auto simple = c < 128 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
      if (simple != std::string_view::npos) {
        m_out += '\\';
        m_out += kTo[simple];
      } else if (c < 0x20 || (m_options.ensureAscii && c >= 0x7F)) {
        if (c == 0x7F) {
          m_out += '\x7F';
        } else if (c >= 0x10000) {
          hex(0xD800 + ((c - 0x10000) >> 10));
          hex(0xDC00 + ((c - 0x10000) & 0x3FF));
        } else {
          hex(c);
        }
      } else {
        m_out.append(bytes, i - length, length);
      }
    }
    m_out += '"';
  }

  void hex(char32_t c) {
    m_out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) m_out += "0123456789abcdef"[c >> shift & 15U];
  }

  Interpreter& m_interpreter;
  const JsonOptions& m_options;
  std::string m_out;
  int m_message = Text::kTemplate;
};

}  // namespace

Text toJson(Interpreter& interpreter, const Value& value, const JsonOptions& options) {
  JsonWriter writer(interpreter, options);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace vitrine::engine::jinja

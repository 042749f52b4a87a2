// Filters that take and give text, and numbers.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "engine/template/interpreter.h"
#include "engine/template/library.h"
#include "engine/template/unicode.h"

namespace vitrine::engine::jinja {
namespace {

Text textOf(Interpreter& interpreter, const Value& value) {
  Text text = value.str();
  interpreter.chargeBytes(text.size() * 4);
  return text;
}

Value upper(Interpreter& in, const Value& value, const Arguments&) {
  return textOf(in, value).mapped(toUpper);
}

Value lower(Interpreter& in, const Value& value, const Arguments&) {
  return textOf(in, value).mapped(toLower);
}

Value capitalizeFilter(Interpreter& in, const Value& value, const Arguments&) {
  const Text text = textOf(in, value);
  return Text::derived(capitalize(text.bytes()), text);
}

// Jinja2's own rule: a word begins after white space, a dash or an opening bracket.
Value title(Interpreter& in, const Value& value, const Arguments&) {
  const Text text = textOf(in, value);
  const std::string& bytes = text.bytes();
  std::string out;
  std::size_t wordBegin = 0;
  const auto flush = [&](std::size_t end) {
    out += capitalize(bytes.substr(wordBegin, end - wordBegin));
  };
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = characterLength(bytes, i);
    const char32_t c = decodeAt(bytes, i, length);
    if (isSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<') {
      flush(i);
      out.append(bytes, i, length);
      wordBegin = i + length;
    }
    i += length;
  }
  flush(bytes.size());
  return Text::derived(std::move(out), text);
}

Value trim(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "trim", {"chars"});
  return trimText(textOf(in, value), true, true, given[0]);
}

Value replace(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "replace", {"old", "new", "count"});
  return replaceText(in, textOf(in, value), given.required(0).str(), given.required(1).str(),
                     given.integer(2, -1));
}

Value toText(Interpreter& in, const Value& value, const Arguments&) {
  return textOf(in, value);
}

Value escape(Interpreter& in, const Value& value, const Arguments&) {
  Text text = textOf(in, value);
  constexpr std::array<std::pair<const char*, const char*>, 5> kNames = {
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&#34;"}, {"'", "&#39;"}}};
  for (const auto& [from, to] : kNames) {
    if (text.bytes().find(from) == std::string::npos) continue;
    text = text.mapped([&, f = from, t = to](std::string_view run) {
      std::string out;
      for (const char c : run) {
        if (c == *f) {
          out += t;
        } else {
          out += c;
        }
      }
      return out;
    });
  }
  return text;
}

Value indent(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "indent", {"width", "first", "blank"});
  const Text text = textOf(in, value);
  Text margin;
  if (given.has(0) && given[0]->text() != nullptr) {
    margin = *given[0]->text();
  } else {
    const std::int64_t width = std::max<std::int64_t>(given.integer(0, 4), 0);
    in.chargeBytes(static_cast<std::size_t>(width));
    margin = Text(std::string(static_cast<std::size_t>(width), ' '));
  }
  const bool blank = given.isTrue(2, false);
  Text out;
  std::size_t begin = 0;
  bool isFirst = true;
  while (begin <= text.size()) {
    const std::size_t newline = text.bytes().find('\n', begin);
    const std::size_t end = newline == std::string::npos ? text.size() : newline;
    const bool indents = isFirst ? given.isTrue(1, false) : (blank || end > begin);
    if (indents) {
      in.chargeBytes(margin.size() + 16);
      out.append(margin);
    }
    out.append(text.slice(begin, end));
    if (newline == std::string::npos) break;
    out.append(text.slice(newline, newline + 1));
    begin = newline + 1;
    isFirst = false;
  }
  return out;
}

Value center(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "center", {"width"});
  return padText(in, textOf(in, value), given.integer(0, 80), " ", 0.5);
}

Value truncate(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "truncate", {"length", "killwords", "end", "leeway"});
  const Text text = textOf(in, value);
  const std::int64_t length = given.integer(0, 255);
  const Text end = given.text(2, "...");
  const auto endLength = static_cast<std::int64_t>(countCharacters(end.bytes()));
  const auto size = static_cast<std::int64_t>(countCharacters(text.bytes()));
  if (length < endLength) throw TemplateError("truncate: the length is less than that of the end");
  if (size <= length + given.integer(3, 5)) return text;
  Text kept = text.slice(0, byteOffset(text.bytes(), length - endLength));
  if (!given.isTrue(1, false)) {
    const std::size_t space = kept.bytes().rfind(' ');
    if (space != std::string::npos) kept = kept.slice(0, space);
  }
  kept.append(end);
  return kept;
}

Value wordCount(Interpreter& in, const Value& value, const Arguments&) {
  const Text text = textOf(in, value);
  std::int64_t words = 0;
  bool inWord = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = characterLength(text.bytes(), i);
    const char32_t c = decodeAt(text.bytes(), i, length);
    const bool isWordPart = c == '_' || isLetter(c) || (c >= '0' && c <= '9');
    if (isWordPart && !inWord) ++words;
    inWord = isWordPart;
    i += length;
  }
  return words;
}

Value urlEncode(Interpreter& in, const Value& value, const Arguments&) {
  const Text text = textOf(in, value);
  return text.mapped([](std::string_view run) {
    std::string out;
    for (const char c : run) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') ||
                         std::string_view("_.-~/").find(c) != std::string_view::npos;
      if (plain) {
        out += c;
      } else {
        const auto byte = static_cast<unsigned char>(c);
        out += '%';
        out += "0123456789ABCDEF"[byte >> 4U];
        out += "0123456789ABCDEF"[byte & 15U];
      }
    }
    return out;
  });
}

Value format(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Text text = textOf(in, value);
  if (!arguments.named.empty()) {
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [name, item] : arguments.named) {
      entries.emplace_back(Value(std::string_view(name)), item);
    }
    return formatPercent(in, text, Value::dict(std::move(entries)));
  }
  return formatPercent(in, text, Value::sequence(arguments.positional, SequenceKind::kTuple));
}

Value tojson(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "tojson",
                         {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonOptions options;
  options.ensureAscii = given.isTrue(0, false);
  options.sortKeys = given.isTrue(3, false);
  if (given.has(1) && !given[1]->isNone()) {
    options.indent = static_cast<int>(std::clamp<std::int64_t>(given.integer(1, 0), 0, 64));
    options.itemSeparator = ",";
  }
  if (given.has(2) && !given[2]->isNone()) {
    const std::vector<Value> separators = in.iterate(*given[2]);
    if (separators.size() != 2) throw TemplateError("tojson: separators takes two texts");
    options.itemSeparator = separators[0].str().bytes();
    options.keySeparator = separators[1].str().bytes();
  }
  return toJson(in, value, options);
}

// ---------------------------------------------------------------- numbers

bool parseWhole(std::string_view text, int base, std::int64_t& out) {
  const Trimmed range = trimmed(text, true, true, nullptr);
  std::string digits(text.substr(range.begin, range.end - range.begin));
  bool negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    if ((base == 16 && letter == 'x') || (base == 8 && letter == 'o') ||
        (base == 2 && letter == 'b')) {
      digits.erase(0, 2);
    }
  }
  // Python lets one underscore stand between two digits.
  for (std::size_t i = 1; i + 1 < digits.size(); ++i) {
    if (digits[i] == '_' && digits[i - 1] != '_' && digits[i + 1] != '_') digits.erase(i, 1);
  }
  if (digits.empty() || digits[0] == '-') return false;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), out, base);
  if (negative) out = -out;
  return result.ec == std::errc() && result.ptr == digits.data() + digits.size();
}

bool parseFloat(std::string_view text, double& out) {
  const Trimmed range = trimmed(text, true, true, nullptr);
  std::string_view digits = text.substr(range.begin, range.end - range.begin);
  if (!digits.empty() && digits[0] == '+') digits.remove_prefix(1);
  if (digits.empty() || digits[0] == '+') return false;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return result.ec == std::errc() && result.ptr == digits.data() + digits.size();
}

bool fitsWhole(double value) {
  return std::fabs(value) < 9.2e18;
}

Value toInt(Interpreter&, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "int", {"default", "base"});
  requireDefined(value);
  const Value otherwise = given.has(0) ? *given[0] : Value(0);
  std::int64_t whole = 0;
  if (value.integer(whole)) return whole;
  double number = 0;
  if (value.as<double>() != nullptr) {
    number = *value.as<double>();
    return fitsWhole(number) ? Value(static_cast<std::int64_t>(number)) : otherwise;
  }
  const Text* text = value.text();
  if (text == nullptr) return otherwise;
  const std::int64_t base = given.integer(1, 10);
  if (base < 2 || base > 36) return otherwise;
  if (parseWhole(text->bytes(), static_cast<int>(base), whole)) return whole;
  if (parseFloat(text->bytes(), number) && fitsWhole(number)) {
    return static_cast<std::int64_t>(number);
  }
  return otherwise;
}

Value toFloat(Interpreter&, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "float", {"default"});
  requireDefined(value);
  double number = 0;
  if (value.number(number)) return number;
  if (value.text() != nullptr && parseFloat(value.text()->bytes(), number)) return number;
  return given.has(0) ? *given[0] : Value(0.0);
}

Value absolute(Interpreter& in, const Value& value, const Arguments&) {
  if (const auto* number = value.as<double>()) return std::fabs(*number);
  std::int64_t whole = 0;
  if (!value.integer(whole)) throw TemplateError("abs takes a number, not a " + value.typeName());
  return whole < 0 ? in.binary("-", Value(0), value) : Value(whole);
}

Value roundFilter(Interpreter&, const Value& value, const Arguments& arguments) {
  const Parameters given(arguments, "round", {"precision", "method"});
  const std::int64_t precision = std::clamp<std::int64_t>(given.integer(0, 0), -300, 300);
  const std::string method = given.text(1, "common").bytes();
  double number = 0;
  if (!value.number(number)) throw TemplateError("round takes a number, not a " + value.typeName());
  if (method == "ceil" || method == "floor") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = number * scale;
    return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
  }
  if (method != "common") throw TemplateError("round: method must be common, ceil or floor");
  if (!std::isfinite(number)) return number;
  if (value.as<double>() == nullptr && precision >= 0) return value;  // whole numbers stay so
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    const double rounded = std::nearbyint(number / scale) * scale;
    if (value.as<double>() == nullptr) return static_cast<std::int64_t>(rounded);
    return rounded;
  }
  // The decimal digits of the exact value decide, as in Python.
  std::array<char, 800> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                 std::chars_format::fixed, static_cast<int>(precision))
                       .ptr;
  std::from_chars(buffer.data(), end, number);
  return number;
}

}  // namespace

FilterFunction findTextFilter(std::string_view name) {
  struct Entry {
    std::string_view name;
    FilterFunction function;
  };
  constexpr std::array<Entry, 25> kFilters = {{
      {"upper", upper},
      {"lower", lower},
      {"capitalize", capitalizeFilter},
      {"title", title},
      {"trim", trim},
      {"replace", replace},
      {"string", toText},
      {"safe", toText},
      {"escape", escape},
      {"e", escape},
      {"forceescape", escape},
      {"indent", indent},
      {"center", center},
      {"truncate", truncate},
      {"wordcount", wordCount},
      {"urlencode", urlEncode},
      {"format", format},
      {"tojson", tojson},
      {"int", toInt},
      {"float", toFloat},
      {"abs", absolute},
      {"round", roundFilter},
  }};
  for (const Entry& entry : kFilters) {
    if (entry.name == name && !name.empty()) return entry.function;
  }
  return nullptr;
}

}  // namespace vitrine::engine::jinja

// Python's two ways to format text: `'%s' % x` and `'{}'.format(x)`.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "engine/template/interpreter.h"
#include "engine/template/library.h"
#include "engine/template/unicode.h"

namespace vitrine::engine::jinja {
namespace {

// Widths beyond this are no formatting.
constexpr int kMaxWidth = 10000;

struct Specification {
  std::string fill = " ";
  char align = 0;  // < > ^ =
  char sign = '-';
  bool alternate = false, comma = false;
  int width = 0;
  int precision = -1;
  char type = 0;
};

int readNumber(std::string_view text, std::size_t& at) {
  int value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = value * 10 + (text[at++] - '0');
    if (value > kMaxWidth) throw TemplateError("a width in a format is too large");
  }
  return value;
}

std::string withCommas(std::string digits) {
  const std::size_t end = std::min(digits.find_first_of(".e"), digits.size());
  for (std::size_t i = end; i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string wholeDigits(std::uint64_t value, char type) {
  std::array<char, 72> buffer{};
  const int base = type == 'x' || type == 'X' ? 16 : (type == 'o' ? 8 : (type == 'b' ? 2 : 10));
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, base).ptr;
  std::string digits(buffer.data(), end);
  return type == 'X' ? toUpper(digits) : digits;
}

std::string floatDigits(double value, char type, int precision) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : "inf";
  std::array<char, 16> pattern{};
  std::snprintf(pattern.data(), pattern.size(), "%%.*%c", type == '%' ? 'f' : type);
  const int digits = std::min(precision < 0 ? 6 : precision, 300);
  std::string out(700, '\0');
  const int size = std::snprintf(out.data(), out.size(), pattern.data(), digits, value);
  out.resize(static_cast<std::size_t>(size));
  return out;
}

Text aligned(Interpreter& in, const Text& text, const Specification& spec, char align) {
  const double share = align == '>' ? 1 : (align == '^' ? 0.5 : 0);
  if (align != '^') return padText(in, text, spec.width, spec.fill, share);
  const auto length = static_cast<int>(countCharacters(text.bytes()));
  const int left = std::max(spec.width - length, 0) / 2;  // format() rounds down
  return padText(in, padText(in, text, length + left, spec.fill, 1), spec.width, spec.fill, 0);
}

Text numberText(Interpreter& in, const Value& value, const Specification& spec) {
  std::int64_t whole = 0;
  double number = 0;
  const bool isWhole = value.as<double>() == nullptr && value.integer(whole);
  value.number(number);
  const bool asWhole = isWhole && (spec.type == 0 || spec.type == 'n' ||
                                   std::string_view("dxXob").find(spec.type) != std::string::npos);
  bool negative = isWhole ? whole < 0 : std::signbit(number) && !std::isnan(number);
  std::string digits;
  std::string prefix;
  if (asWhole) {
    const auto size =
        negative ? ~static_cast<std::uint64_t>(whole) + 1 : static_cast<std::uint64_t>(whole);
    digits = wholeDigits(size, spec.type);
    if (spec.alternate && spec.type != 'd' && spec.type != 0) prefix = std::string("0") + spec.type;
  } else if (spec.type == 0 && spec.precision < 0) {
    digits = printFloat(std::fabs(number));
  } else if (spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) == std::string::npos) {
    throw TemplateError(std::string("the format '") + spec.type + "' does not fit a " +
                        value.typeName());
  } else {
    const char type = spec.type == 0 ? 'g' : spec.type;
    digits = floatDigits(std::fabs(number) * (type == '%' ? 100 : 1), type, spec.precision);
    if (type == '%') digits += '%';
  }
  if (spec.comma) digits = withCommas(std::move(digits));
  std::string sign = negative ? "-" : (spec.sign == '-' ? "" : std::string(1, spec.sign));
  sign += prefix;
  if (spec.align == '=') {
    Specification inner = spec;
    inner.width = spec.width - static_cast<int>(sign.size());
    Text out(sign);
    out.append(aligned(in, Text(digits), inner, '>'));
    return out;
  }
  return aligned(in, Text(sign + digits), spec, spec.align != 0 ? spec.align : '>');
}

Specification readSpecification(std::string_view text) {
  Specification spec;
  std::size_t at = 0;
  const auto isAlign = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (!text.empty()) {
    const std::size_t first = characterLength(text, 0);
    if (first < text.size() && isAlign(text[first])) {
      spec.fill = std::string(text.substr(0, first));
      spec.align = text[first];
      at = first + 1;
    } else if (isAlign(text[0])) {
      spec.align = text[at++];
    }
  }
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[at++];
  if (peek() == '#') {
    spec.alternate = true;
    ++at;
  }
  if (peek() == '0') {
    if (spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    ++at;
  }
  spec.width = readNumber(text, at);
  if (peek() == ',') {
    spec.comma = true;
    ++at;
  }
  if (peek() == '.') {
    ++at;
    spec.precision = readNumber(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) throw TemplateError("the format '" + std::string(text) + "' is not valid");
  return spec;
}

}  // namespace

Text formatOne(Interpreter& in, const Value& value, std::string_view specification) {
  requireDefined(value);
  if (specification.empty()) return value.str();
  const Specification spec = readSpecification(specification);
  double number = 0;
  if (value.text() == nullptr && value.number(number) &&
      (value.as<bool>() == nullptr || spec.type != 0)) {
    return numberText(in, value, spec);
  }
  if (value.text() == nullptr && value.as<bool>() == nullptr) {
    throw TemplateError("a " + value.typeName() + " takes no format");
  }
  if (spec.type != 0 && spec.type != 's') {
    throw TemplateError(std::string("the format '") + spec.type + "' does not fit a " +
                        value.typeName());
  }
  Text text = value.str();
  if (spec.precision >= 0) text = text.slice(0, byteOffset(text.bytes(), spec.precision));
  return aligned(in, text, spec, spec.align != 0 ? spec.align : '<');
}

Text formatPercent(Interpreter& in, const Text& format, const Value& value) {
  const std::string& bytes = format.bytes();
  std::vector<Value> items;
  const Sequence* tuple = value.sequence();
  const bool isTuple = tuple != nullptr && tuple->kind == SequenceKind::kTuple;
  if (isTuple) {
    items = tuple->items;
  } else {
    items = {value};
  }
  std::size_t used = 0;
  bool usesNames = false;
  Text out;
  std::size_t begin = 0;
  while (begin < bytes.size()) {
    const std::size_t percent = std::min(bytes.find('%', begin), bytes.size());
    out.append(format.slice(begin, percent));
    if (percent == bytes.size()) break;
    std::size_t at = percent + 1;
    Value item;
    bool hasItem = false;
    if (at < bytes.size() && bytes[at] == '(') {
      const std::size_t close = bytes.find(')', at);
      if (close == std::string::npos || value.dict() == nullptr) {
        throw TemplateError("a format with names takes a dict");
      }
      const Value* found =
          value.dict()->find(std::string_view(bytes).substr(at + 1, close - at - 1));
      if (found == nullptr) throw TemplateError("a name of the format is not in the dict");
      item = *found;
      hasItem = usesNames = true;
      at = close + 1;
    }
    Specification spec;
    bool left = false;
    bool zero = false;
    for (; at < bytes.size() && std::string_view("-+ #0").find(bytes[at]) != std::string::npos;
         ++at) {
      left |= bytes[at] == '-';
      zero |= bytes[at] == '0';
      spec.alternate |= bytes[at] == '#';
      if (bytes[at] == '+' || (bytes[at] == ' ' && spec.sign != '+')) spec.sign = bytes[at];
    }
    spec.width = readNumber(bytes, at);
    if (at < bytes.size() && bytes[at] == '.') {
      ++at;
      spec.precision = readNumber(bytes, at);
    }
    if (at >= bytes.size()) throw TemplateError("a format ends after its '%'");
    spec.type = bytes[at++];
    begin = at;
    if (spec.type == '%') {
      out.append("%");
      continue;
    }
    if (!hasItem) {
      if (used >= items.size()) throw TemplateError("not enough values for the format");
      item = items[used++];
    }
    if (spec.type == 's' || spec.type == 'r') {
      Text text = spec.type == 's' ? item.str() : item.repr();
      in.chargeBytes(text.size() + 16);
      if (spec.precision >= 0) text = text.slice(0, byteOffset(text.bytes(), spec.precision));
      out.append(aligned(in, text, spec, left ? '<' : '>'));
      continue;
    }
    if (spec.type == 'c') {
      std::int64_t code = 0;
      if (item.text() == nullptr && item.integer(code) && code >= 0 && code <= 0x10FFFF) {
        std::string character;
        appendUtf8(character, static_cast<char32_t>(code));
        item = Text(std::move(character));
      }
      if (item.text() == nullptr || countCharacters(item.text()->bytes()) != 1) {
        throw TemplateError("the format '%c' takes one character");
      }
      out.append(aligned(in, *item.text(), spec, left ? '<' : '>'));
      continue;
    }
    if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
    double number = 0;
    const bool isFloatType = std::string_view("eEfFgG").find(spec.type) != std::string::npos;
    const bool isWholeType = std::string_view("dxXo").find(spec.type) != std::string::npos;
    if ((!isFloatType && !isWholeType) || item.text() != nullptr || !item.number(number)) {
      throw TemplateError(std::string("the format '%") + spec.type + "' does not fit a " +
                          item.typeName());
    }
    if (isWholeType && item.as<double>() != nullptr) {
      if (std::fabs(number) > 9e18) throw TemplateError("a number became too large");
      item = static_cast<std::int64_t>(number);
    }
    spec.align = left ? '<' : (zero ? '=' : '>');
    if (zero && !left) spec.fill = "0";
    out.append(numberText(in, item, spec));
  }
  if (!usesNames && used < items.size() && (isTuple || value.dict() == nullptr)) {
    throw TemplateError("not all values were used by the format");
  }
  return out;
}

Text formatBraces(Interpreter& in, const Text& format, const Arguments& arguments) {
  const std::string& bytes = format.bytes();
  Text out;
  std::size_t automatic = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
    out.append(format.slice(at, brace));
    if (brace == bytes.size()) break;
    if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
      out.append(format.slice(brace, brace + 1));
      at = brace + 2;
      continue;
    }
    const std::size_t end = bytes.find('}', brace);
    if (bytes[brace] == '}' || end == std::string::npos) {
      throw TemplateError("a single brace in a format");
    }
    const std::string field = bytes.substr(brace + 1, end - brace - 1);
    at = end + 1;
    const std::size_t colon = std::min(field.find(':'), field.size());
    std::string name = field.substr(0, colon);
    const std::string spec = colon < field.size() ? field.substr(colon + 1) : std::string();
    char conversion = 0;
    if (const std::size_t mark = name.find('!'); mark != std::string::npos) {
      conversion = mark + 1 < name.size() ? name[mark + 1] : 0;
      name.resize(mark);
    }
    const std::size_t path = std::min(name.find_first_of(".["), name.size());
    const std::string head = name.substr(0, path);
    Value value;
    const bool isNumber = !head.empty() && head.size() < 6 &&
                          head.find_first_not_of("0123456789") == std::string::npos;
    if (head.empty() || isNumber) {
      const std::size_t index = head.empty() ? automatic++ : std::stoul(head);
      if (index >= arguments.positional.size()) {
        throw TemplateError("not enough values for the format");
      }
      value = arguments.positional[index];
    } else {
      bool found = false;
      for (const auto& [key, named] : arguments.named) {
        if (key == head) {
          value = named;
          found = true;
        }
      }
      if (!found) throw TemplateError("the format names '" + head + "', which is not given");
    }
    for (std::size_t i = path; i < name.size();) {
      const bool isItem = name[i] == '[';
      const std::size_t stop =
          std::min(name.find_first_of(isItem ? "]" : ".[", i + 1), name.size());
      const std::string part = name.substr(i + 1, stop - i - 1);
      const bool isIndex = isItem && !part.empty() && part.size() < 10 &&
                           part.find_first_not_of("0123456789") == std::string::npos;
      if (isIndex) {
        value = in.item(value, Value(static_cast<std::int64_t>(std::stoll(part))));
      } else {
        value = isItem ? in.item(value, Value(std::string_view(part))) : in.attribute(value, part);
      }
      i = isItem ? std::min(stop + 1, name.size()) : stop;
    }
    if (conversion == 'r') value = value.repr();
    if (conversion == 's') value = value.str();
    const Text text = formatOne(in, value, spec);
    in.chargeBytes(text.size() + 16);
    out.append(text);
  }
  return out;
}

}  // namespace vitrine::engine::jinja

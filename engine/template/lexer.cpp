#include "engine/template/lexer.h"

#include <algorithm>
#include <array>

#include "engine/template/unicode.h"

namespace vitrine::engine::jinja {
namespace {

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
bool isNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool isNamePart(char c) {
  return isNameStart(c) || isDigit(c);
}
bool isAsciiSpace(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// One newline form, and without the last one (keep_trailing_newline is off).
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : m_source(normalized(source)) {}

  std::vector<Token> run() {
    while (m_at < m_source.size()) {
      const std::size_t tag = findTag();
      if (tag == std::string::npos) {
        addText(m_source.substr(m_at), m_at);
        m_at = m_source.size();
        break;
      }
      readTag(tag);
    }
    m_tokens.push_back({TokenKind::kEnd, "", positionOf(m_source.size())});
    return std::move(m_tokens);
  }

 private:
  // Positions are asked for in rising order, so counting goes on from the last one.
  Position positionOf(std::size_t offset) {
    if (offset < m_counted) {
      m_counted = 0;
      m_position = {};
    }
    for (; m_counted < offset; ++m_counted) {
      if (m_source[m_counted] == '\n') {
        ++m_position.line;
        m_position.column = 1;
      } else if ((static_cast<unsigned char>(m_source[m_counted]) & 0xC0U) != 0x80U) {
        ++m_position.column;
      }
    }
    return m_position;
  }

  [[noreturn]] void failAt(std::size_t offset, const std::string& message) {
    throw TemplateError(message, positionOf(offset));
  }

  std::size_t findTag() const {
    for (std::size_t i = m_source.find('{', m_at); i != std::string::npos;
         i = m_source.find('{', i + 1)) {
      if (i + 1 < m_source.size() &&
          (m_source[i + 1] == '{' || m_source[i + 1] == '%' || m_source[i + 1] == '#')) {
        return i;
      }
    }
    return std::string::npos;
  }

  void addText(std::string text, std::size_t offset) {
    if (text.empty()) return;
    m_tokens.push_back({TokenKind::kText, std::move(text), positionOf(offset)});
  }

  // The text before a tag, cut by the tag's sign or, at the start of a line, by lstrip_blocks.
  std::string textBefore(std::size_t begin, std::size_t end, char sign, bool isPrint) const {
    std::string text = m_source.substr(begin, end - begin);
    if (sign == '-') {
      text.resize(trimmed(text, false, true, nullptr).end);
    } else if (sign != '+' && !isPrint) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line = newline == std::string::npos ? 0 : newline + 1;
      const bool startsLine = line > 0 || begin == 0 || m_source[begin - 1] == '\n';
      const std::string_view rest = std::string_view(text).substr(line);
      if (startsLine && trimmed(rest, true, false, nullptr).begin == rest.size()) text.resize(line);
    }
    return text;
  }

  char signAt(std::size_t offset) const {
    const char c = offset < m_source.size() ? m_source[offset] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  void skipSpace() {
    const std::string_view rest = std::string_view(m_source).substr(m_at);
    m_at += trimmed(rest, true, false, nullptr).begin;
  }

  // After the end of a tag: `-` takes all white space, else trim_blocks takes one newline.
  void afterTag(char sign, bool trimsNewline) {
    if (sign == '-') {
      skipSpace();
    } else if (sign != '+' && trimsNewline && m_at < m_source.size() && m_source[m_at] == '\n') {
      ++m_at;
    }
  }

  void readTag(std::size_t tag) {
    const char type = m_source[tag + 1];
    // `{{+` is no sign but a plus; `{{-` is a sign.
    char sign = signAt(tag + 2);
    if (type == '{' && sign == '+') sign = '\0';
    addText(textBefore(m_at, tag, sign, type == '{'), m_at);
    m_at = tag + 2 + (sign != '\0' ? 1 : 0);
    if (type == '#') {
      readComment(tag);
    } else if (type == '%' && readRaw()) {
      return;
    } else {
      const bool isPrint = type == '{';
      m_tokens.push_back(
          {isPrint ? TokenKind::kPrintBegin : TokenKind::kTagBegin, "", positionOf(tag)});
      readInside(tag, isPrint);
    }
  }

  void readComment(std::size_t tag) {
    const std::size_t end = m_source.find("#}", m_at);
    if (end == std::string::npos) failAt(tag, "this comment has no end: '#}' is missing");
    const char sign = end > m_at ? signAt(end - 1) : '\0';
    m_at = end + 2;
    afterTag(sign, true);
  }

  // If the tag word at `offset` is `word` and nothing else, the offset after the tag and its sign.
  bool matchTag(std::size_t offset, std::string_view word, std::size_t& end, char& sign) const {
    while (offset < m_source.size() && isAsciiSpace(m_source[offset])) ++offset;
    if (m_source.compare(offset, word.size(), word) != 0) return false;
    offset += word.size();
    while (offset < m_source.size() && isAsciiSpace(m_source[offset])) ++offset;
    sign = signAt(offset);
    if (sign != '\0') ++offset;
    if (m_source.compare(offset, 2, "%}") != 0) return false;
    end = offset + 2;
    return true;
  }

  bool readRaw() {
    std::size_t begin = 0;
    char sign = '\0';
    if (!matchTag(m_at, "raw", begin, sign) || sign == '+') return false;
    const std::size_t tag = m_at;
    m_at = begin;
    afterTag(sign, false);
    for (std::size_t open = m_source.find("{%", m_at); open != std::string::npos;
         open = m_source.find("{%", open + 2)) {
      const char before = signAt(open + 2);
      std::size_t end = 0;
      if (!matchTag(open + 2 + (before != '\0' ? 1 : 0), "endraw", end, sign)) continue;
      addText(textBefore(m_at, open, before, false), m_at);
      m_at = end;
      afterTag(sign, true);
      return true;
    }
    failAt(tag, "this raw block has no end: 'endraw' is missing");
  }

  bool readEnd(std::size_t tag, bool isPrint) {
    const std::string_view close = isPrint ? "}}" : "%}";
    char sign = '\0';
    std::size_t end = m_at;
    // `+%}` is a sign; `+}}` is not.
    if (m_source[m_at] == '-' || (m_source[m_at] == '+' && !isPrint)) {
      sign = m_source[m_at];
      ++end;
    }
    if (m_source.compare(end, 2, close) != 0) return false;
    m_tokens.push_back({isPrint ? TokenKind::kPrintEnd : TokenKind::kTagEnd, "", positionOf(m_at)});
    m_at = end + 2;
    afterTag(sign, !isPrint);
    (void)tag;
    return true;
  }

  void readInside(std::size_t tag, bool isPrint) {
    std::string open;  // brackets that wait for their end; inside them `}}` is no end
    while (m_at < m_source.size()) {
      const char c = m_source[m_at];
      if (open.empty() && readEnd(tag, isPrint)) return;
      if (isAsciiSpace(c)) {
        ++m_at;
      } else if (isDigit(c)) {
        readNumber();
      } else if (isNameStart(c)) {
        const std::size_t begin = m_at;
        while (m_at < m_source.size() && isNamePart(m_source[m_at])) ++m_at;
        m_tokens.push_back(
            {TokenKind::kName, m_source.substr(begin, m_at - begin), positionOf(begin)});
      } else if (c == '\'' || c == '"') {
        readString();
      } else {
        readOperator(open);
      }
    }
    failAt(tag, isPrint ? "this '{{' has no end: '}}' is missing"
                        : "this '{%' has no end: '%}' is missing");
  }

  void takeDigits() {
    while (m_at < m_source.size() &&
           (isDigit(m_source[m_at]) ||
            (m_source[m_at] == '_' && m_at + 1 < m_source.size() && isDigit(m_source[m_at + 1])))) {
      ++m_at;
    }
  }

  void readNumber() {
    const std::size_t begin = m_at;
    const auto at = [&](std::size_t i) { return i < m_source.size() ? m_source[i] : '\0'; };
    bool isFloat = false;
    if (m_source[begin] == '0' && at(begin + 1) != '\0' &&
        std::string_view("xXoObB").find(at(begin + 1)) != std::string_view::npos) {
      m_at += 2;
      while (m_at < m_source.size() && isNamePart(m_source[m_at])) ++m_at;
    } else {
      takeDigits();
      // `a.0.b` is an attribute, not a fraction.
      const bool afterDot = begin > 0 && m_source[begin - 1] == '.';
      if (!afterDot && at(m_at) == '.' && isDigit(at(m_at + 1))) {
        isFloat = true;
        ++m_at;
        takeDigits();
      }
      const bool sign = at(m_at + 1) == '+' || at(m_at + 1) == '-';
      if (!afterDot && (at(m_at) == 'e' || at(m_at) == 'E') && isDigit(at(m_at + (sign ? 2 : 1)))) {
        isFloat = true;
        m_at += sign ? 2 : 1;
        takeDigits();
      }
    }
    std::string text = m_source.substr(begin, m_at - begin);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    m_tokens.push_back(
        {isFloat ? TokenKind::kFloat : TokenKind::kInteger, std::move(text), positionOf(begin)});
  }

  char32_t readHex(std::size_t begin, int digits, std::size_t whole) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = begin + i < m_source.size() ? m_source[begin + i] : '\0';
      const std::size_t digit = std::string_view("0123456789abcdef").find(c | 0x20);
      if (digit == std::string_view::npos) failAt(whole, "this escape needs more hex digits");
      value = value << 4 | static_cast<char32_t>(isDigit(c) ? c - '0' : digit);
    }
    if (value > 0x10FFFF) failAt(whole, "this escape is no character");
    return value;
  }

  void readString() {
    const std::size_t begin = m_at;
    const char quote = m_source[m_at++];
    std::string text;
    while (m_at < m_source.size() && m_source[m_at] != quote) {
      if (m_source[m_at] != '\\' || m_at + 1 >= m_source.size()) {
        text += m_source[m_at++];
        continue;
      }
      readEscape(text);
    }
    if (m_at >= m_source.size()) failAt(begin, "this string has no end");
    ++m_at;
    m_tokens.push_back({TokenKind::kString, std::move(text), positionOf(begin)});
  }

  // Python's escapes; an unknown one stays as it is.
  void readEscape(std::string& text) {
    const std::size_t whole = m_at;
    const char c = m_source[m_at + 1];
    m_at += 2;
    constexpr std::string_view kFrom = "\\'\"abfnrtv";
    constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    if (const auto simple = kFrom.find(c); simple != std::string_view::npos) {
      text += kTo[simple];
    } else if (c == '\n') {
      // a line that goes on
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const int digits = c == 'x' ? 2 : (c == 'u' ? 4 : 8);
      appendUtf8(text, readHex(m_at, digits, whole));
      m_at += digits;
    } else if (c >= '0' && c <= '7') {
      char32_t value = c - '0';
      for (int i = 0; i < 2 && m_at < m_source.size(); ++i) {
        if (m_source[m_at] < '0' || m_source[m_at] > '7') break;
        value = value * 8 + (m_source[m_at++] - '0');
      }
      appendUtf8(text, value);
    } else {
      text += '\\';
      text += c;
    }
  }

  void readOperator(std::string& open) {
    constexpr std::array<std::string_view, 6> kLong = {"//", "**", "==", "!=", ">=", "<="};
    const std::size_t begin = m_at;
    for (const std::string_view name : kLong) {
      if (m_source.compare(m_at, 2, name) == 0) {
        m_tokens.push_back({TokenKind::kOperator, std::string(name), positionOf(begin)});
        m_at += 2;
        return;
      }
    }
    const char c = m_source[m_at];
    if (std::string_view("+-*/%~[](){}<>=.:|,;").find(c) == std::string_view::npos) {
      failAt(begin, std::string("unexpected character '") + c + "'");
    }
    if (c == '(' || c == '[' || c == '{') open += c;
    if (c == ')' || c == ']' || c == '}') {
      const char wanted = c == ')' ? '(' : (c == ']' ? '[' : '{');
      if (open.empty() || open.back() != wanted) {
        failAt(begin, std::string("'") + c + "' without its beginning");
      }
      open.pop_back();
    }
    ++m_at;
    m_tokens.push_back({TokenKind::kOperator, std::string(1, c), positionOf(begin)});
  }

  std::string m_source;
  std::size_t m_at = 0;
  std::vector<Token> m_tokens;
  std::size_t m_counted = 0;
  Position m_position;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace vitrine::engine::jinja

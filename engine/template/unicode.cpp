#include "engine/template/unicode.h"

#include <clocale>
#include <cwctype>

#include <locale.h>  // newlocale: POSIX

namespace vitrine::engine::jinja {
namespace {

// Character classes of the C library, for Unicode whatever the user's locale is.
locale_t unicodeLocale() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

template <typename Function>
bool classify(char32_t character, Function function) {
  const locale_t locale = unicodeLocale();
  if (locale == nullptr) return character < 128 && function(character, LC_GLOBAL_LOCALE);
  return function(character, locale);
}

template <typename Map>
std::string mapCharacters(std::string_view text, Map map) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = characterLength(text, i);
    if (length == 1 && static_cast<unsigned char>(text[i]) >= 0x80) {
      result += text[i];  // not a character
    } else {
      map(result, decodeAt(text, i, length));
    }
    i += length;
  }
  return result;
}

void appendUpper(std::string& out, char32_t c) {
  if (c == 0xDF) {
    out += "SS";  // sharp s has no single capital
  } else if (c < 128 || unicodeLocale() == nullptr) {
    appendUtf8(out, c >= 'a' && c <= 'z' ? c - 32 : c);
  } else {
    appendUtf8(out, static_cast<char32_t>(towupper_l(static_cast<wint_t>(c), unicodeLocale())));
  }
}

void appendLower(std::string& out, char32_t c) {
  if (c < 128 || unicodeLocale() == nullptr) {
    appendUtf8(out, c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else {
    appendUtf8(out, static_cast<char32_t>(towlower_l(static_cast<wint_t>(c), unicodeLocale())));
  }
}

}  // namespace

std::size_t characterLength(std::string_view text, std::size_t position) {
  const auto lead = static_cast<unsigned char>(text[position]);
  std::size_t length = 1;
  if (lead >= 0xF0 && lead < 0xF8) {
    length = 4;
  } else if (lead >= 0xE0) {
    length = 3;
  } else if (lead >= 0xC0) {
    length = 2;
  }
  if (lead < 0x80 || lead >= 0xF8 || position + length > text.size()) return 1;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[position + i]) & 0xC0U) != 0x80U) return 1;
  }
  return length;
}

std::size_t countCharacters(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); i += characterLength(text, i)) ++count;
  return count;
}

std::size_t byteOffset(std::string_view text, std::size_t index) {
  std::size_t i = 0;
  while (index > 0 && i < text.size()) {
    i += characterLength(text, i);
    --index;
  }
  return i;
}

char32_t decodeAt(std::string_view text, std::size_t position, std::size_t length) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[position + i]));
  };
  switch (length) {
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    case 4:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 |
             (byte(3) & 0x3F);
    default:
      return byte(0);
  }
}

void appendUtf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

bool isSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool isPrintable(char32_t c) {
  if (c == ' ') return true;
  if (isSpace(c) || c == 0xAD || (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) ||
      (c >= 0x2060 && c <= 0x206F) || (c >= 0xE000 && c <= 0xF8FF) || c == 0xFEFF) {
    return false;
  }
  if (c >= 128 && unicodeLocale() == nullptr) return true;
  return classify(c, [](char32_t x, locale_t l) { return iswprint_l(x, l) != 0; });
}

bool isLetter(char32_t c) {
  return classify(c, [](char32_t x, locale_t l) { return iswalpha_l(x, l) != 0; });
}
bool isUpper(char32_t c) {
  return classify(c, [](char32_t x, locale_t l) { return iswupper_l(x, l) != 0; });
}
bool isLower(char32_t c) {
  return classify(c, [](char32_t x, locale_t l) { return iswlower_l(x, l) != 0; });
}

std::string toUpper(std::string_view text) {
  return mapCharacters(text, appendUpper);
}
std::string toLower(std::string_view text) {
  return mapCharacters(text, appendLower);
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t first = characterLength(text, 0);
  return toUpper(text.substr(0, first)) + toLower(text.substr(first));
}

Trimmed trimmed(std::string_view text, bool left, bool right, const std::string_view* characters) {
  const auto goes = [&](std::size_t position, std::size_t length) {
    if (characters == nullptr) return isSpace(decodeAt(text, position, length));
    const std::string_view character = text.substr(position, length);
    for (std::size_t i = 0; i < characters->size();) {
      const std::size_t size = characterLength(*characters, i);
      if (characters->substr(i, size) == character) return true;
      i += size;
    }
    return false;
  };
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (left && begin < end) {
    const std::size_t length = characterLength(text, begin);
    if (!goes(begin, length)) break;
    begin += length;
  }
  while (right && end > begin) {
    std::size_t start = end - 1;  // back to the lead byte of the last character
    while (start > begin && end - start < 4 &&
           (static_cast<unsigned char>(text[start]) & 0xC0U) == 0x80U) {
      --start;
    }
    if (start + characterLength(text, start) != end) start = end - 1;
    if (!goes(start, end - start)) break;
    end = start;
  }
  return {begin, end};
}

}  // namespace vitrine::engine::jinja

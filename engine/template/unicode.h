#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace vitrine::engine::jinja {

// Python's str works on code points; these helpers do the same on UTF-8. A byte that belongs to no
// valid character counts as one character.

/// Bytes of the character at `position` (at least 1 while position < text.size()).
std::size_t characterLength(std::string_view text, std::size_t position);
std::size_t countCharacters(std::string_view text);
/// Byte position of character `index`, or text.size() if there are fewer.
std::size_t byteOffset(std::string_view text, std::size_t index);
char32_t decodeAt(std::string_view text, std::size_t position, std::size_t length);
void appendUtf8(std::string& out, char32_t character);

bool isSpace(char32_t character);  ///< as str.isspace()
bool isPrintable(char32_t character);
bool isLetter(char32_t character);
bool isUpper(char32_t character);
bool isLower(char32_t character);
std::string toUpper(std::string_view text);
std::string toLower(std::string_view text);
/// First character upper, others lower.
std::string capitalize(std::string_view text);

/// Byte range without white space at the chosen ends; or without the characters of `characters`.
struct Trimmed {
  std::size_t begin, end;
};
Trimmed trimmed(std::string_view text, bool left, bool right, const std::string_view* characters);

}  // namespace vitrine::engine::jinja

#pragma once

#include <cstddef>
#include <string_view>

namespace vitrine::engine {

/// What stands at the beginning of some bytes: a whole character, or a run that can never become
/// one (a maximal subpart, Unicode 15 §3.9, which is shown as one U+FFFD).
struct Utf8Step {
  std::size_t bytes = 0;  ///< length of the character or of the bad run, at least 1
  bool valid = false;
  bool incomplete = false;  ///< not valid, but would go on if there were more bytes
};

/// Requires: `text` is not empty.
inline Utf8Step utf8Step(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, true, false};
  std::size_t length = 0;
  unsigned low = 0x80, high = 0xBF;  // bounds of the second byte
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;   // no overlong forms
    if (first == 0xED) high = 0x9F;  // no surrogates
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;  // nothing above U+10FFFF
  } else {
    return {1, false, false};
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, false, true};
    if (byte(i) < low || byte(i) > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, false};
}

}  // namespace vitrine::engine

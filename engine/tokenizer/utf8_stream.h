#pragma once

#include <string>
#include <string_view>

namespace vitrine::engine {

/// Turns bytes that arrive in arbitrary cuts into whole UTF-8 characters. Incomplete characters
/// are held back until they are whole; each run of bytes that can never become one (a maximal
/// subpart, Unicode 15 §3.9) gives one U+FFFD, exactly as for the same bytes at once.
class Utf8Stream {
 public:
  /// The characters that became whole with these bytes.
  std::string append(std::string_view bytes);
  /// What is left at the very end: "" or one U+FFFD. The stream is then empty.
  std::string finish();
  bool holdsBack() const { return !m_pending.empty(); }

 private:
  std::string m_pending;  // at most 3 bytes, a valid beginning of a character
};

}  // namespace vitrine::engine

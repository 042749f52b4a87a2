#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/utf8_stream.h"

namespace vitrine::engine {

/// The text of an answer as it grows, token by token: whole characters only, and nothing that
/// belongs to a stop text, also where one is cut across tokens. What may be the beginning of a
/// stop text is held back until it is decided.
class AnswerText final {
 public:
  /// Empty stop texts are ignored.
  explicit AnswerText(std::vector<std::string> stops = {});

  /// Adds a token's bytes; returns what may be shown now.
  std::string append(std::string_view bytes);
  /// The answer is over: what was held back is shown after all. Nothing once stopped() holds.
  std::string finish();

  /// Whether a stop text has come. Nothing is shown from then on.
  bool stopped() const { return m_stopped; }
  /// Everything shown so far.
  const std::string& text() const { return m_text; }
  /// How many of the appended tokens have text that is shown, at least in part.
  int shownTokens() const;

 private:
  std::string take(std::string characters, bool last);

  std::vector<std::string> m_stops;
  Utf8Stream m_characters;
  std::string m_text;
  std::string m_held;                      // whole characters that may begin a stop text
  std::vector<std::size_t> m_tokenStarts;  // where in the text each token begins
  bool m_stopped = false;
};

}  // namespace vitrine::engine

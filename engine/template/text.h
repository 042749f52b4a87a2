#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/types.h"

namespace vitrine::engine::jinja {

/// A string value of a template that knows where each byte comes from: the template itself, or
/// the content of a message. Text made from content is content, however it was made, so no
/// person can write what counts as the template's (control tokens above all).
class Text {
 public:
  static constexpr int kTemplate = -1;
  static constexpr std::size_t kInexact = static_cast<std::size_t>(-1);

  /// A run of bytes of one origin.
  struct Span {
    std::size_t length = 0;
    int message = kTemplate;        ///< index of the message, or kTemplate
    std::size_t offset = kInexact;  ///< where in its content; kInexact: derived from it
  };

  Text() = default;
  explicit Text(std::string bytes) : m_bytes(std::move(bytes)) {}
  /// All of a message's content.
  static Text ofMessage(std::string content, int message);
  /// `bytes` computed from `source`: the template's only if all of the source is.
  static Text derived(std::string bytes, const Text& source);
  static Text derived(std::string bytes, int message);

  const std::string& bytes() const { return m_bytes; }
  std::size_t size() const { return m_bytes.size(); }
  bool empty() const { return m_bytes.empty(); }
  /// The message that some byte comes from, or kTemplate if none does.
  int firstMessage() const;

  void append(const Text& other);
  void append(std::string_view templateBytes);
  /// Bytes [begin, end), with their origin.
  Text slice(std::size_t begin, std::size_t end) const;
  /// The same text with each run of one origin mapped by `map(std::string_view) -> std::string`.
  template <typename Map>
  Text mapped(Map map) const;

  /// The runs; one run over all of an unmixed template text.
  std::vector<Span> spans() const;
  /// Pieces for the tokenizer. `contentSizes[i]` is the size of messages[i].content.
  PromptPieces pieces(const std::vector<std::size_t>& contentSizes) const;

 private:
  void appendSpan(Span span);

  std::string m_bytes;
  std::vector<Span> m_spans;  // empty: all of it is the template's
};

template <typename Map>
Text Text::mapped(Map map) const {
  Text result;
  std::size_t begin = 0;
  for (const Span& span : spans()) {
    const std::string_view run = std::string_view(m_bytes).substr(begin, span.length);
    std::string changed = map(run);
    if (changed == run) {
      result.append(slice(begin, begin + span.length));
    } else {
      result.append(derived(std::move(changed), span.message));
    }
    begin += span.length;
  }
  return result;
}

}  // namespace vitrine::engine::jinja

#include "engine/template/text.h"

#include <algorithm>

namespace vitrine::engine::jinja {

Text Text::ofMessage(std::string content, int message) {
  Text text;
  text.m_bytes = std::move(content);
  if (!text.m_bytes.empty()) text.m_spans.push_back({text.m_bytes.size(), message, 0});
  return text;
}

Text Text::derived(std::string bytes, const Text& source) {
  return derived(std::move(bytes), source.firstMessage());
}

Text Text::derived(std::string bytes, int message) {
  Text text(std::move(bytes));
  if (message != kTemplate && !text.empty()) {
    text.m_spans.push_back({text.m_bytes.size(), message, kInexact});
  }
  return text;
}

int Text::firstMessage() const {
  for (const Span& span : m_spans) {
    if (span.message != kTemplate) return span.message;
  }
  return kTemplate;
}

std::vector<Text::Span> Text::spans() const {
  if (m_spans.empty() && !m_bytes.empty()) return {{m_bytes.size(), kTemplate, kInexact}};
  return m_spans;
}

void Text::appendSpan(Span span) {
  if (span.length == 0) return;
  if (!m_spans.empty()) {
    Span& last = m_spans.back();
    const bool bothInexact = last.offset == kInexact && span.offset == kInexact;
    const bool continues = last.offset != kInexact && span.offset == last.offset + last.length;
    if (last.message == span.message && (bothInexact || continues)) {
      last.length += span.length;
      return;
    }
  }
  m_spans.push_back(span);
}

void Text::append(const Text& other) {
  if (other.m_spans.empty()) {
    append(std::string_view(other.m_bytes));
    return;
  }
  if (m_spans.empty() && !m_bytes.empty()) m_spans = spans();
  const std::size_t count = other.m_spans.size();  // `other` may be this text
  for (std::size_t i = 0; i < count; ++i) appendSpan(Span(other.m_spans[i]));
  m_bytes += other.m_bytes;
}

void Text::append(std::string_view templateBytes) {
  if (!m_spans.empty()) appendSpan({templateBytes.size(), kTemplate, kInexact});
  m_bytes.append(templateBytes);
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  end = std::min(end, m_bytes.size());
  begin = std::min(begin, end);
  Text result(m_bytes.substr(begin, end - begin));
  std::size_t start = 0;
  for (const Span& span : m_spans) {
    const std::size_t from = std::max(start, begin);
    const std::size_t to = std::min(start + span.length, end);
    if (from < to) {
      const std::size_t offset = span.offset == kInexact ? kInexact : span.offset + (from - start);
      result.appendSpan({to - from, span.message, offset});
    }
    start += span.length;
  }
  if (result.firstMessage() == kTemplate) result.m_spans.clear();
  return result;
}

PromptPieces Text::pieces(const std::vector<std::size_t>& contentSizes) const {
  PromptPieces result;
  std::size_t begin = 0;
  for (const Span& span : spans()) {
    PromptPiece piece{m_bytes.substr(begin, span.length), span.message, false};
    begin += span.length;
    if (span.message != kTemplate) {
      piece.wholeContent = span.offset == 0 && span.length == contentSizes[span.message];
    }
    const bool continues =
        !result.empty() && result.back().message == piece.message &&
        (piece.message == kTemplate || (!piece.wholeContent && !result.back().wholeContent));
    if (continues) {
      result.back().text += piece.text;
    } else {
      result.push_back(std::move(piece));
    }
  }
  return result;
}

}  // namespace vitrine::engine::jinja

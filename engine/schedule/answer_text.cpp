#include "engine/schedule/answer_text.h"

#include <algorithm>

namespace vitrine::engine {
namespace {

/// Length of the longest end of `text` that is a proper beginning of `stop`.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.substr(text.size() - length) == stop.substr(0, length)) return length;
  }
  return 0;
}

}  // namespace

AnswerText::AnswerText(std::vector<std::string> stops) : m_stops(std::move(stops)) {
  std::erase_if(m_stops, [](const std::string& stop) { return stop.empty(); });
}

std::string AnswerText::append(std::string_view bytes) {
  m_tokenStarts.push_back(m_text.size() + m_held.size());
  if (m_stopped) return {};
  return take(m_characters.append(bytes), false);
}

std::string AnswerText::finish() {
  if (m_stopped) return {};
  return take(m_characters.finish(), true);
}

std::string AnswerText::take(std::string characters, bool last) {
  if (m_stops.empty()) {
    m_text += characters;
    return characters;
  }
  m_held += characters;
  std::size_t first = std::string::npos;
  std::size_t keep = 0;
  for (const std::string& stop : m_stops) {
    first = std::min(first, m_held.find(stop));
    keep = std::max(keep, overlap(m_held, stop));
  }
  std::string shown;
  if (first != std::string::npos) {
    shown = m_held.substr(0, first);
    m_held.clear();
    m_stopped = true;
  } else {
    shown = m_held.substr(0, m_held.size() - (last ? 0 : keep));
    m_held.erase(0, shown.size());
  }
  m_text += shown;
  return shown;
}

int AnswerText::shownTokens() const {
  if (!m_stopped) return static_cast<int>(m_tokenStarts.size());
  const auto hidden = std::find_if(m_tokenStarts.begin(), m_tokenStarts.end(),
                                   [this](std::size_t start) { return start >= m_text.size(); });
  return static_cast<int>(hidden - m_tokenStarts.begin());
}

}  // namespace vitrine::engine

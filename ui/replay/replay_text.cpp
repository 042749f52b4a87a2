#include "ui/replay/replay_text.h"

#include <QTextCursor>

#include "ui/theme/theme.h"

namespace vitrine::ui {

ReplayText::ReplayText(QWidget* parent) : QTextEdit(parent) {
  setReadOnly(true);
  setAcceptRichText(false);
  setFrameShape(QFrame::NoFrame);
  setTabChangesFocus(true);
  setAccessibleName(tr("Answers, with the first difference marked"));
  setPlaceholderText(
      tr("The answers will stand here, the first token that the two ways would "
         "choose differently marked."));
  connect(&Theme::instance(), &Theme::changed, this, &ReplayText::mark, Qt::QueuedConnection);
}

void ReplayText::showResult(const app::studio::ReplayResult& result) {
  m_result = result;
  m_places.assign(result.pieces.size(), {});
  QString text;
  for (std::size_t i = 0; i < result.pieces.size(); ++i) {
    m_places[i].begin = int(text.size());
    text += result.pieces[i];
    m_places[i].end = int(text.size());
  }
  setPlainText(text);
  mark();
  if (result.report.firstDivergence >= 0) {
    QTextCursor at(document());
    at.setPosition(m_places[std::size_t(result.report.firstDivergence)].begin);
    setTextCursor(at);
    ensureCursorVisible();
  }
}

// Formats, not extra selections: a long conversation has thousands of tokens.
void ReplayText::mark() {
  const Tokens& t = Theme::instance().tokens();
  const engine::ReplayReport& report = m_result.report;
  if (m_places.empty() || report.tokens.size() != m_places.size()) return;
  QTextCharFormat muted;
  muted.setForeground(t.muted);
  QTextCharFormat plain;
  plain.setForeground(t.text);
  QTextCursor cursor(document());
  cursor.beginEditBlock();
  const auto lay = [&](int begin, int end, const QTextCharFormat& format) {
    if (begin >= end) return;
    cursor.setPosition(begin);
    cursor.setPosition(end, QTextCursor::KeepAnchor);
    cursor.setCharFormat(format);
  };
  for (std::size_t i = 0; i < m_places.size();) {  // runs of what is and is not an answer
    std::size_t end = i;
    while (end < m_places.size() && report.tokens[end].scored == report.tokens[i].scored) ++end;
    lay(m_places[i].begin, m_places[end - 1].end, report.tokens[i].scored ? plain : muted);
    i = end;
  }
  for (std::size_t i = 0; i < m_places.size(); ++i) {
    const engine::ReplayToken& token = report.tokens[i];
    if (!token.scored || token.best[0] == token.best[1]) continue;
    QTextCharFormat format = plain;
    format.setUnderlineStyle(QTextCharFormat::SingleUnderline);
    format.setUnderlineColor(t.fault);
    if (int(i) == report.firstDivergence) {
      format.setBackground(mix(t.raised, t.fault, 0.35));
      format.setFontWeight(QFont::DemiBold);
    }
    lay(m_places[i].begin, m_places[i].end, format);
  }
  cursor.endEditBlock();
}

void ReplayText::showToken(int token) {
  if (token < 0 || std::size_t(token) >= m_places.size()) return;
  const Place& place = m_places[std::size_t(token)];
  QTextCursor at(document());
  at.setPosition(place.begin);
  at.setPosition(place.end, QTextCursor::KeepAnchor);
  setTextCursor(at);
  ensureCursorVisible();
}

QString ReplayText::textOf(int token) const {
  if (token < 0 || std::size_t(token) >= m_places.size()) return {};
  const Place& place = m_places[std::size_t(token)];
  return toPlainText().mid(place.begin, place.end - place.begin);
}

}  // namespace vitrine::ui

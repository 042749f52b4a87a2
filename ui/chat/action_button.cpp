#include "ui/chat/action_button.h"

#include <QPainter>

#include "ui/theme/theme.h"

namespace vitrine::ui {

ActionButton::ActionButton(const QString& text, QWidget* parent) : QPushButton(text, parent) {
  setProperty("kind", "action");
  setCursor(Qt::PointingHandCursor);
  setFocusPolicy(Qt::StrongFocus);
  setFlat(true);
}

void ActionButton::setRevealed(bool revealed) {
  if (revealed == m_revealed) return;
  m_revealed = revealed;
  update();
}

void ActionButton::setAlwaysShown(bool always) {
  if (always == m_always) return;
  m_always = always;
  update();
}

QSize ActionButton::sizeHint() const {
  const Theme& theme = Theme::instance();
  const QFontMetrics metrics(theme.textFont(12));
  return {metrics.horizontalAdvance(text()) + theme.px(12), theme.px(22)};
}

void ActionButton::paintEvent(QPaintEvent*) {
  if (!m_revealed && !m_always && !hasFocus()) return;
  const Theme& theme = Theme::instance();
  const Tokens& t = theme.tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const bool lively = isEnabled() && (underMouse() || hasFocus());
  if (lively) {
    painter.setPen(hasFocus() ? QPen(t.accent, 1) : QPen(Qt::NoPen));
    painter.setBrush(underMouse() ? t.raised : QColor(Qt::transparent));
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), theme.px(5),
                            theme.px(5));
  }
  painter.setFont(theme.textFont(12));
  painter.setPen(!isEnabled() ? t.faint : lively ? t.text : t.muted);
  painter.drawText(rect(), Qt::AlignCenter | Qt::TextSingleLine, text());
}

}  // namespace vitrine::ui

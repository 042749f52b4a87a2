#include "ui/common/toggle_switch.h"

#include <QPainter>

#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

int px(double pixels) {
  return Theme::instance().px(pixels);
}
double corner() {
  return px(7);
}

}  // namespace

ToggleSwitch::ToggleSwitch(const QString& text, QWidget* parent) : QAbstractButton(parent) {
  setText(text);
  setCheckable(true);
  setFocusPolicy(Qt::StrongFocus);
  setAttribute(Qt::WA_Hover);
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  setAccessibleName(text);
  connect(&Theme::instance(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void ToggleSwitch::setChip(bool chip) {
  m_chip = chip;
  updateGeometry();
  update();
}

QSize ToggleSwitch::sizeHint() const {
  const int textWidth = QFontMetrics(Theme::instance().textFont(12.5)).horizontalAdvance(text());
  const int margins = m_chip ? px(22) : px(6);
  return {margins + px(26) + (textWidth > 0 ? px(8) + textWidth : 0), px(30)};
}

void ToggleSwitch::paintEvent(QPaintEvent*) {
  const Tokens& tokens = Theme::instance().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF frame = QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5);
  if (m_chip) {
    painter.setBrush(tokens.raised);
    painter.setPen(QPen(hasFocus() ? tokens.accent : tokens.line, 1));
    painter.drawRoundedRect(frame, corner(), corner());
  } else if (hasFocus()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(tokens.accent, 1));
    painter.drawRoundedRect(frame, corner(), corner());
  }
  const qreal left = m_chip ? px(11) : px(3);
  const QRectF track(left + 0.5, (height() - px(14)) / 2.0, px(26), px(14));
  const bool on = isChecked();
  const QColor fill = !isEnabled() ? tokens.faint : tokens.accentFill;
  painter.setBrush(on ? fill : QColor(Qt::transparent));
  painter.setPen(QPen(on ? fill : tokens.muted, 1.4));
  painter.drawRoundedRect(track, px(14) / 2.0, px(14) / 2.0);
  const qreal radius = px(on ? 10 : 8) / 2.0;
  const QPointF knob(on ? track.right() - px(7) : track.left() + px(7), track.center().y());
  painter.setPen(Qt::NoPen);
  painter.setBrush(on ? tokens.onAccent : tokens.muted);
  painter.drawEllipse(knob, radius, radius);

  painter.setFont(Theme::instance().textFont(12.5));
  painter.setPen(isEnabled() ? tokens.text : tokens.faint);
  const QRectF area(track.right() + px(8), 0, width() - track.right() - px(8), height());
  painter.drawText(area, Qt::AlignVCenter | Qt::AlignLeft, text());
}

}  // namespace vitrine::ui

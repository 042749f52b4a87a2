#include "ui/studio/empty_place.h"

#include <QPainter>

#include "ui/theme/theme.h"

namespace vitrine::ui {

void paintEmptyPlace(QPainter& painter, const QRect& place, const QString& text) {
  const Theme& theme = Theme::instance();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(theme.tokens().line, 1, Qt::DashLine));
  painter.drawRoundedRect(QRectF(place).adjusted(0.5, 0.5, -0.5, -0.5), 7, 7);
  painter.setPen(theme.ink(theme.tokens().muted));
  painter.setFont(theme.textFont(12.5));
  painter.drawText(place.adjusted(20, 6, -20, -6), Qt::AlignCenter | Qt::TextWordWrap, text);
}

}  // namespace vitrine::ui

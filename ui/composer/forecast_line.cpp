#include "ui/composer/forecast_line.h"

#include <QPainter>

#include "ui/theme/theme.h"

namespace vitrine::ui {

ForecastLine::ForecastLine(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setAccessibleName(tr("Forecast"));
  connect(&Theme::instance(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void ForecastLine::setParts(const QVector<Part>& parts) {
  if (parts == m_parts) return;
  m_parts = parts;
  setAccessibleDescription(text());
  update();
}

QString ForecastLine::text() const {
  QString all;
  for (const Part& part : m_parts) all += part.text;
  return all;
}

QSize ForecastLine::sizeHint() const {
  return {Theme::instance().px(320), Theme::instance().px(20)};
}

QSize ForecastLine::minimumSizeHint() const {
  return {Theme::instance().px(40), Theme::instance().px(20)};
}

void ForecastLine::paintEvent(QPaintEvent*) {
  const Theme& theme = Theme::instance();
  const Tokens& t = theme.tokens();
  QPainter painter(this);
  const QFont font = theme.figureFont(12);
  painter.setFont(font);
  const QFontMetrics metrics(font);
  const int baseline = (height() + metrics.ascent() - metrics.descent()) / 2;
  int x = 0;
  for (const Part& part : m_parts) {
    const int advance = metrics.horizontalAdvance(part.text);
    if (x + advance > width()) return;
    switch (part.meaning) {
      case kPlain:
        painter.setPen(t.muted);
        break;
      case kReused:
        painter.setPen(theme.ink(t.reused));
        break;
      case kPrefilled:
        painter.setPen(theme.ink(t.prefilled));
        break;
      case kFault:
        painter.setPen(theme.ink(t.fault));
        break;
    }
    painter.drawText(x, baseline, part.text);
    x += advance;
  }
}

}  // namespace vitrine::ui

#include "ui/topbar/app_mark.h"

#include <QPainter>

#include "ui/theme/theme.h"

namespace vitrine::ui {

AppMark::AppMark(int designSide, QWidget* parent) : QWidget(parent), m_designSide(designSide) {
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  setAccessibleName(tr("Vitrine"));
  connect(&Theme::instance(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

QSize AppMark::sizeHint() const {
  const int side = Theme::instance().px(m_designSide);
  return {side, side};
}

void AppMark::paintEvent(QPaintEvent*) {
  const Tokens& tokens = Theme::instance().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const double unit = width() / 22.0;
  painter.setPen(QPen(tokens.accent, 1.8 * unit));
  painter.setBrush(Qt::NoBrush);
  painter.drawRoundedRect(QRectF(1.5 * unit, 1.5 * unit, 19 * unit, 19 * unit), 5 * unit, 5 * unit);
  painter.setPen(Qt::NoPen);
  const struct {
    double x, y;
    QColor colour;
  } panes[] = {{6, 6, tokens.prefilled},
               {12, 6, tokens.accent},
               {6, 12, tokens.generated},
               {12, 12, mix(tokens.panel, tokens.faint, 0.5)}};
  for (const auto& pane : panes) {
    painter.setBrush(pane.colour);
    painter.drawRoundedRect(QRectF(pane.x * unit, pane.y * unit, 4 * unit, 4 * unit), unit, unit);
  }
}

}  // namespace vitrine::ui

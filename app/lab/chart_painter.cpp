#include "app/lab/chart_painter.h"

#include <QFontInfo>
#include <QFontMetricsF>
#include <QPainter>
#include <QPainterPath>

#include "app/lab/chart_layout.h"
#include "app/text.h"

namespace vitrine::app::lab {

void paintChart(QPainter& painter, const QRectF& area, const Chart& chart, const ChartInks& inks,
                const QFont& font) {
  const QFontMetricsF metrics(font, painter.device());
  const auto widthOf = [&](const std::string& text) {
    return metrics.horizontalAdvance(toQString(text));
  };
  const double size = metrics.ascent();
  const ChartLayout layout = layoutChart(chart, area.width(), area.height(), size, widthOf);
  painter.save();
  painter.translate(area.topLeft());
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setFont(font);
  const double thin = size / 11;
  painter.setPen(QPen(inks.line, thin));
  for (const auto& line : layout.grid) {
    painter.drawLine(QPointF(line.from.x, line.from.y), QPointF(line.to.x, line.to.y));
  }
  for (const auto& curve : layout.curves) {
    const QColor colour = inks.series[static_cast<std::size_t>(curve.series) % 4];
    QPen pen(colour, 2 * thin, curve.dashed ? Qt::DashLine : Qt::SolidLine, Qt::RoundCap,
             Qt::RoundJoin);
    painter.setPen(pen);
    painter.setBrush(Qt::NoBrush);
    QPainterPath path;
    for (const auto& point : curve.points) {
      path.elementCount() == 0 ? path.moveTo(point.x, point.y) : path.lineTo(point.x, point.y);
    }
    painter.drawPath(path);
    if (!curve.dots) continue;
    painter.setPen(Qt::NoPen);
    painter.setBrush(colour);
    for (const auto& point : curve.points) {
      painter.drawEllipse(QPointF(point.x, point.y), 3 * thin, 3 * thin);
    }
  }
  painter.setBrush(Qt::NoBrush);
  for (const auto& mark : layout.marks) {
    painter.setPen(QPen(inks.series[static_cast<std::size_t>(mark.series) % 4], 2 * thin));
    painter.drawEllipse(QPointF(mark.at.x, mark.at.y), 7 * thin, 7 * thin);
  }
  for (const auto& text : layout.texts) {
    painter.setPen(text.series < 0 ? inks.muted
                                   : inks.text[static_cast<std::size_t>(text.series) % 4]);
    const QString words = toQString(text.text);
    const double width = metrics.horizontalAdvance(words);
    const double x = text.anchor == ChartLayout::Anchor::kLeft    ? text.at.x
                     : text.anchor == ChartLayout::Anchor::kRight ? text.at.x - width
                                                                  : text.at.x - width / 2;
    painter.drawText(QPointF(x, text.at.y), words);
  }
  painter.restore();
}

}  // namespace vitrine::app::lab

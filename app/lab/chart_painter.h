#pragma once

#include <QColor>
#include <QFont>
#include <array>

#include "app/lab/lab_types.h"

class QPainter;
class QRectF;

namespace vitrine::app::lab {

/// Inks of a painted chart.
struct ChartInks {
  QColor line, muted;
  std::array<QColor, 4> series;  ///< curves and marks
  std::array<QColor, 4> text;    ///< their names, readable on the ground
};

/// Paints a chart into an area, on whatever is there.
void paintChart(QPainter& painter, const QRectF& area, const Chart& chart, const ChartInks& inks,
                const QFont& font);

}  // namespace vitrine::app::lab

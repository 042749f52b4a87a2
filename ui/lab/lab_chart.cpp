#include "ui/lab/lab_chart.h"

#include <QPainter>

#include "app/lab/chart_painter.h"
#include "app/text.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

LabChart::LabChart(const QString& emptyText, int designHeight, QWidget* parent)
    : QWidget(parent), m_emptyText(emptyText), m_designHeight(designHeight) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setAccessibleName(emptyText);
  connect(&Theme::instance(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

bool LabChart::isEmpty() const {
  for (const auto& series : m_chart.series) {
    if (!series.x.empty()) return false;
  }
  return true;
}

void LabChart::setChart(app::lab::Chart chart) {
  m_chart = std::move(chart);
  QStringList words{app::toQString(m_chart.title)};
  for (const auto& series : m_chart.series) {
    if (series.y.empty()) continue;
    words << tr("%1: %2 at the end")
                 .arg(app::toQString(series.label))
                 .arg(series.y.back(), 0, 'g', 4);
    if (series.mark >= 0) words << app::toQString(series.markText);
  }
  setAccessibleName(isEmpty() ? m_emptyText : words.join(QStringLiteral("; ")));
  update();
}

QSize LabChart::sizeHint() const {
  return {Theme::instance().px(360), Theme::instance().px(m_designHeight)};
}

void LabChart::paintEvent(QPaintEvent*) {
  const Theme& theme = Theme::instance();
  const Tokens& tokens = theme.tokens();
  QPainter painter(this);
  if (isEmpty()) {
    painter.setPen(tokens.muted);
    painter.setFont(theme.textFont(12.5));
    painter.drawText(rect(), Qt::AlignCenter | Qt::TextWordWrap, m_emptyText);
    return;
  }
  const int head = theme.px(22);
  painter.setPen(theme.ink(tokens.muted));
  painter.setFont(theme.textFont(12, QFont::DemiBold));
  painter.drawText(QRect(0, 0, width(), head), Qt::AlignLeft | Qt::AlignTop,
                   app::toQString(m_chart.title));
  app::lab::ChartInks inks;
  inks.line = tokens.line;
  inks.muted = theme.ink(tokens.muted);
  inks.series = {tokens.reused, tokens.prefilled, tokens.generated, tokens.information};
  for (std::size_t i = 0; i < inks.series.size(); ++i) inks.text[i] = theme.ink(inks.series[i]);
  app::lab::paintChart(painter, QRectF(rect()).adjusted(0, head, 0, 0), m_chart, inks,
                       theme.figureFont(11));
}

}  // namespace vitrine::ui

#include "ui/inspector/cache/formula_view.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

const Theme& look() {
  return Theme::instance();
}
const QString kTimes = QStringLiteral(" × ");

}  // namespace

FormulaView::FormulaView(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void FormulaView::setFormula(QVector<Factor> factors, const QString& result) {
  if (factors == m_factors && result == m_result) return;
  m_factors = std::move(factors);
  m_result = result;
  QStringList symbols;
  QStringList values;
  for (const Factor& factor : std::as_const(m_factors)) {
    symbols << factor.symbol;
    values << factor.value;
  }
  setAccessibleName(tr("%1 = %2 = %3").arg(symbols.join(kTimes), values.join(kTimes), m_result));
  update();
}

QSize FormulaView::sizeHint() const {
  return {look().px(240), look().px(42)};
}

// The numbers grow with the chat; the type shrinks a little rather than cut them.
double FormulaView::fittingPixels() const {
  QStringList widest;
  for (const Factor& factor : m_factors) {
    widest << (factor.symbol.size() > factor.value.size() ? factor.symbol : factor.value);
  }
  const QString line = widest.join(kTimes) + QStringLiteral(" = ") + m_result;
  double pixels = 12;
  while (pixels > 8.5 &&
         QFontMetrics(look().figureFont(pixels)).horizontalAdvance(line) > width()) {
    pixels -= 0.5;
  }
  return pixels;
}

QVector<QRectF> FormulaView::columns() const {
  const QFontMetrics metrics(look().figureFont(fittingPixels()));
  const double times = metrics.horizontalAdvance(kTimes);
  QVector<QRectF> places;
  double x = 0;
  for (const Factor& factor : m_factors) {
    const double wide =
        std::max(metrics.horizontalAdvance(factor.symbol), metrics.horizontalAdvance(factor.value));
    places.append(QRectF(x, 0, wide, height()));
    x += wide + times;
  }
  return places;
}

void FormulaView::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  const double pixels = fittingPixels();
  const QFont plain = look().figureFont(pixels);
  const QFont strong = look().figureFont(pixels, QFont::DemiBold);
  const QFontMetricsF metrics(plain);
  const double times = metrics.horizontalAdvance(kTimes);
  const double half = height() / 2.0;
  const QVector<QRectF> places = columns();
  for (int i = 0; i < places.size(); ++i) {
    const Factor& factor = m_factors[i];
    const QRectF above(places[i].x(), 0, places[i].width(), half);
    const QRectF below(places[i].x(), half, places[i].width(), half);
    painter.setFont(plain);
    painter.setPen(tokens.muted);
    painter.drawText(above, Qt::AlignCenter, factor.symbol);
    if (!factor.constant) {
      const double symbolWidth = metrics.horizontalAdvance(factor.symbol);
      const double y = above.center().y() + metrics.ascent() / 2 + 3;
      painter.setPen(QPen(tokens.faint, 1, Qt::DotLine));
      painter.drawLine(QPointF(above.center().x() - symbolWidth / 2, y),
                       QPointF(above.center().x() + symbolWidth / 2, y));
    }
    painter.setFont(factor.constant ? plain : strong);
    painter.setPen(factor.constant ? tokens.muted : tokens.text);
    painter.drawText(below, Qt::AlignCenter, factor.value);
    if (i + 1 < places.size()) {
      painter.setFont(plain);
      painter.setPen(tokens.muted);
      const double x = places[i].right();
      painter.drawText(QRectF(x, 0, times, half), Qt::AlignCenter, QStringLiteral("×"));
      painter.drawText(QRectF(x, half, times, half), Qt::AlignCenter, QStringLiteral("×"));
    }
  }
  if (places.isEmpty()) return;
  const double x = places.last().right();
  painter.setFont(plain);
  painter.setPen(tokens.muted);
  painter.drawText(QRectF(x, half, times, half), Qt::AlignCenter, QStringLiteral("="));
  painter.setFont(strong);
  painter.setPen(look().ink(tokens.reused));
  painter.drawText(QRectF(x + times, half, width() - x - times, half),
                   Qt::AlignVCenter | Qt::AlignLeft, m_result);
}

bool FormulaView::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const QVector<QRectF> places = columns();
  for (int i = 0; i < places.size(); ++i) {
    if (!places[i].contains(help->pos())) continue;
    QToolTip::showText(help->globalPos(), literalToolTip(m_factors[i].meaning), this,
                       places[i].toAlignedRect());
    return true;
  }
  QToolTip::hideText();
  return true;
}

}  // namespace vitrine::ui

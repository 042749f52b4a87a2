#include "ui/studio/bar_chart.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "ui/studio/empty_place.h"
#include "ui/studio/studio_words.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

const Theme& look() {
  return Theme::instance();
}

}  // namespace

BarChart::BarChart(int designHeight, QWidget* parent)
    : QWidget(parent), m_designHeight(designHeight) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setMouseTracking(true);
  setFocusPolicy(Qt::TabFocus);
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void BarChart::setEmptyText(const QString& text) {
  m_emptyText = text;
  if (m_bars.isEmpty()) setAccessibleDescription(text);
  update();
}

void BarChart::setBars(QVector<Bar> bars) {
  if (bars == m_bars) return;
  m_bars = std::move(bars);
  m_pointed = -1;
  QStringList words;
  for (const Bar& bar : std::as_const(m_bars)) {
    if (words.size() == 12) {
      words << QStringLiteral("…");
      break;
    }
    words << bar.text;
  }
  setAccessibleDescription(m_bars.isEmpty() ? m_emptyText : words.join(QStringLiteral("; ")));
  update();
}

QSize BarChart::sizeHint() const {
  return {look().px(240), look().px(m_designHeight)};
}

QSize BarChart::minimumSizeHint() const {
  return {look().px(140), look().px(m_designHeight)};
}

QRectF BarChart::plotArea() const {
  return QRectF(rect()).adjusted(0, look().px(20), 0, -look().px(18));
}

double BarChart::top() const {
  double most = 0;
  for (const Bar& bar : m_bars) most = std::max(most, bar.value);
  return most > 0 ? most * 1.05 : 1;
}

QRectF BarChart::barRect(int index) const {
  const QRectF area = plotArea();
  const double slot = area.width() / std::max<double>(1, double(m_bars.size()));
  const double wide = std::clamp(slot * 0.7, 1.0, double(look().px(38)));
  const double height = std::max(1.0, area.height() * std::max(m_bars[index].value, 0.0) / top());
  return {area.left() + slot * (index + 0.5) - wide / 2, area.bottom() - height, wide, height};
}

void BarChart::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  if (m_bars.isEmpty()) {
    paintEmptyPlace(painter, rect(), m_emptyText);
    return;
  }
  const QRectF area = plotArea();
  painter.setPen(QPen(tokens.line, 1));
  for (const double level : {0.0, 0.5, 1.0}) {
    const double y = std::floor(area.bottom() - level * area.height()) + 0.5;
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
  }
  painter.setFont(look().figureFont(10));
  painter.setPen(look().ink(tokens.muted));
  painter.drawText(QRectF(area.left(), 0, area.width(), area.top() - 3),
                   Qt::AlignRight | Qt::AlignVCenter, klText(top()));
  const double slot = area.width() / double(m_bars.size());
  double end = -1;  // of the name before
  for (int i = 0; i < m_bars.size(); ++i) {
    const Bar& bar = m_bars[i];
    const QRectF body = barRect(i);
    painter.setPen(i == m_pointed ? QPen(tokens.text, 1.4) : Qt::NoPen);
    if (bar.marked) {
      painter.setBrush(mix(tokens.panel, tokens.information, 0.30));
      painter.drawRoundedRect(body, 2, 2);
      painter.setBrush(QBrush(tokens.information, Qt::BDiagPattern));
      painter.drawRoundedRect(body, 2, 2);
    } else {
      painter.setBrush(tokens.information);
      painter.drawRoundedRect(body, 2, 2);
    }
    painter.setPen(bar.marked ? tokens.text : look().ink(tokens.muted));
    const double wide = std::max(slot, QFontMetricsF(painter.font()).horizontalAdvance(bar.name));
    const QRectF label(body.center().x() - wide / 2, area.bottom() + 3, wide, look().px(15));
    if (label.left() >= end - 0.5) {
      painter.drawText(label, Qt::AlignCenter, bar.name);
      end = slot >= wide ? label.right() : label.right() + 3;
    }
  }
  if (hasFocus()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(tokens.accent, 1));
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
  }
}

void BarChart::point(int index) {
  if (index == m_pointed) return;
  m_pointed = index;
  emit pointed(index < 0 ? QString() : m_bars[index].text);
  update();
}

void BarChart::mouseMoveEvent(QMouseEvent* event) {
  const QRectF area = plotArea();
  if (m_bars.isEmpty() || area.width() <= 0) return;
  const int index = int((event->pos().x() - area.left()) / area.width() * double(m_bars.size()));
  point(std::clamp(index, 0, int(m_bars.size()) - 1));
}

void BarChart::leaveEvent(QEvent*) {
  point(-1);
}

void BarChart::keyPressEvent(QKeyEvent* event) {
  const bool left = event->key() == Qt::Key_Left;
  if ((!left && event->key() != Qt::Key_Right) || m_bars.isEmpty()) {
    return QWidget::keyPressEvent(event);
  }
  const int last = int(m_bars.size()) - 1;
  point(m_pointed < 0 ? 0 : std::clamp(m_pointed + (left ? -1 : 1), 0, last));
}

}  // namespace vitrine::ui

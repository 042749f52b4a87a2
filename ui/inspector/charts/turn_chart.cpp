#include "ui/inspector/charts/turn_chart.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QPainterPath>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

const Theme& look() {
  return Theme::instance();
}

// The next 1, 2 or 5 times a power of ten (of two for what counts in bytes is not needed: the
// format writes the value).
double roundedUp(double value) {
  if (value <= 0) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double step : {1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0}) {
    if (value <= step * power) return step * power;
  }
  return 10 * power;
}

}  // namespace

TurnChart::TurnChart(Kind kind, int designHeight, QWidget* parent)
    : QWidget(parent),
      m_kind(kind),
      m_designHeight(designHeight),
      m_colour([] { return look().tokens().accent; }),
      m_format([](double value) { return QString::number(value); }) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setMouseTracking(true);
  setFocusPolicy(Qt::TabFocus);
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void TurnChart::setColour(std::function<QColor()> colour) {
  m_colour = std::move(colour);
}
void TurnChart::setFormat(std::function<QString(double)> format) {
  m_format = std::move(format);
}

void TurnChart::setPoints(QVector<Point> points) {
  if (points == m_points) return;
  m_points = std::move(points);
  m_hovered = std::min(m_hovered, int(m_points.size()) - 1);
  QStringList words;
  for (const Point& point : std::as_const(m_points)) {
    if (words.size() == 12) {
      words << QStringLiteral("…");
      break;
    }
    words << tr("turn %1: %2").arg(point.turn).arg(m_format(point.value));
  }
  setAccessibleDescription(m_points.isEmpty() ? m_emptyText : words.join(QLatin1String("; ")));
  update();
}

void TurnChart::setEmptyText(const QString& text) {
  m_emptyText = text;
  update();
}

void TurnChart::setSelectedTurn(int turn) {
  if (turn == m_selectedTurn) return;
  m_selectedTurn = turn;
  update();
}

QSize TurnChart::sizeHint() const {
  return {look().px(120), look().px(m_designHeight)};
}

QRectF TurnChart::plotArea() const {
  return QRectF(rect()).adjusted(0, look().px(14), 0, -look().px(18));
}

double TurnChart::top() const {
  double largest = 0;
  for (const Point& point : m_points) largest = std::max({largest, point.value, point.expected});
  return roundedUp(largest * 1.02);
}

QPointF TurnChart::place(int index) const {
  const QRectF area = plotArea();
  const double y = area.bottom() - area.height() * m_points[index].value / top();
  if (m_kind == Kind::kBars) {
    return {area.left() + area.width() * (index + 0.5) / double(m_points.size()), y};
  }
  if (m_points.size() == 1) return {area.left() + 4, y};
  return {area.left() + 4 + (area.width() - 8) * index / double(m_points.size() - 1), y};
}

int TurnChart::pointAt(QPoint position) const {
  int nearest = -1;
  double distance = 1e9;
  for (int i = 0; i < m_points.size(); ++i) {
    const double here = std::abs(place(i).x() - position.x());
    if (here < distance) {
      distance = here;
      nearest = i;
    }
  }
  return nearest;
}

void TurnChart::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF area = plotArea();
  painter.setFont(look().figureFont(10.5));
  if (m_points.isEmpty()) {
    painter.setPen(QPen(tokens.line, 1, Qt::DashLine));
    painter.drawLine(area.bottomLeft(), area.bottomRight());
    painter.setFont(look().textFont(12));
    painter.setPen(tokens.muted);
    painter.drawText(QRectF(rect()), Qt::AlignCenter | Qt::TextWordWrap, m_emptyText);
    return;
  }
  painter.setPen(QPen(tokens.line, 1));
  for (const double level : {0.0, 0.5, 1.0}) {
    const double y = std::floor(area.bottom() - level * area.height()) + 0.5;
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
  }
  painter.setPen(tokens.muted);
  painter.drawText(QRectF(area.left(), 0, area.width(), area.top() - 1),
                   Qt::AlignRight | Qt::AlignVCenter, m_format(top()));

  const QColor colour = m_colour();
  const int count = int(m_points.size());
  if (m_kind == Kind::kLine) {
    QPolygonF line;
    line << QPointF(place(0).x(), area.bottom());
    for (int i = 0; i < count; ++i) line << place(i);
    QPolygonF filled = line;
    filled << QPointF(place(count - 1).x(), area.bottom());
    QColor pale = colour;
    pale.setAlphaF(0.18F);
    painter.setPen(Qt::NoPen);
    painter.setBrush(pale);
    painter.drawPolygon(filled);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(colour, 2, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
    line.removeFirst();
    painter.drawPolyline(line);
  }
  const double slot = area.width() / count;
  const double bar = std::clamp(slot * 0.62, 1.0, double(look().px(26)));
  for (int i = 0; i < count; ++i) {
    const QPointF at = place(i);
    const bool marked =
        i == m_hovered || (m_selectedTurn > 0 && m_points[i].turn == m_selectedTurn);
    if (m_kind == Kind::kBars) {
      const QRectF body(at.x() - bar / 2, at.y(), bar, std::max(area.bottom() - at.y(), 1.0));
      QColor fill = colour;
      if (m_points[i].live) fill.setAlphaF(0.4F);
      painter.setPen(marked ? QPen(tokens.text, 1.2) : Qt::NoPen);
      painter.setBrush(fill);
      painter.drawRoundedRect(body, std::min(2.0, bar / 3), std::min(2.0, bar / 3));
      if (m_points[i].expected >= 0) {
        const double y = area.bottom() - area.height() * m_points[i].expected / top();
        const double wide = std::min(slot, bar + 6);
        painter.setPen(QPen(tokens.text, 1.6));
        painter.drawLine(QPointF(at.x() - wide / 2, y), QPointF(at.x() + wide / 2, y));
      }
    } else if (count <= 40 || marked) {
      painter.setPen(QPen(colour, 1.6));
      painter.setBrush(marked ? colour : tokens.panel);
      painter.drawEllipse(at, marked ? 4.0 : 2.6, marked ? 4.0 : 2.6);
    }
  }

  // Turn numbers, as many as there is room for.
  painter.setPen(tokens.muted);
  const double labelWidth = look().px(46);
  const int step = std::max(1, int(std::ceil(labelWidth * count / std::max(area.width(), 1.0))));
  double end = -1;  // of the label before
  for (int i = 0; i < count; i += step) {
    QRectF label(place(i).x() - labelWidth / 2, area.bottom() + 2, labelWidth, look().px(15));
    if (label.left() < 0) label.moveLeft(0);
    if (label.right() > width()) label.moveRight(width());
    if (label.left() < end - 4) continue;
    end = label.right();
    const bool first = m_kind == Kind::kLine && i == 0;
    painter.drawText(label, (first ? Qt::AlignLeft : Qt::AlignHCenter) | Qt::AlignVCenter,
                     m_points[i].turn == 0 ? tr("start") : tr("turn %1").arg(m_points[i].turn));
  }
  if (hasFocus()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(tokens.accent, 1));
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
  }
}

void TurnChart::mousePressEvent(QMouseEvent* event) {
  const int index = pointAt(event->pos());
  if (index >= 0) emit turnSelected(m_points[index].turn);
}

void TurnChart::mouseMoveEvent(QMouseEvent* event) {
  const int index = pointAt(event->pos());
  if (index == m_hovered) return;
  m_hovered = index;
  update();
}

void TurnChart::leaveEvent(QEvent*) {
  m_hovered = -1;
  update();
}

void TurnChart::keyPressEvent(QKeyEvent* event) {
  const bool left = event->key() == Qt::Key_Left;
  if ((!left && event->key() != Qt::Key_Right) || m_points.isEmpty()) {
    return QWidget::keyPressEvent(event);
  }
  const int last = int(m_points.size()) - 1;
  m_hovered = m_hovered < 0 ? last : std::clamp(m_hovered + (left ? -1 : 1), 0, last);
  emit turnSelected(m_points[m_hovered].turn);
  QToolTip::showText(mapToGlobal(place(m_hovered).toPoint()),
                     literalToolTip(m_points[m_hovered].toolTip), this);
  update();
}

bool TurnChart::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const int index = pointAt(help->pos());
  if (index < 0 || m_points[index].toolTip.isEmpty()) {
    QToolTip::hideText();
  } else {
    QToolTip::showText(help->globalPos(), literalToolTip(m_points[index].toolTip), this);
  }
  return true;
}

}  // namespace vitrine::ui

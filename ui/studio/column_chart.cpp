#include "ui/studio/column_chart.h"

#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "ui/studio/empty_place.h"
#include "ui/studio/studio_words.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kLabels = 36;  // of the axis, at the left
constexpr int kTitle = 18;
constexpr int kLeastBar = 2;

const Theme& look() {
  return Theme::instance();
}

}  // namespace

ColumnChart::ColumnChart(int designHeight, QWidget* parent)
    : QWidget(parent), m_designHeight(designHeight) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setMouseTracking(true);
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void ColumnChart::setValues(const QString& title, std::vector<float> values,
                            std::vector<float> before) {
  m_title = title;
  m_values = std::move(values);
  m_before = std::move(before);
  m_hovered = -1;
  takeAxis();
  describe();
  update();
}

void ColumnChart::setThreshold(float threshold, const QString& text) {
  m_threshold = threshold;
  m_thresholdText = text;
  takeAxis();
  describe();
  update();
}

void ColumnChart::clear(const QString& emptyText) {
  m_values.clear();
  m_before.clear();
  m_emptyText = emptyText;
  describe();
  update();
}

void ColumnChart::takeAxis() {
  double least = 0, most = 0;
  for (const auto* values : {&m_values, &m_before}) {
    for (const float value : *values) {
      if (!(value > 0) || !std::isfinite(value)) continue;
      least = least == 0 ? double(value) : std::min(least, double(value));
      most = std::max(most, double(value));
    }
  }
  most = std::max(most, double(m_threshold));
  if (most <= 0) {
    m_axis = {};
    return;
  }
  // A dead channel must not press the others together: three decades below the top at most.
  m_axis = LogAxis(std::max(least * 0.7, most / 2000), most * 1.15);
}

void ColumnChart::describe() {
  setAccessibleName(m_values.empty() ? m_emptyText : m_title);
  if (m_values.empty()) return setAccessibleDescription({});
  const auto largest = std::max_element(m_values.begin(), m_values.end());
  QString text = tr("%1 channels, the largest %2 in channel %3")
                     .arg(m_values.size())
                     .arg(magnitudeText(double(*largest)))
                     .arg(largest - m_values.begin());
  if (!m_before.empty()) {
    text += tr("; before %1")
                .arg(magnitudeText(double(*std::max_element(m_before.begin(), m_before.end()))));
  }
  if (m_threshold > 0) text += QStringLiteral("; ") + m_thresholdText;
  setAccessibleDescription(text);
}

QSize ColumnChart::sizeHint() const {
  return {look().px(320), look().px(m_designHeight)};
}

QSize ColumnChart::minimumSizeHint() const {
  return {look().px(200), look().px(m_designHeight)};
}

QRectF ColumnChart::plotArea() const {
  return QRectF(rect()).adjusted(look().px(kLabels), look().px(kTitle), -1, -look().px(16));
}

int ColumnChart::channelsOfBar() const {
  const int room = std::max(1, int(plotArea().width()) / kLeastBar);
  return std::max(1, (int(m_values.size()) + room - 1) / room);
}

int ColumnChart::barCount() const {
  return (int(m_values.size()) + channelsOfBar() - 1) / channelsOfBar();
}

float ColumnChart::largestOf(const std::vector<float>& values, int bar) const {
  const std::size_t from = std::min(values.size(), std::size_t(bar) * channelsOfBar());
  const std::size_t to = std::min(values.size(), from + std::size_t(channelsOfBar()));
  float largest = 0;
  for (std::size_t i = from; i < to; ++i) largest = std::max(largest, values[i]);
  return largest;
}

int ColumnChart::barAt(int x) const {
  const QRectF area = plotArea();
  if (m_values.empty() || x < area.left() || x >= area.right()) return -1;
  return std::min(barCount() - 1, int((x - area.left()) / area.width() * barCount()));
}

QString ColumnChart::textAt(int x) const {
  const int bar = barAt(x);
  if (bar < 0) return {};
  const int from = bar * channelsOfBar();
  const int to = std::min(int(m_values.size()), from + channelsOfBar());
  QString text =
      to - from == 1 ? tr("channel %1").arg(from) : tr("channels %1 to %2").arg(from).arg(to - 1);
  text += QStringLiteral(": ") + magnitudeText(double(largestOf(m_values, bar)));
  if (!m_before.empty()) {
    text += tr(" (before %1)").arg(magnitudeText(double(largestOf(m_before, bar))));
  }
  return text;
}

void ColumnChart::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  if (m_values.empty()) {
    paintEmptyPlace(painter, rect(), m_emptyText);
    return;
  }
  const QRectF area = plotArea();
  painter.setFont(look().textFont(11));
  painter.setPen(look().ink(tokens.muted));
  painter.drawText(QRectF(0, 0, width(), look().px(kTitle) - 3), Qt::AlignLeft | Qt::AlignVCenter,
                   m_title);
  painter.setFont(look().figureFont(10));
  const auto yOf = [&](double value) {
    return area.bottom() - area.height() * m_axis.place(value);
  };
  for (const double tick : m_axis.ticks(int(area.height()) / look().px(22))) {
    const double y = std::floor(yOf(tick)) + 0.5;
    painter.setPen(QPen(tokens.line, 1));
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
    painter.setPen(look().ink(tokens.muted));
    painter.drawText(QRectF(0, y - look().px(7), area.left() - 5, look().px(14)),
                     Qt::AlignRight | Qt::AlignVCenter, LogAxis::tickText(tick));
  }
  const int bars = barCount();
  const double slot = area.width() / bars;
  QPolygonF line;
  for (int i = 0; i < bars; ++i) {
    const float value = largestOf(m_values, i);
    const double left = area.left() + i * slot;
    const QRectF body(left, yOf(double(value)), std::max(1.0, slot - (slot > 3 ? 1 : 0)),
                      area.bottom() - yOf(double(value)));
    const bool above = m_threshold > 0 && value >= m_threshold;
    painter.fillRect(body, i == m_hovered ? tokens.text
                           : above        ? tokens.fault
                                          : tokens.information);
    if (above) {
      // Not by colour alone: a dot stands over each column that is kept apart.
      painter.setPen(Qt::NoPen);
      painter.setBrush(tokens.fault);
      painter.drawEllipse(QPointF(body.center().x(), body.top() - 4), 2.2, 2.2);
    }
    if (!m_before.empty()) {
      const double y = yOf(double(largestOf(m_before, i)));
      line << QPointF(left, y) << QPointF(left + slot, y);
    }
  }
  if (!line.isEmpty()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(mix(tokens.panel, tokens.text, 0.75), 1));
    painter.drawPolyline(line);
  }
  if (m_threshold > 0) {
    const double y = std::floor(yOf(double(m_threshold))) + 0.5;
    painter.setPen(QPen(look().ink(tokens.fault), 1.2, Qt::DashLine));
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
    const double wide = QFontMetricsF(painter.font()).horizontalAdvance(m_thresholdText) + 6;
    const QRectF name(area.right() - wide, y - look().px(16), wide, look().px(14));
    painter.fillRect(name, tokens.panel);  // columns stand behind it
    painter.drawText(name, Qt::AlignCenter, m_thresholdText);
  }
  painter.setPen(look().ink(tokens.muted));
  const QRectF axis(area.left(), area.bottom() + 1, area.width(), look().px(14));
  painter.drawText(axis, Qt::AlignLeft | Qt::AlignVCenter, tr("channel 0"));
  painter.drawText(axis, Qt::AlignRight | Qt::AlignVCenter, QString::number(m_values.size() - 1));
}

void ColumnChart::mouseMoveEvent(QMouseEvent* event) {
  const int bar = barAt(event->pos().x());
  if (bar == m_hovered) return;
  m_hovered = bar;
  emit pointed(textAt(event->pos().x()));
  update();
}

void ColumnChart::leaveEvent(QEvent*) {
  m_hovered = -1;
  emit pointed({});
  update();
}

}  // namespace vitrine::ui

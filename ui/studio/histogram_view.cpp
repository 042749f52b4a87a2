#include "ui/studio/histogram_view.h"

#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "ui/common/format.h"
#include "ui/studio/empty_place.h"
#include "ui/studio/studio_words.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

using engine::MagnitudeHistogram;

constexpr int kMarkLines = 3;  // of names above the plot
constexpr int kLine = 13;
constexpr int kBinsOfBar = 4;   // a quarter of an octave
constexpr double kDecades = 5;  // below the largest; smaller ones count in the first bar

const Theme& look() {
  return Theme::instance();
}

}  // namespace

HistogramView::HistogramView(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  setMouseTracking(true);
  setAccessibleName(tr("Histogram of magnitudes"));
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void HistogramView::clear(const QString& emptyText) {
  m_bars.clear();
  m_marks.clear();
  m_total = 0;
  m_emptyText = emptyText;
  setAccessibleDescription(emptyText);
  update();
}

void HistogramView::setHistogram(const MagnitudeHistogram& histogram, double largest,
                                 QVector<Mark> marks) {
  m_marks = std::move(marks);
  m_bars.clear();
  m_total = histogram.count();
  const auto bins = histogram.bins();
  double highest = largest;
  for (const Mark& mark : std::as_const(m_marks)) highest = std::max(highest, mark.limit);
  if (!(highest > 0)) highest = 1;
  highest *= 1.12;
  m_axis = LogAxis(highest / std::pow(10.0, kDecades), highest);
  quint64 below = 0;
  for (int i = 0; i < MagnitudeHistogram::kBins; i += kBinsOfBar) {
    Bar bar;
    bar.from = double(MagnitudeHistogram::lowerEdge(i));
    const int end = std::min(i + kBinsOfBar, MagnitudeHistogram::kBins);
    bar.to = double(MagnitudeHistogram::lowerEdge(end));
    for (int b = i; b < end; ++b) bar.count += bins[std::size_t(b)];
    if (bar.to <= m_axis.low()) {
      below += bar.count;
      continue;
    }
    if (m_bars.empty()) bar.count += below;
    if (bar.from >= m_axis.high()) break;
    m_bars.push_back(bar);
  }
  QStringList words{
      tr("%1 values, the largest %2").arg(countText(qint64(m_total)), magnitudeText(largest))};
  for (const Mark& mark : std::as_const(m_marks)) {
    words << tr("%1 ends at %2").arg(mark.name, magnitudeText(mark.limit));
  }
  setAccessibleDescription(words.join(QStringLiteral("; ")));
  m_hovered = -1;
  update();
}

QSize HistogramView::sizeHint() const {
  return {look().px(360), look().px(210)};
}

QSize HistogramView::minimumSizeHint() const {
  return {look().px(220), look().px(170)};
}

QRectF HistogramView::plotArea() const {
  return QRectF(rect()).adjusted(look().px(2), look().px(kMarkLines * kLine + 4), -look().px(2),
                                 -look().px(18));
}

double HistogramView::xOf(double magnitude) const {
  const QRectF area = plotArea();
  return area.left() + area.width() * m_axis.place(magnitude);
}

int HistogramView::barAt(int x) const {
  for (std::size_t i = 0; i < m_bars.size(); ++i) {
    if (x >= xOf(m_bars[i].from) && x < xOf(m_bars[i].to)) return int(i);
  }
  return -1;
}

QString HistogramView::textAt(int x) const {
  const int at = barAt(x);
  if (at < 0) return {};
  const Bar& bar = m_bars[std::size_t(at)];
  const QString count = countText(qint64(bar.count));
  const QString share = tinyShareText(double(bar.count) / double(std::max<quint64>(m_total, 1)));
  if (at == 0) return tr("up to %1: %2 values (%3)").arg(magnitudeText(bar.to), count, share);
  return tr("%1 to %2: %3 values (%4)")
      .arg(magnitudeText(bar.from), magnitudeText(bar.to), count, share);
}

void HistogramView::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  if (m_bars.empty()) {
    paintEmptyPlace(painter, rect(), m_emptyText);
    return;
  }
  const QRectF area = plotArea();
  painter.setPen(QPen(tokens.line, 1));
  painter.drawLine(area.bottomLeft(), area.bottomRight());
  painter.setFont(look().figureFont(10));
  for (const double tick : m_axis.ticks(7)) {
    const double x = std::floor(xOf(tick)) + 0.5;
    painter.setPen(QPen(tokens.line, 1));
    painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom() + 3));
    painter.setPen(look().ink(tokens.muted));
    QRectF label(x - 30, area.bottom() + 3, 60, look().px(14));
    if (label.left() < 0) label.moveLeft(0);
    if (label.right() > width()) label.moveRight(width());
    painter.drawText(label, Qt::AlignHCenter | Qt::AlignVCenter, LogAxis::tickText(tick));
  }
  double most = 1;
  for (const Bar& bar : m_bars) most = std::max(most, double(bar.count));
  const double top = std::log10(most + 1);
  double limit = 0;
  for (const Mark& mark : m_marks) {
    if (mark.inForce) limit = mark.limit;
  }
  for (std::size_t i = 0; i < m_bars.size(); ++i) {
    const Bar& bar = m_bars[i];
    if (bar.count == 0) continue;
    const double left = xOf(bar.from) + 0.5;
    const double height = area.height() * std::log10(double(bar.count) + 1) / top;
    const QRectF body(left, area.bottom() - height, std::max(1.0, xOf(bar.to) - left - 0.5),
                      height);
    painter.setPen(int(i) == m_hovered ? QPen(tokens.text, 1.2) : Qt::NoPen);
    const bool clipped = limit > 0 && bar.from >= limit * 0.999;
    const bool zero = limit > 0 && bar.to <= limit / 254;
    if (clipped) {
      painter.setBrush(mix(tokens.panel, tokens.fault, 0.35));
      painter.drawRect(body);
      painter.setBrush(QBrush(tokens.fault, Qt::BDiagPattern));
    } else if (zero) {
      painter.setBrush(mix(tokens.panel, tokens.information, 0.28));
    } else {
      painter.setBrush(tokens.information);
    }
    painter.drawRect(body);
  }
  paintMarks(painter);
}

void HistogramView::paintMarks(QPainter& painter) const {
  const Tokens& tokens = look().tokens();
  const QRectF area = plotArea();
  painter.setFont(look().figureFont(10.5));
  const QFontMetricsF metrics(painter.font());
  double half = 0;
  for (const Mark& mark : m_marks) {
    const double x = std::floor(xOf(mark.limit)) + 0.5;
    // The larger, the higher, so that no line crosses a name.
    const auto above = std::count_if(m_marks.begin(), m_marks.end(), [&](const Mark& other) {
      return other.limit > mark.limit || (other.limit == mark.limit && &other < &mark);
    });
    const double y = look().px(kLine) * double(above % kMarkLines);
    const QColor ink = mark.inForce ? tokens.text : look().ink(tokens.muted);
    painter.setPen(
        QPen(ink, mark.inForce ? 1.6 : 1.0, mark.inForce ? Qt::SolidLine : Qt::DashLine));
    painter.drawLine(QPointF(x, y + look().px(kLine) - 2), QPointF(x, area.bottom()));
    const QString text = QStringLiteral("%1 %2").arg(mark.name, magnitudeText(mark.limit));
    const double wide = metrics.horizontalAdvance(text) + 4;
    // To the left of its line: the largest magnitudes are at the right edge.
    const double left = std::max(0.0, x - wide - 3);
    painter.drawText(QRectF(left, y, wide, look().px(kLine)), Qt::AlignRight | Qt::AlignVCenter,
                     text);
    if (mark.inForce) half = mark.limit / 254;
  }
  if (half > m_axis.low()) {
    const double x = std::floor(xOf(half)) + 0.5;
    painter.setPen(QPen(tokens.text, 1, Qt::DotLine));
    painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
    painter.setPen(look().ink(tokens.muted));
    const QString text = tr("half a step %1: 0 below").arg(magnitudeText(half));
    // To the left of its line as well, where the marks do not come.
    const double wide = metrics.horizontalAdvance(text) + 4;
    painter.drawText(
        QRectF(std::max(0.0, x - wide - 3), area.top() - look().px(kLine), wide, look().px(kLine)),
        Qt::AlignRight | Qt::AlignVCenter, text);
  }
}

void HistogramView::mouseMoveEvent(QMouseEvent* event) {
  const int at = barAt(event->pos().x());
  if (at == m_hovered) return;
  m_hovered = at;
  emit pointed(textAt(event->pos().x()));
  update();
}

void HistogramView::leaveEvent(QEvent*) {
  m_hovered = -1;
  emit pointed({});
  update();
}

}  // namespace vitrine::ui

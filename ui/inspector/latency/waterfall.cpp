#include "ui/inspector/latency/waterfall.h"

#include <QHelpEvent>
#include <QPainter>
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

double percentile(std::vector<float> sorted, double share) {
  if (sorted.empty()) return 0;
  const double place = share * double(sorted.size() - 1);
  const auto below = std::size_t(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - double(below));
}

}  // namespace

Waterfall::Waterfall(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void Waterfall::setSteps(QVector<Step> steps) {
  if (steps == m_steps) return;
  const bool sameCount = steps.size() == m_steps.size();
  m_steps = std::move(steps);
  QStringList words;
  for (const Step& step : std::as_const(m_steps)) {
    words << step.name + u' ' + millisecondsText(step.milliseconds);
  }
  setAccessibleDescription(words.join(QLatin1String(", ")));
  if (!sameCount) updateGeometry();
  update();
}

double Waterfall::rowHeight() const {
  return look().px(18);
}

QSize Waterfall::sizeHint() const {
  return {look().px(200), int(std::ceil(rowHeight() * double(m_steps.size())))};
}

void Waterfall::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  double total = 0;
  for (const Step& step : m_steps) total += step.milliseconds;
  const double nameWidth = look().px(62);
  const double valueWidth = look().px(66);
  const double bars = std::max(20.0, width() - nameWidth - valueWidth);
  double before = 0;
  for (int i = 0; i < m_steps.size(); ++i) {
    const Step& step = m_steps[i];
    const QRectF row(0, i * rowHeight(), width(), rowHeight());
    painter.setFont(look().textFont(11.5));
    painter.setPen(tokens.muted);
    painter.drawText(QRectF(row.x(), row.y(), nameWidth, row.height()),
                     Qt::AlignVCenter | Qt::AlignLeft, step.name);
    const double thickness = look().px(7);
    const double y = row.center().y() - thickness / 2;
    painter.setPen(Qt::NoPen);
    painter.setBrush(tokens.raised);
    painter.drawRoundedRect(QRectF(nameWidth, y, bars, thickness), 2, 2);
    if (total > 0) {
      painter.setBrush(step.colour);
      const double wide = std::max(2.0, bars * step.milliseconds / total);
      const double x = std::min(nameWidth + bars * before / total, nameWidth + bars - wide);
      painter.drawRoundedRect(QRectF(x, y, wide, thickness), 2, 2);
    }
    before += step.milliseconds;
    painter.setFont(look().figureFont(11));
    painter.setPen(tokens.text);
    painter.drawText(QRectF(width() - valueWidth, row.y(), valueWidth, row.height()),
                     Qt::AlignVCenter | Qt::AlignRight, millisecondsText(step.milliseconds));
  }
}

bool Waterfall::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const int row = int(help->pos().y() / rowHeight());
  if (row < 0 || row >= m_steps.size()) {
    QToolTip::hideText();
  } else {
    QToolTip::showText(help->globalPos(), literalToolTip(m_steps[row].meaning), this);
  }
  return true;
}

// -------------------------------------------------------------------------------- token strip

TokenStrip::TokenStrip(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void TokenStrip::setTokens(std::vector<float> milliseconds) {
  if (milliseconds == m_tokens) return;
  m_tokens = std::move(milliseconds);
  std::vector<float> sorted = m_tokens;
  std::sort(sorted.begin(), sorted.end());
  m_p50 = percentile(sorted, 0.50);
  m_p95 = percentile(sorted, 0.95);
  m_largest = sorted.empty() ? 0 : sorted.back();
  setAccessibleDescription(
      tr("%1; median %2, 95th percentile %3, longest %4")
          .arg(pluralText(qint64(m_tokens.size()), tr("%1 token"), tr("%1 tokens")),
               millisecondsText(m_p50), millisecondsText(m_p95), millisecondsText(m_largest)));
  update();
}

QSize TokenStrip::sizeHint() const {
  return {look().px(200), look().px(64)};
}

// One stall must not press all other bars flat: bars above are cut, and marked.
double TokenStrip::top() const {
  return std::max(0.001, std::min(m_largest, 2.5 * m_p95));
}

void TokenStrip::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  const QRectF area = QRectF(rect()).adjusted(0, 4, -look().px(78), -1);
  painter.setPen(QPen(tokens.line, 1));
  painter.drawLine(area.bottomLeft(), area.bottomRight());
  if (m_tokens.empty()) {
    painter.setFont(look().textFont(12));
    painter.setPen(tokens.muted);
    painter.drawText(rect(), Qt::AlignCenter | Qt::TextWordWrap,
                     tr("A bar for each token of the answer."));
    return;
  }
  const int count = int(m_tokens.size());
  const int columns = std::min(count, std::max(1, int(area.width() / 2)));
  const double slot = std::min(area.width() / columns, double(look().px(9)));
  for (int column = 0; column < columns; ++column) {
    const int first = int(std::int64_t(column) * count / columns);
    const int end = std::max(first + 1, int(std::int64_t(column + 1) * count / columns));
    const float value = *std::max_element(m_tokens.begin() + first, m_tokens.begin() + end);
    const double share = std::min(1.0, value / top());
    const double tall = std::max(1.0, area.height() * share);
    const QRectF bar(area.left() + column * slot, area.bottom() - tall, std::max(1.0, slot - 1),
                     tall);
    painter.fillRect(bar, tokens.generated);
    if (value > top() * 1.001) {
      painter.fillRect(QRectF(bar.x(), area.top() - 3, bar.width(), 2), tokens.fault);
    }
  }
  struct Line {
    double value;
    QString name;
    Qt::PenStyle style;
  };
  painter.setFont(look().figureFont(10.5));
  const double textHeight = look().px(14);
  double lowestY = 0;  // the larger value is written first; the other stays below it
  for (const Line& line : {Line{m_p95, "p95", Qt::DashLine}, Line{m_p50, "p50", Qt::SolidLine}}) {
    const double y =
        std::floor(area.bottom() - area.height() * std::min(1.0, line.value / top())) + 0.5;
    painter.setPen(QPen(tokens.text, 1, line.style));
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
    const double labelY =
        std::max(lowestY, std::clamp(y - textHeight / 2, 0.0, height() - textHeight));
    lowestY = labelY + textHeight;
    painter.setPen(tokens.muted);
    painter.drawText(QRectF(area.right() + 4, labelY, width() - area.right() - 4, textHeight),
                     Qt::AlignVCenter | Qt::AlignLeft,
                     QStringLiteral("%1 %2").arg(line.name, millisecondsText(line.value)));
  }
}

bool TokenStrip::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip || m_tokens.empty()) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const double wide = width() - look().px(78);
  const int count = int(m_tokens.size());
  const int columns = std::min(count, std::max(1, int(wide / 2)));
  const double slot = std::min(wide / columns, double(look().px(9)));
  const int column = int(help->pos().x() / slot);
  if (column < 0 || column >= columns) {
    QToolTip::hideText();
    return true;
  }
  const int index = int(std::int64_t(column) * count / columns);
  QToolTip::showText(
      help->globalPos(),
      literalToolTip(tr("Token %1: %2")
                         .arg(index + 2)
                         .arg(millisecondsText(double(m_tokens[std::size_t(index)])))),
      this);
  return true;
}

}  // namespace vitrine::ui

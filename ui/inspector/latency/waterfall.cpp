#include "ui/inspector/latency/waterfall.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

const Theme& look() {
  return Theme::instance();
}

// A round distance (1, 2 or 5 times a power of ten) that gives at most `most` marks.
double markDistance(double total, int most) {
  const double least = total / std::max(1, most);
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= least) return step * power;
  }
  return 10 * power;
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
  return {look().px(200), int(std::ceil(rowHeight() * double(m_steps.size() + 1)))};
}

void Waterfall::paintAxis(QPainter& painter, const QRectF& area, double total) const {
  const Tokens& tokens = look().tokens();
  painter.setFont(look().figureFont(10));
  const QFontMetrics metrics(painter.font());
  const int most = std::max(1, int(area.width() / look().px(56)));
  const double distance = markDistance(total, most);
  for (int mark = 0; mark * distance <= total; ++mark) {
    const double x = std::floor(area.left() + area.width() * mark * distance / total) + 0.5;
    painter.setPen(QPen(tokens.line, 1));
    painter.drawLine(QPointF(x, 0), QPointF(x, area.bottom() + 3));
    const QString text = mark == 0 ? QStringLiteral("0") : millisecondsText(mark * distance);
    const double wide = metrics.horizontalAdvance(text) + 2;
    const double left = std::min(x - (mark == 0 ? 0 : wide / 2), width() - wide);
    painter.setPen(tokens.muted);
    painter.drawText(QRectF(left, area.bottom() + 2, wide, rowHeight() - 2),
                     Qt::AlignVCenter | Qt::AlignHCenter, text);
  }
}

void Waterfall::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  double total = 0;
  for (const Step& step : m_steps) total += step.milliseconds;
  const double nameWidth = look().px(82);
  const double valueWidth = look().px(58);
  const QRectF area(nameWidth, 0, std::max(20.0, width() - nameWidth - valueWidth),
                    rowHeight() * double(m_steps.size()));
  if (total > 0) paintAxis(painter, area, total);
  double before = 0;
  for (int i = 0; i < m_steps.size(); ++i) {
    const Step& step = m_steps[i];
    const QRectF row(0, i * rowHeight(), width(), rowHeight());
    painter.setFont(look().textFont(11.5));
    painter.setPen(tokens.muted);
    painter.drawText(QRectF(row.x(), row.y(), nameWidth - 4, row.height()),
                     Qt::AlignVCenter | Qt::AlignLeft, step.name);
    const double thickness = look().px(8);
    const double y = row.center().y() - thickness / 2;
    if (total > 0) {
      // What took time is seen, however little it was.
      const double wide =
          std::max(step.milliseconds > 0 ? 2.0 : 1.0, area.width() * step.milliseconds / total);
      const double x = std::min(area.left() + area.width() * before / total, area.right() - wide);
      paintMark(painter, QRectF(x, y, wide, thickness), step.colour,
                step.shared ? MarkPattern::kHatched : MarkPattern::kSolid, std::min(2.0, wide / 3));
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
    const Step& step = m_steps[row];
    QToolTip::showText(help->globalPos(),
                       literalToolTip(step.meaning + u'\n' + millisecondsText(step.milliseconds)),
                       this);
  }
  return true;
}

}  // namespace vitrine::ui

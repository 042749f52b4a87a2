#include "ui/inspector/attention/head_drawing.h"

#include <QHelpEvent>
#include <QPainter>
#include <QPainterPath>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

// Lengths of the design: the words at the left, the largest mark, from one row to the next.
constexpr double kWords = 62;
constexpr double kMark = 17;
constexpr double kPitch = 62;
constexpr double kEdge = 6;     // above and below, for the words
constexpr int kManyHeads = 24;  // lines get thinner from here on

const Theme& look() {
  return Theme::instance();
}

}  // namespace

HeadDrawing::HeadDrawing(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setAccessibleName(tr("Heads of a layer"));
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void HeadDrawing::setHeads(int nHeads, int nKvHeads, int ownKvHeads) {
  if (m_heads == nHeads && m_kv == nKvHeads && m_own == ownKvHeads) return;
  m_heads = nHeads;
  m_kv = nKvHeads;
  m_own = ownKvHeads;
  QString text = tr("%1 query heads read %2 KV heads").arg(nHeads).arg(nKvHeads);
  if (nKvHeads > ownKvHeads) text += tr(", copies of the model's own %1").arg(ownKvHeads);
  if (nKvHeads < ownKvHeads) text += tr(", averages of the model's own %1").arg(ownKvHeads);
  setAccessibleDescription(text);
  updateGeometry();
  update();
}

QSize HeadDrawing::sizeHint() const {
  return {look().px(240), look().px(kMark + kPitch * (rowCount() - 1) + 2 * kEdge)};
}

int HeadDrawing::headCount(Row row) const {
  return row == kQuery ? m_heads : row == kInForce ? m_kv : m_own;
}

QRectF HeadDrawing::mark(Row row, int head) const {
  const int count = std::max(1, headCount(row));
  const double left = look().px(kWords);
  const double pitch = (width() - left) / count;
  const double side = std::clamp(pitch * 0.74, 1.5, double(look().px(kMark)));
  const double x = left + pitch * (head + 0.5);
  const double y = look().px(kEdge) + look().px(kMark) / 2.0 + look().px(kPitch) * int(row);
  return {x - side / 2, y - side / 2, side, side};
}

QColor HeadDrawing::colourOf(Row row, int head) const {
  const int groups = std::min(m_kv, m_own);
  return look().conversationColour(head * groups / std::max(1, headCount(row)) % 8);
}

void HeadDrawing::paintLines(QPainter& painter, Row above, Row below) const {
  const int lines = std::max(headCount(above), headCount(below));
  const bool many = lines > kManyHeads;
  for (int i = 0; i < lines; ++i) {
    const int upper = i * headCount(above) / lines;
    const int lower = i * headCount(below) / lines;
    const QRectF from = mark(above, upper), to = mark(below, lower);
    QColor colour = colourOf(above, upper);
    colour.setAlphaF(many ? 0.6F : 0.9F);
    QPen pen(colour, many ? 1.0 : 1.4 * look().zoom());
    if (below == kOwn) pen.setStyle(Qt::DotLine);  // once, at loading; the others at every token
    painter.setPen(pen);
    const QPointF start(from.center().x(), from.bottom() + 1);
    const QPointF end(to.center().x(), to.top() - 1);
    const double middle = (start.y() + end.y()) / 2;
    QPainterPath path(start);
    path.cubicTo({start.x(), middle}, {end.x(), middle}, end);
    painter.drawPath(path);
  }
}

void HeadDrawing::paintMarks(QPainter& painter, Row row) const {
  MarkPattern pattern = row == kQuery ? MarkPattern::kHollow : MarkPattern::kSolid;
  if (row == kInForce && m_kv > m_own) pattern = MarkPattern::kDotted;
  if (row == kInForce && m_kv < m_own) pattern = MarkPattern::kHatched;
  for (int h = 0; h < headCount(row); ++h) {
    const QRectF area = mark(row, h);
    // A pattern of few pixels is noise.
    const bool small = area.width() < 7;
    paintMark(painter, area, colourOf(row, h), small ? MarkPattern::kSolid : pattern,
              area.width() / 4);
  }
  const QString words[] = {tr("query"), tr("KV"), tr("in the file")};
  const Tokens& t = look().tokens();
  const double lineHeight = look().px(13);
  const QRectF first(0, mark(row, 0).center().y() - lineHeight, look().px(kWords) - 4, lineHeight);
  painter.setFont(look().figureFont(12, QFont::DemiBold));
  painter.setPen(t.text);
  painter.drawText(first, Qt::AlignLeft | Qt::AlignVCenter, QString::number(headCount(row)));
  painter.setFont(look().textFont(10.5));
  painter.setPen(t.muted);
  painter.drawText(first.translated(0, lineHeight), Qt::AlignLeft | Qt::AlignVCenter, words[row]);
}

void HeadDrawing::paintEvent(QPaintEvent*) {
  if (m_heads == 0) return;
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  paintLines(painter, kQuery, kInForce);
  if (rowCount() == 3) paintLines(painter, kInForce, kOwn);
  for (int row = 0; row < rowCount(); ++row) {
    painter.setBrush(Qt::NoBrush);
    paintMarks(painter, Row(row));
  }
}

QString HeadDrawing::describeAt(QPointF position) const {
  for (int index = 0; index < rowCount(); ++index) {
    const auto row = Row(index);
    for (int h = 0; h < headCount(row); ++h) {
      if (!mark(row, h).adjusted(-2, -4, 2, 4).contains(position)) continue;
      const int group = m_heads / m_kv;
      if (row == kQuery) return tr("Query head %1 reads KV head %2").arg(h + 1).arg(h / group + 1);
      if (row == kOwn) return tr("KV head %1 as it is in the model's file").arg(h + 1);
      QString text = group == 1 ? tr("KV head %1, read by query head %2").arg(h + 1).arg(h + 1)
                                : tr("KV head %1, read by query heads %2 to %3")
                                      .arg(h + 1)
                                      .arg(h * group + 1)
                                      .arg((h + 1) * group);
      if (m_kv > m_own) text += tr("; a copy of head %1 of the file").arg(h * m_own / m_kv + 1);
      if (m_kv < m_own) {
        const int pooled = m_own / m_kv;
        text += tr("; the average of heads %1 to %2 of the file")
                    .arg(h * pooled + 1)
                    .arg((h + 1) * pooled);
      }
      return text;
    }
  }
  return {};
}

bool HeadDrawing::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const QString text = m_heads > 0 ? describeAt(help->pos()) : QString();
  if (text.isEmpty()) {
    QToolTip::hideText();
  } else {
    QToolTip::showText(help->globalPos(), text, this);
  }
  return true;
}

}  // namespace vitrine::ui

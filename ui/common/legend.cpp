#include "ui/common/legend.h"

#include <QHelpEvent>
#include <QPainter>
#include <QPainterPath>
#include <QToolTip>
#include <algorithm>

#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kWidestText = 200;

const Theme& look() {
  return Theme::instance();
}

}  // namespace

void paintMark(QPainter& painter, const QRectF& area, const QColor& colour, MarkPattern pattern,
               double corner) {
  painter.save();
  QPainterPath outline;
  outline.addRoundedRect(area, corner, corner);
  switch (pattern) {
    case MarkPattern::kSolid:
      painter.fillPath(outline, colour);
      break;
    case MarkPattern::kHollow: {
      QColor pale = colour;
      pale.setAlphaF(0.25F * float(colour.alphaF()));
      painter.fillPath(outline, pale);
      painter.setPen(QPen(colour, 1));
      painter.drawRoundedRect(area.adjusted(0.5, 0.5, -0.5, -0.5), corner, corner);
      break;
    }
    case MarkPattern::kHatched:
    case MarkPattern::kDotted: {
      QColor pale = colour;
      pale.setAlphaF(0.45F * float(colour.alphaF()));
      painter.fillPath(outline, pale);
      painter.setClipPath(outline, Qt::IntersectClip);
      painter.setPen(QPen(colour, 1.3));
      if (pattern == MarkPattern::kHatched) {
        for (double x = area.left() - area.height(); x < area.right(); x += 4) {
          painter.drawLine(QPointF(x, area.bottom()), QPointF(x + area.height(), area.top()));
        }
      } else {
        painter.setPen(Qt::NoPen);
        painter.setBrush(colour);
        for (double y = area.top() + 2; y < area.bottom(); y += 4) {
          for (double x = area.left() + 2; x < area.right(); x += 4) {
            painter.drawEllipse(QPointF(x, y), 0.9, 0.9);
          }
        }
      }
      break;
    }
  }
  painter.restore();
}

// ------------------------------------------------------------------------------------- legend

Legend::Legend(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Minimum);
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void Legend::setEntries(QVector<Entry> entries) {
  if (entries == m_entries) return;
  const int heightBefore = heightForWidth(width());
  m_entries = std::move(entries);
  QStringList words;
  for (const Entry& entry : std::as_const(m_entries)) words << entry.text + u' ' + entry.value;
  setAccessibleName(words.join(QLatin1String(", ")));
  if (heightForWidth(width()) != heightBefore) updateGeometry();
  update();
}

QVector<QRect> Legend::place(int width) const {
  const int square = look().px(9);
  const int gap = look().px(6);
  const int between = look().px(12);
  const QFontMetrics text(look().textFont(11.5));
  const QFontMetrics figures(look().figureFont(11));
  const int rowHeight = look().px(20);
  QVector<QRect> places;
  int x = 0;
  int y = 0;
  for (const Entry& entry : m_entries) {
    const int textWidth = std::min(text.horizontalAdvance(entry.text), look().px(kWidestText));
    int entryWidth = square + gap + textWidth;
    if (!entry.value.isEmpty()) entryWidth += gap + figures.horizontalAdvance(entry.value);
    entryWidth = std::min(entryWidth, std::max(width, 40));
    if (x > 0 && x + entryWidth > width) {
      x = 0;
      y += rowHeight;
    }
    places.append(QRect(x, y, entryWidth, rowHeight));
    x += entryWidth + between;
  }
  return places;
}

QSize Legend::sizeHint() const {
  const int width = look().px(300);
  return {width, heightForWidth(width)};
}

int Legend::heightForWidth(int width) const {
  const QVector<QRect> places = place(width);
  return places.isEmpty() ? 0 : places.last().bottom() + 1;
}

void Legend::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const QVector<QRect> places = place(width());
  const double square = look().px(9);
  const int gap = look().px(6);
  const QFont textFont = look().textFont(11.5);
  const QFont figureFont = look().figureFont(11);
  const QFontMetrics figures(figureFont);
  for (int i = 0; i < places.size(); ++i) {
    const Entry& entry = m_entries[i];
    QRect area = places[i];
    const QRectF mark(area.x(), area.y() + (area.height() - square) / 2, square, square);
    paintMark(painter, mark, entry.colour, entry.pattern, look().px(2));
    area.setLeft(area.left() + int(square) + gap);
    if (!entry.value.isEmpty()) {
      painter.setFont(figureFont);
      painter.setPen(tokens.text);
      painter.drawText(area, Qt::AlignVCenter | Qt::AlignRight, entry.value);
      area.setRight(area.right() - figures.horizontalAdvance(entry.value) - gap);
    }
    painter.setFont(textFont);
    painter.setPen(tokens.muted);
    painter.drawText(
        area, Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine,
        painter.fontMetrics().elidedText(entry.text, Qt::ElideRight, area.width() + 1));
  }
}

bool Legend::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const QVector<QRect> places = place(width());
  for (int i = 0; i < places.size(); ++i) {
    if (!places[i].contains(help->pos())) continue;
    const Entry& entry = m_entries[i];
    const QString text = entry.toolTip.isEmpty() ? entry.text + u' ' + entry.value : entry.toolTip;
    QToolTip::showText(help->globalPos(), literalToolTip(text), this, places[i]);
    return true;
  }
  QToolTip::hideText();
  return true;
}

// -------------------------------------------------------------------------------- stacked bar

StackedBar::StackedBar(int designHeight, QWidget* parent)
    : QWidget(parent), m_designHeight(designHeight) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void StackedBar::setParts(QVector<Part> parts) {
  m_parts = std::move(parts);
  update();
}

void StackedBar::setWhole(double whole) {
  m_whole = whole;
  update();
}

QSize StackedBar::sizeHint() const {
  return {look().px(60), look().px(m_designHeight)};
}

QRectF StackedBar::partRect(int index) const {
  double sum = 0;
  double before = 0;
  for (int i = 0; i < m_parts.size(); ++i) {
    if (i < index) before += m_parts[i].amount;
    sum += m_parts[i].amount;
  }
  const double whole = std::max(m_whole, sum);
  if (whole <= 0) return {};
  const double scale = width() / whole;
  return {before * scale, 0, m_parts[index].amount * scale, double(height())};
}

void StackedBar::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  QPainterPath outline;
  const double corner = std::min(height() / 2.0, double(look().px(3)));
  outline.addRoundedRect(QRectF(rect()), corner, corner);
  painter.setClipPath(outline);
  painter.fillRect(rect(), look().tokens().line);
  for (int i = 0; i < m_parts.size(); ++i) {
    const QRectF area = partRect(i);
    if (area.width() <= 0) continue;
    paintMark(painter, area.width() > 3 ? area.adjusted(0, 0, -1, 0) : area, m_parts[i].colour,
              m_parts[i].pattern, 0);
  }
}

bool StackedBar::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  for (int i = 0; i < m_parts.size(); ++i) {
    const QRectF area = partRect(i);
    if (!area.contains(help->pos())) continue;
    const QString text = m_parts[i].toolTip.isEmpty() ? m_parts[i].text : m_parts[i].toolTip;
    QToolTip::showText(help->globalPos(), literalToolTip(text), this, area.toAlignedRect());
    return true;
  }
  QToolTip::hideText();
  return true;
}

}  // namespace vitrine::ui

#include "ui/common/plain_label.h"

#include <QPainter>
#include <QStyle>

#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

// The style sheet's name of a style; it sets colour, and size where we do not.
const char* kindOf(LabelStyle style) {
  switch (style) {
    case LabelStyle::kMuted:
      return "muted";
    case LabelStyle::kHeading:
      return "heading";
    case LabelStyle::kTitle:
      return "title";
    case LabelStyle::kFigure:
      return "figure";
    case LabelStyle::kFigureMuted:
      return "figureMuted";
    case LabelStyle::kFault:
      return "fault";
    case LabelStyle::kBody:
    case LabelStyle::kBig:
      break;
  }
  return "";
}

}  // namespace

PlainLabel::PlainLabel(LabelStyle style, QWidget* parent) : PlainLabel({}, style, parent) {}

PlainLabel::PlainLabel(const QString& text, LabelStyle style, QWidget* parent)
    : QLabel(text, parent), m_style(style) {
  setTextFormat(Qt::PlainText);
  setProperty("kind", kindOf(style));
  applyStyle();
  connect(&Theme::instance(), &Theme::changed, this, &PlainLabel::applyStyle);
}

void PlainLabel::setStyle(LabelStyle style) {
  if (style == m_style) return;
  m_style = style;
  setProperty("kind", kindOf(style));
  QLabel::style()->unpolish(this);
  QLabel::style()->polish(this);
  applyStyle();
}

void PlainLabel::setElided(Qt::TextElideMode mode) {
  m_elide = mode;
  setSizePolicy(mode == Qt::ElideNone ? QSizePolicy::Preferred : QSizePolicy::Ignored,
                sizePolicy().verticalPolicy());
  updateGeometry();
  update();
}

QSize PlainLabel::sizeHint() const {
  if (m_elide == Qt::ElideNone) return QLabel::sizeHint();
  return {fontMetrics().horizontalAdvance(text()) + 2, fontMetrics().height()};
}

QSize PlainLabel::minimumSizeHint() const {
  if (m_elide == Qt::ElideNone) return QLabel::minimumSizeHint();
  return {24, fontMetrics().height()};
}

void PlainLabel::applyStyle() {
  const Theme& theme = Theme::instance();
  if (m_style == LabelStyle::kBig) setFont(theme.figureFont(26));
  if (m_style == LabelStyle::kBody) setFont(theme.textFont(13));
}

void PlainLabel::paintEvent(QPaintEvent* event) {
  if (m_elide == Qt::ElideNone) {
    QLabel::paintEvent(event);
    return;
  }
  QPainter painter(this);
  const QString cut = fontMetrics().elidedText(text(), m_elide, contentsRect().width());
  style()->drawItemText(&painter, contentsRect(), int(alignment()) | Qt::TextSingleLine, palette(),
                        isEnabled(), cut, foregroundRole());
}

}  // namespace vitrine::ui

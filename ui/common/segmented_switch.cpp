#include "ui/common/segmented_switch.h"

#include <QAccessible>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QPainterPath>
#include <QToolTip>

#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

int chipHeight() {
  return Theme::instance().px(30);
}
int padding() {
  return Theme::instance().px(10);
}
double corner() {
  return Theme::instance().px(7);
}

}  // namespace

SegmentedSwitch::SegmentedSwitch(QString caption, QVector<Choice> choices, QWidget* parent)
    : QWidget(parent), m_caption(std::move(caption)), m_choices(std::move(choices)) {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  setFont(Theme::instance().textFont(12.5));
  connect(&Theme::instance(), &Theme::changed, this, [this] {
    setFont(Theme::instance().textFont(12.5));
    updateGeometry();
    update();
  });
  describe();
}

void SegmentedSwitch::setChoices(QVector<Choice> choices) {
  m_choices = std::move(choices);
  m_focused = 0;
  m_hovered = -1;
  updateGeometry();
  describe();
  update();
}

void SegmentedSwitch::setCurrent(int index) {
  if (index == m_current) return;
  m_current = index;
  if (index >= 0 && !hasFocus()) m_focused = index;
  describe();
  update();
}

void SegmentedSwitch::setPending(int index) {
  if (index == m_pending) return;
  m_pending = index;
  describe();
  update();
}

void SegmentedSwitch::setCompact(bool compact) {
  if (compact == m_compact) return;
  m_compact = compact;
  updateGeometry();
  update();
}

int SegmentedSwitch::captionWidth() const {
  if (m_compact || m_caption.isEmpty()) return 0;
  return fontMetrics().horizontalAdvance(m_caption) + 2 * padding();
}

QRect SegmentedSwitch::choiceRect(int index) const {
  QFont bold = font();
  bold.setWeight(QFont::DemiBold);
  const QFontMetrics metrics(bold);  // the widest it gets, so that choosing moves nothing
  int x = captionWidth();
  for (int i = 0; i < choiceCount(); ++i) {
    const int width = metrics.horizontalAdvance(m_choices[i].text) + 2 * padding();
    if (i == index) return {x, 0, width, chipHeight()};
    x += width;
  }
  return {x, 0, 0, chipHeight()};
}

QSize SegmentedSwitch::sizeHint() const {
  return {choiceRect(choiceCount()).x(), chipHeight()};
}

int SegmentedSwitch::choiceAt(QPoint position) const {
  for (int i = 0; i < choiceCount(); ++i) {
    if (choiceRect(i).contains(position)) return i;
  }
  return -1;
}

void SegmentedSwitch::choose(int index) {
  if (index < 0 || index >= choiceCount() || !isEnabled() || !m_choices[index].enabled) return;
  m_focused = index;
  update();
  if (index != m_current || m_pending >= 0) emit chosen(index);
}

void SegmentedSwitch::move(int step) {
  for (int i = m_focused + step; i >= 0 && i < choiceCount(); i += step) {
    if (!m_choices[i].enabled) continue;
    m_focused = i;
    describe();
    update();
    return;
  }
}

void SegmentedSwitch::describe() {
  setAccessibleName(m_caption);
  QString state = m_current >= 0 && m_current < choiceCount() ? m_choices[m_current].text
                                                              : tr("nothing chosen");
  if (m_pending >= 0 && m_pending < choiceCount()) {
    state += tr(", changing to %1").arg(m_choices[m_pending].text);
  } else if (hasFocus() && m_focused != m_current && m_focused < choiceCount()) {
    state = tr("%1; press Space for %2").arg(state, m_choices[m_focused].text);
  }
  setAccessibleDescription(state);
  if (hasFocus()) {
    QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
    QAccessible::updateAccessibility(&changed);
  }
}

void SegmentedSwitch::paintEvent(QPaintEvent*) {
  const Tokens& tokens = Theme::instance().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF frame = QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5);
  QPainterPath outline;
  outline.addRoundedRect(frame, corner(), corner());
  painter.fillPath(outline, tokens.raised);

  painter.save();
  painter.setClipPath(outline);
  if (captionWidth() > 0) {
    const QRect area(0, 0, captionWidth(), chipHeight());
    painter.fillRect(area, tokens.panel);
    painter.setPen(tokens.muted);
    painter.drawText(area, Qt::AlignCenter, m_caption);
  }
  for (int i = 0; i < choiceCount(); ++i) {
    const QRect area = choiceRect(i);
    const bool active = i == m_current;
    if (active) painter.fillRect(area, isEnabled() ? tokens.accentFill : tokens.faint);
    QFont type = font();
    if (active) type.setWeight(QFont::DemiBold);
    painter.setFont(type);
    const bool usable = isEnabled() && m_choices[i].enabled;
    painter.setPen(active                             ? tokens.onAccent
                   : !usable                          ? tokens.faint
                   : i == m_hovered || i == m_pending ? tokens.text
                                                      : tokens.muted);
    painter.drawText(area, Qt::AlignCenter, m_choices[i].text);
    if (i == m_pending) {  // under way: a line below, beside the progress that the bar shows
      painter.fillRect(QRect(area.x() + 6, chipHeight() - 4, area.width() - 12, 2), tokens.accent);
    }
    if (i > 0 || captionWidth() > 0) {
      painter.setPen(QPen(tokens.line, 1));
      painter.drawLine(QPointF(area.x() + 0.5, 0), QPointF(area.x() + 0.5, chipHeight()));
    }
    if (hasFocus() && i == m_focused) {
      painter.setBrush(Qt::NoBrush);
      painter.setPen(QPen(active ? tokens.onAccent : tokens.accent, 1.5));
      painter.drawRoundedRect(QRectF(area).adjusted(4, 4, -3, -4), 4, 4);
    }
  }
  painter.restore();
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(tokens.line, 1));
  painter.drawPath(outline);
}

void SegmentedSwitch::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return QWidget::mousePressEvent(event);
  choose(choiceAt(event->pos()));
}

void SegmentedSwitch::mouseMoveEvent(QMouseEvent* event) {
  const int hovered = choiceAt(event->pos());
  if (hovered == m_hovered) return;
  m_hovered = hovered;
  update();
}

void SegmentedSwitch::leaveEvent(QEvent*) {
  m_hovered = -1;
  update();
}

void SegmentedSwitch::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Left:
      return move(layoutDirection() == Qt::RightToLeft ? 1 : -1);
    case Qt::Key_Right:
      return move(layoutDirection() == Qt::RightToLeft ? -1 : 1);
    case Qt::Key_Space:
    case Qt::Key_Return:
    case Qt::Key_Enter:
      return choose(m_focused);
    default:
      QWidget::keyPressEvent(event);
  }
}

void SegmentedSwitch::focusInEvent(QFocusEvent* event) {
  if (m_current >= 0) m_focused = m_current;
  QWidget::focusInEvent(event);
  describe();
}

void SegmentedSwitch::focusOutEvent(QFocusEvent* event) {
  QWidget::focusOutEvent(event);
  describe();
}

bool SegmentedSwitch::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    const int index = choiceAt(help->pos());
    const QString text = index >= 0 ? m_choices[index].toolTip : toolTip();
    if (text.isEmpty()) {
      QToolTip::hideText();
    } else {
      QToolTip::showText(help->globalPos(), literalToolTip(text), this,
                         index >= 0 ? choiceRect(index) : rect());
    }
    return true;
  }
  return QWidget::event(event);
}

}  // namespace vitrine::ui

#include "ui/topbar/chips.h"

#include <QPainter>
#include <algorithm>

#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

const Theme& look() {
  return Theme::instance();
}
int px(double pixels) {
  return look().px(pixels);
}

void paintChip(QPainter& painter, const QRect& rect, bool focused, bool hovered) {
  const Tokens& tokens = look().tokens();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setBrush(hovered ? mix(tokens.raised, tokens.text, 0.06) : tokens.raised);
  painter.setPen(QPen(focused ? tokens.accent : tokens.line, 1));
  painter.drawRoundedRect(QRectF(rect).adjusted(0.5, 0.5, -0.5, -0.5), px(7), px(7));
}

/// At the right end: a click opens a list.
void paintArrow(QPainter& painter, const QRect& rect) {
  const double middle = rect.height() / 2.0 + 1;
  const double x = rect.width() - px(15);
  const double half = px(3.5);
  painter.setPen(QPen(look().tokens().muted, 1.4, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  const QPointF arrow[] = {
      {x - half, middle - half / 2}, {x, middle + half / 2}, {x + half, middle - half / 2}};
  painter.drawPolyline(arrow, 3);
}

template <typename Widget>
void followTheme(Widget* widget) {
  QObject::connect(&Theme::instance(), &Theme::changed, widget, [widget] {
    widget->updateGeometry();
    widget->update();
  });
}

}  // namespace

// ------------------------------------------------------------------------------- model button

ModelButton::ModelButton(QWidget* parent) : QAbstractButton(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setCursor(Qt::PointingHandCursor);
  setAttribute(Qt::WA_Hover);
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  followTheme(this);
}

void ModelButton::setModel(const QString& name, const QString& details, const QString& toolTip) {
  m_name = oneLine(name, 200);
  m_details = details;
  setAccessibleName(tr("Model: %1 %2").arg(m_name, m_details));
  setToolTip(literalToolTip(toolTip));
  updateGeometry();
  update();
}

void ModelButton::setMostWidth(int pixels) {
  if (pixels == m_mostWidth) return;
  m_mostWidth = pixels;
  updateGeometry();
  update();
}

// The name goes before its details, which the tooltip and the switches tell as well.
bool ModelButton::hasRoomForDetails() const {
  return !m_details.isEmpty() && wantedWidth(true) <= px(m_mostWidth);
}

int ModelButton::wantedWidth(bool withDetails) const {
  const int name = QFontMetrics(look().textFont(13, QFont::DemiBold)).horizontalAdvance(m_name);
  const int details = QFontMetrics(look().textFont(12.5)).horizontalAdvance(m_details);
  return px(12) + name + (withDetails ? px(8) + details : 0) + px(26);
}

QSize ModelButton::sizeHint() const {
  return {std::min(wantedWidth(hasRoomForDetails()), px(m_mostWidth)), px(30)};
}

void ModelButton::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  paintChip(painter, rect(), hasFocus(), underMouse());
  const QFont bold = look().textFont(13, QFont::DemiBold);
  const QFont plain = look().textFont(12.5);
  const int left = px(12);
  const int right = width() - px(24);
  const int detailsWidth =
      hasRoomForDetails() ? QFontMetrics(plain).horizontalAdvance(m_details) : 0;
  const int room = right - left - (detailsWidth > 0 ? detailsWidth + px(8) : 0);
  const int nameWidth = std::min(room, QFontMetrics(bold).horizontalAdvance(m_name) + 1);
  painter.setFont(bold);
  painter.setPen(tokens.text);
  painter.drawText(QRect(left, 0, nameWidth, height()), Qt::AlignVCenter | Qt::TextSingleLine,
                   QFontMetrics(bold).elidedText(m_name, Qt::ElideMiddle, nameWidth));
  if (detailsWidth > 0) {
    painter.setFont(plain);
    painter.setPen(tokens.muted);
    painter.drawText(QRect(left + nameWidth + px(8), 0, detailsWidth + 2, height()),
                     Qt::AlignVCenter | Qt::TextSingleLine, m_details);
  }
  paintArrow(painter, rect());
}

// ---------------------------------------------------------------------------------- menu chip

MenuChip::MenuChip(const QString& caption, QWidget* parent)
    : QAbstractButton(parent), m_caption(caption) {
  setFocusPolicy(Qt::StrongFocus);
  setCursor(Qt::PointingHandCursor);
  setAttribute(Qt::WA_Hover);
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  followTheme(this);
}

void MenuChip::setChosen(const QString& chosen) {
  if (chosen == text()) return;
  setText(chosen);
  setAccessibleName(QStringLiteral("%1: %2").arg(m_caption, chosen));
  updateGeometry();
  update();
}

QSize MenuChip::sizeHint() const {
  const QFontMetrics metrics(look().textFont(12.5));
  return {px(10) + metrics.horizontalAdvance(m_caption) + px(6) +
              QFontMetrics(look().textFont(12.5, QFont::DemiBold)).horizontalAdvance(text()) +
              px(26),
          px(30)};
}

void MenuChip::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  paintChip(painter, rect(), hasFocus(), underMouse());
  const QFont plain = look().textFont(12.5);
  painter.setFont(plain);
  painter.setPen(tokens.muted);
  painter.drawText(QRect(px(10), 0, width(), height()), Qt::AlignVCenter, m_caption);
  const int left = px(10) + QFontMetrics(plain).horizontalAdvance(m_caption) + px(6);
  painter.setFont(look().textFont(12.5, QFont::DemiBold));
  painter.setPen(tokens.text);
  painter.drawText(QRect(left, 0, width() - left, height()), Qt::AlignVCenter, text());
  paintArrow(painter, rect());
}

// -------------------------------------------------------------------------------- context bar

ContextBar::ContextBar(QWidget* parent) : QAbstractButton(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setCursor(Qt::PointingHandCursor);
  setAttribute(Qt::WA_Hover);
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  followTheme(this);
  setUse(0, 0);
}

void ContextBar::setUse(int usedTokens, int limitTokens) {
  const QSize before = sizeHint();
  m_used = usedTokens;
  m_limit = limitTokens;
  setAccessibleName(m_limit > 0 ? tr("Context: %1 of %2 tokens").arg(m_used).arg(m_limit)
                                : tr("Context: no model"));
  setToolTip(m_limit > 0 ? tr("%1 of %2 tokens of the context are used; %3 are free.\n"
                              "Click to see what leaves when it is full.")
                               .arg(countText(m_used), countText(m_limit),
                                    countText(std::max(0, m_limit - m_used)))
                         : tr("The context appears once a model is loaded."));
  if (sizeHint() != before) updateGeometry();
  update();
}

void ContextBar::setLevel(int level) {
  if (level == m_level) return;
  m_level = level;
  updateGeometry();
  update();
}

QString ContextBar::figures() const {
  if (m_limit <= 0) return QStringLiteral("–");
  return countText(m_used) + QStringLiteral(" / ") + countText(m_limit);
}

QString ContextBar::caption() const {
  if (m_limit > 0 && m_used >= m_limit * 0.95) return tr("Context full");
  if (m_limit > 0 && m_used >= m_limit * 0.80) return tr("Full soon");
  return tr("Context");
}

QSize ContextBar::sizeHint() const {
  // As wide as it will be at the limit, so that counting up moves nothing.
  const QString widest =
      m_limit > 0 ? countText(m_limit) + QStringLiteral(" / ") + countText(m_limit) : figures();
  int width = 2 * px(10) + QFontMetrics(look().figureFont(12)).horizontalAdvance(widest);
  if (m_level < 2) width += px(m_level == 0 ? 76 : 48) + px(8);
  if (m_level < 1) {
    const QFontMetrics metrics(look().textFont(12.5));
    const int usual = std::max(metrics.horizontalAdvance(tr("Context")),
                               metrics.horizontalAdvance(tr("Full soon")));
    width += std::max(usual, metrics.horizontalAdvance(caption())) + px(8);
  }
  return {width, px(30)};
}

void ContextBar::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  paintChip(painter, rect(), hasFocus(), underMouse());
  const double share = m_limit > 0 ? std::min(1.0, double(m_used) / m_limit) : 0;
  const bool nearLimit = share >= 0.80;
  const bool full = share >= 0.95;
  const QColor colour = full ? tokens.fault : nearLimit ? tokens.prefilled : tokens.accent;
  int x = px(10);
  if (m_level < 1) {
    painter.setFont(look().textFont(12.5));
    painter.setPen(full ? look().ink(tokens.fault) : tokens.muted);
    const int wide = painter.fontMetrics().horizontalAdvance(caption());
    painter.drawText(QRect(x, 0, wide + 2, height()), Qt::AlignVCenter, caption());
    x += wide + px(8);
  }
  if (m_level < 2) {
    const double thick = px(5);
    const QRectF groove(x, (height() - thick) / 2, px(m_level == 0 ? 76 : 48), thick);
    painter.setPen(Qt::NoPen);
    painter.setBrush(mix(tokens.raised, tokens.faint, 0.40));
    painter.drawRoundedRect(groove, thick / 2, thick / 2);
    if (share > 0) {
      painter.setBrush(colour);
      painter.drawRoundedRect(
          QRectF(groove.x(), groove.y(), std::max(thick, groove.width() * share), thick), thick / 2,
          thick / 2);
    }
    x += int(groove.width()) + px(8);
  }
  painter.setFont(look().figureFont(12));
  painter.setPen(full        ? look().ink(tokens.fault)
                 : nearLimit ? look().ink(tokens.prefilled)
                             : tokens.text);
  painter.drawText(QRect(x, 0, width() - px(10) - x, height()), Qt::AlignVCenter | Qt::AlignRight,
                   figures());
}

// -------------------------------------------------------------------------------- device chip

DeviceChip::DeviceChip(QWidget* parent) : QAbstractButton(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setCursor(Qt::PointingHandCursor);
  setAttribute(Qt::WA_Hover);
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  followTheme(this);
}

void DeviceChip::setDevice(const QString& text, const QString& toolTip) {
  setToolTip(literalToolTip(toolTip));
  if (text == m_text) return;
  m_text = text;
  setAccessibleName(tr("Device: %1").arg(text));
  updateGeometry();
  update();
}

void DeviceChip::setBusy(bool busy) {
  if (busy == m_busy) return;
  m_busy = busy;
  setAccessibleDescription(busy ? tr("working") : tr("idle"));
  update();
}

QSize DeviceChip::sizeHint() const {
  const int text = QFontMetrics(look().textFont(12.5)).horizontalAdvance(m_text);
  return {px(10) + px(7) + px(7) + text + px(24), px(30)};
}

void DeviceChip::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  paintChip(painter, rect(), hasFocus(), underMouse());
  const double radius = px(7) / 2.0;
  painter.setPen(QPen(tokens.accent, 1.3));
  painter.setBrush(m_busy ? tokens.accent : QColor(Qt::transparent));
  painter.drawEllipse(QPointF(px(10) + radius, height() / 2.0), radius - 0.5, radius - 0.5);
  painter.setFont(look().textFont(12.5));
  painter.setPen(tokens.text);
  painter.drawText(QRect(px(24), 0, width() - px(24), height()), Qt::AlignVCenter, m_text);
  paintArrow(painter, rect());
}

}  // namespace vitrine::ui

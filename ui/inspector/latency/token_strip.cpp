#include "ui/inspector/latency/token_strip.h"

#include <QCoreApplication>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "engine/base/percentile.h"
#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

const Theme& look() {
  return Theme::instance();
}

constexpr double kLabels = 78;  // room for the two lines' figures
constexpr double kWidestSlot = 9;

}  // namespace

StallLook lookOf(engine::StallCause cause) {
  const Tokens& t = look().tokens();
  const auto tr = [](const char* text) {
    return QCoreApplication::translate("vitrine::ui::TokenStrip", text);
  };
  switch (cause) {
    case engine::StallCause::kOthersPrefill:
      return {tr("others' prefill"), tr("The step also read prompt tokens of other chats"),
              t.prefilled, MarkPattern::kHatched};
    case engine::StallCause::kLargerBatch:
      return {tr("larger batch"), tr("More chats were in the step"), t.information,
              MarkPattern::kDotted};
    case engine::StallCause::kPutBack:
      return {tr("put back"),
              tr("The blocks went to an older chat for a while and were computed again"), t.fault,
              MarkPattern::kSolid};
    case engine::StallCause::kSystem:
      return {tr("system"), tr("The step itself took long: the machine did something else"),
              t.faint, MarkPattern::kHollow};
    case engine::StallCause::kNone:
      break;
  }
  return {tr("token"), tr("A step of this answer alone"), t.generated, MarkPattern::kSolid};
}

TokenStrip::TokenStrip(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setMouseTracking(true);
  setFocusPolicy(Qt::TabFocus);
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void TokenStrip::setTokens(std::vector<Token> tokens) {
  if (tokens == m_tokens) return;
  m_tokens = std::move(tokens);
  std::vector<float> times;
  times.reserve(m_tokens.size());
  for (const Token& token : m_tokens) times.push_back(token.milliseconds);
  // As the engine has it: what a token really took.
  m_p50 = engine::nearestRank(times, 0.50);
  m_p95 = engine::nearestRank(times, 0.95);
  m_largest = times.empty() ? 0 : *std::max_element(times.begin(), times.end());
  if (m_pointed >= columnCount()) point(-1);
  setAccessibleDescription(
      tr("%1; median %2, 95th percentile %3, longest %4")
          .arg(pluralText(qint64(m_tokens.size()), tr("%1 token"), tr("%1 tokens")),
               millisecondsText(m_p50), millisecondsText(m_p95), millisecondsText(m_largest)));
  update();
}

int TokenStrip::stalls(engine::StallCause cause) const {
  return int(std::count_if(m_tokens.begin(), m_tokens.end(),
                           [cause](const Token& token) { return token.cause == cause; }));
}

QSize TokenStrip::sizeHint() const {
  return {look().px(200), look().px(84)};
}

QRectF TokenStrip::plotArea() const {
  return QRectF(rect()).adjusted(0, 5, -look().px(kLabels), -1);
}

int TokenStrip::columnCount() const {
  return std::min(int(m_tokens.size()), std::max(1, int(plotArea().width() / 2)));
}

double TokenStrip::slotWidth() const {
  return std::min(plotArea().width() / std::max(1, columnCount()), double(look().px(kWidestSlot)));
}

TokenStrip::Column TokenStrip::columnAt(int column) const {
  const auto count = std::int64_t(m_tokens.size());
  const int columns = columnCount();
  const int first = int(column * count / columns);
  const int end = std::max(first + 1, int((column + 1) * count / columns));
  const auto largest = std::max_element(
      m_tokens.begin() + first, m_tokens.begin() + end,
      [](const Token& a, const Token& b) { return a.milliseconds < b.milliseconds; });
  return {int(largest - m_tokens.begin()), end - first};
}

// One stall must not press all other bars flat: bars above are cut, and marked.
double TokenStrip::top() const {
  return std::max(0.001, std::min(m_largest, 2.5 * std::max(m_p95, m_p50 * 1.2)));
}

QString TokenStrip::describe(int column) const {
  if (column < 0 || column >= columnCount()) return {};
  const Column at = columnAt(column);
  const Token& token = m_tokens[std::size_t(at.token)];
  QString words = tr("token %1 · %2").arg(at.token + 2).arg(millisecondsText(token.milliseconds));
  if (token.cause != engine::StallCause::kNone)
    words += QStringLiteral(" · ") + lookOf(token.cause).word;
  if (m_textOf) {
    const QString text = m_textOf(at.token + 1);
    if (!text.isEmpty()) words += QStringLiteral(" · “%1”").arg(text);
  }
  if (at.count > 1) words += tr(" · longest of %1").arg(at.count);
  return words;
}

QString TokenStrip::describeAt(int x) const {
  return m_tokens.empty() ? QString() : describe(int(std::floor(x / slotWidth())));
}

void TokenStrip::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  const QRectF area = plotArea();
  painter.setPen(QPen(tokens.line, 1));
  painter.drawLine(area.bottomLeft(), area.bottomRight());
  if (m_tokens.empty()) {
    painter.setFont(look().textFont(12));
    painter.setPen(tokens.muted);
    painter.drawText(rect(), Qt::AlignCenter | Qt::TextWordWrap,
                     tr("A bar for each token of the answer."));
    return;
  }
  const double slot = slotWidth();
  const int columns = columnCount();
  for (int column = 0; column < columns; ++column) {
    const Token& token = m_tokens[std::size_t(columnAt(column).token)];
    const double share = std::min(1.0, token.milliseconds / top());
    const double tall = std::max(1.0, area.height() * share);
    const QRectF bar(area.left() + column * slot, area.bottom() - tall,
                     std::max(1.0, slot - (slot >= 3 ? 1 : 0.5)), tall);
    const StallLook mark = lookOf(token.cause);
    if (bar.width() < 4) {
      painter.fillRect(bar, mark.colour);
    } else {
      paintMark(painter, bar, mark.colour, mark.pattern, 0);
    }
    if (token.milliseconds > top() * 1.001) {
      painter.fillRect(QRectF(bar.x(), area.top() - 4, bar.width(), 2), tokens.text);
    }
    if (column == m_pointed) {
      painter.setPen(QPen(tokens.text, 1));
      painter.drawRect(bar.adjusted(-0.5, -0.5, 0.5, 0));
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
  if (hasFocus()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(tokens.accent, 1));
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
  }
}

void TokenStrip::point(int column) {
  if (column == m_pointed) return;
  m_pointed = column;
  emit pointed(describe(column));
  update();
}

void TokenStrip::mouseMoveEvent(QMouseEvent* event) {
  const int column = m_tokens.empty() ? -1 : int(std::floor(event->pos().x() / slotWidth()));
  point(column >= 0 && column < columnCount() ? column : -1);
}

void TokenStrip::leaveEvent(QEvent*) {
  point(-1);
}

void TokenStrip::focusOutEvent(QFocusEvent* event) {
  QWidget::focusOutEvent(event);
  point(-1);
}

void TokenStrip::keyPressEvent(QKeyEvent* event) {
  const bool left = event->key() == Qt::Key_Left;
  if ((!left && event->key() != Qt::Key_Right) || m_tokens.empty()) {
    return QWidget::keyPressEvent(event);
  }
  const int last = columnCount() - 1;
  point(m_pointed < 0 ? (left ? last : 0) : std::clamp(m_pointed + (left ? -1 : 1), 0, last));
}

bool TokenStrip::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip || m_tokens.empty()) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const QString words = describeAt(help->pos().x());
  if (words.isEmpty()) {
    QToolTip::hideText();
  } else {
    QToolTip::showText(help->globalPos(), literalToolTip(words), this);
  }
  return true;
}

}  // namespace vitrine::ui

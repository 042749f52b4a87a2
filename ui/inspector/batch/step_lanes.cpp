#include "ui/inspector/batch/step_lanes.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kTitleHeight = 17;
constexpr int kCellHeight = 20;
constexpr int kLaneGap = 6;
constexpr int kTimeHeight = 34;
constexpr double kPauseMs = 200;  // a pause between steps that is marked

const Theme& look() {
  return Theme::instance();
}

double gapBefore(const std::vector<engine::StepRecord>& steps, std::size_t index) {
  if (index == 0) return 0;
  const std::chrono::duration<double, std::milli> gap = steps[index].start - steps[index - 1].start;
  return gap.count() - steps[index - 1].milliseconds;
}

}  // namespace

StepLanes::StepLanes(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void StepLanes::setSteps(std::span<const engine::StepRecord> steps, int mostColumns,
                         const std::function<Look(const QString&)>& lookOf) {
  const std::size_t lanesBefore = m_lanes.size();
  const std::uint64_t pointedAt =
      m_selected >= 0 && m_selected < columnCount() ? m_steps[std::size_t(m_selected)].number : 0;
  if (steps.size() > std::size_t(mostColumns)) steps = steps.last(std::size_t(mostColumns));
  m_columns = mostColumns;
  m_steps.assign(steps.begin(), steps.end());
  m_lanes.clear();
  m_mostPrefill = 1;
  m_longestMs = 0.001F;
  for (const engine::StepRecord& step : m_steps) {
    m_longestMs = std::max(m_longestMs, step.milliseconds);
    for (const engine::StepRow& row : step.rows) {
      m_mostPrefill = std::max(m_mostPrefill, row.prefillTokens);
      if (laneOf(row.conversation) >= 0) continue;
      const QString key = QString::fromStdString(row.conversation);
      const Look shown = lookOf(key);
      m_lanes.push_back({key, oneLine(shown.title, 60), shown.colour});
    }
  }
  // The step that was pointed at moves to the left.
  m_selected = -1;
  for (std::size_t i = 0; i < m_steps.size() && pointedAt > 0; ++i) {
    if (m_steps[i].number == pointedAt) m_selected = int(i);
  }
  if (pointedAt > 0 && m_selected < 0) emit stepPointedAt({});
  QStringList names;
  for (const Lane& lane : m_lanes) names << lane.title;
  setAccessibleDescription(
      m_steps.empty()
          ? tr("no step yet")
          : tr("%1 steps; %2").arg(m_steps.size()).arg(names.join(QLatin1String(", "))));
  if (m_lanes.size() != lanesBefore) updateGeometry();
  update();
}

int StepLanes::laneOf(const std::string& conversation) const {
  const QString key = QString::fromStdString(conversation);
  for (std::size_t i = 0; i < m_lanes.size(); ++i) {
    if (m_lanes[i].key == key) return int(i);
  }
  return -1;
}

double StepLanes::pitch() const {
  return std::max(1.0, double(width()) / std::max(1, m_columns));
}

double StepLanes::laneTop(int lane) const {
  return lane * look().px(kTitleHeight + kCellHeight + kLaneGap);
}

double StepLanes::timeTop() const {
  return laneTop(std::max(1, laneCount())) + look().px(kTitleHeight);
}

QSize StepLanes::sizeHint() const {
  return {look().px(300), int(timeTop()) + look().px(kTimeHeight)};
}

QRectF StepLanes::cellRect(int column, int lane) const {
  const double wide = pitch();
  const double x = width() - wide * (columnCount() - column);
  const double gap = wide >= 3 ? 1 : 0;
  return {x, laneTop(lane) + look().px(kTitleHeight), wide - gap, double(look().px(kCellHeight))};
}

int StepLanes::columnAt(double x) const {
  const int column = columnCount() - int(std::ceil((width() - x) / pitch()));
  return column >= 0 && column < columnCount() ? column : -1;
}

QString StepLanes::describe(int column) const {
  const engine::StepRecord& step = m_steps[std::size_t(column)];
  QStringList lines{
      tr("Step %1 · %2").arg(countText(step.number), millisecondsText(step.milliseconds))};
  for (const engine::StepRow& row : step.rows) {
    const int lane = laneOf(row.conversation);
    QStringList parts;
    if (row.prefillTokens > 0) {
      parts << pluralText(quint64(row.prefillTokens), tr("%1 token prefilled"),
                          tr("%1 tokens prefilled"));
    }
    if (row.decodeTokens > 0) {
      parts << pluralText(quint64(row.decodeTokens), tr("%1 token generated"),
                          tr("%1 tokens generated"));
    }
    lines << tr("%1: %2").arg(lane < 0 ? QString() : m_lanes[std::size_t(lane)].title,
                              parts.join(QLatin1String(", ")));
  }
  if (step.waiting > 0) lines << tr("%1 waiting").arg(step.waiting);
  return lines.join(QLatin1Char('\n'));
}

void StepLanes::paintEvent(QPaintEvent*) {
  const Tokens& t = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const double cellHeight = look().px(kCellHeight);
  for (int lane = 0; lane < laneCount(); ++lane) {
    const Lane& shown = m_lanes[std::size_t(lane)];
    const double top = laneTop(lane);
    const double dot = look().px(8);
    painter.setPen(Qt::NoPen);
    painter.setBrush(shown.colour);
    painter.drawRoundedRect(QRectF(0, top + (look().px(kTitleHeight) - dot) / 2 - 1, dot, dot), 2,
                            2);
    painter.setFont(look().textFont(11.5));
    painter.setPen(t.text);
    const QRectF title(dot + look().px(6), top, width() - dot - look().px(6),
                       look().px(kTitleHeight) - 2);
    painter.drawText(
        title, Qt::AlignVCenter | Qt::TextSingleLine,
        QFontMetricsF(painter.font()).elidedText(shown.title, Qt::ElideRight, title.width()));
    painter.setPen(Qt::NoPen);
    painter.setBrush(t.raised);
    painter.drawRect(QRectF(0, top + look().px(kTitleHeight), width(), cellHeight));
  }
  if (m_selected >= 0) {
    const QRectF cell = cellRect(m_selected, 0);
    painter.setPen(Qt::NoPen);
    painter.setBrush(mix(t.panel, t.text, 0.14));
    painter.drawRect(
        QRectF(cell.x() - 0.5, cell.y(), std::max(2.0, cell.width() + 1), height() - cell.y()));
  }
  painter.setRenderHint(QPainter::Antialiasing, false);
  const double foot = look().px(6);
  for (int column = 0; column < columnCount(); ++column) {
    const engine::StepRecord& step = m_steps[std::size_t(column)];
    int prefill = 0;
    for (const engine::StepRow& row : step.rows) {
      const QRectF cell = cellRect(column, laneOf(row.conversation));
      prefill += row.prefillTokens;
      double bottom = cell.bottom();
      if (row.decodeTokens > 0) {
        painter.fillRect(QRectF(cell.x(), bottom - foot, cell.width(), foot), t.generated);
        bottom -= foot;
      }
      if (row.prefillTokens > 0) {
        // By the logarithm: one token is seen beside a chunk of hundreds.
        const double share = std::log2(1.0 + row.prefillTokens) / std::log2(1.0 + m_mostPrefill);
        const double high = std::min(bottom - cell.y(), 3 + (cellHeight - 3) * share);
        painter.fillRect(QRectF(cell.x(), bottom - high, cell.width(), high), t.prefilled);
      }
    }
    // The time of the step, in the colour of what it did most of.
    const double high = std::max(
        1.0, (look().px(kTimeHeight) - 2) * double(step.milliseconds) / double(m_longestMs));
    const QRectF cell = cellRect(column, 0);
    painter.fillRect(QRectF(cell.x(), height() - high, cell.width(), high),
                     mix(t.panel, prefill > 0 ? t.prefilled : t.generated, 0.65));
    if (gapBefore(m_steps, std::size_t(column)) >= kPauseMs) {
      painter.setPen(QPen(t.muted, 1, Qt::DotLine));
      const double x = cell.x() - 0.5;
      painter.drawLine(QPointF(x, look().px(kTitleHeight)), QPointF(x, height()));
    }
  }
  painter.setFont(look().textFont(11.5));
  painter.setPen(t.muted);
  painter.drawText(QRectF(0, laneTop(std::max(1, laneCount())), width(), look().px(kTitleHeight)),
                   Qt::AlignVCenter | Qt::AlignLeft,
                   tr("Time of each step, up to %1").arg(millisecondsText(m_longestMs)));
  if (hasFocus()) {
    painter.setPen(QPen(t.accent, 1));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(rect().adjusted(0, 0, -1, -1));
  }
}

void StepLanes::select(int column) {
  if (column == m_selected) return;
  m_selected = column;
  emit stepPointedAt(column >= 0 ? describe(column) : QString());
  update();
}

void StepLanes::mouseMoveEvent(QMouseEvent* event) {
  select(columnAt(event->position().x()));
}

void StepLanes::leaveEvent(QEvent*) {
  if (!hasFocus()) select(-1);
}

void StepLanes::focusOutEvent(QFocusEvent* event) {
  QWidget::focusOutEvent(event);
  if (!underMouse()) select(-1);
}

void StepLanes::keyPressEvent(QKeyEvent* event) {
  const int last = columnCount() - 1;
  const int from = m_selected < 0 ? last : m_selected;
  switch (event->key()) {
    case Qt::Key_Left:
      return select(std::max(0, m_selected < 0 ? last : from - 1));
    case Qt::Key_Right:
      return select(std::min(last, from + 1));
    case Qt::Key_Home:
      return select(last < 0 ? -1 : 0);
    case Qt::Key_End:
      return select(last);
    default:
      QWidget::keyPressEvent(event);
  }
}

}  // namespace vitrine::ui

#include "ui/replay/divergence_strip.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr double kCell = 8, kLine = 26, kDot = 4;
constexpr int kMostLines = 8;

const Theme& look() {
  return Theme::instance();
}

}  // namespace

// From 1e-4 (nothing) to 1 nat (another answer), in powers of ten.
double divergenceLevel(double divergence) {
  return std::clamp((std::log10(std::max(divergence, 1e-9)) + 4.0) / 4.0, 0.0, 1.0);
}

QColor divergenceColour(double divergence) {
  const Tokens& t = look().tokens();
  const double level = divergenceLevel(divergence);
  return level < 0.5 ? mix(mix(t.panel, t.information, 0.55), t.information, 2 * level)
                     : mix(t.information, t.fault, 2 * level - 1);
}

DivergenceStrip::DivergenceStrip(QWidget* parent) : QWidget(parent) {
  QSizePolicy policy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  policy.setHeightForWidth(true);
  setSizePolicy(policy);
  setMouseTracking(true);
  setFocusPolicy(Qt::TabFocus);
  setAccessibleName(tr("Difference of each token of the answers"));
  connect(&look(), &Theme::changed, this, [this] {
    merge(width());
    updateGeometry();
    update();
  });
}

void DivergenceStrip::setReport(const engine::ReplayReport& report) {
  m_tokens.clear();
  int differing = 0;
  for (std::size_t i = 0; i < report.tokens.size(); ++i) {
    const engine::ReplayToken& token = report.tokens[i];
    if (!token.scored) continue;
    const bool differs = token.best[0] != token.best[1];
    differing += differs ? 1 : 0;
    m_tokens.push_back({int(i), token.divergence, differs, int(i) == report.firstDivergence});
  }
  m_pointed = -1;
  merge(width());
  setAccessibleDescription(
      tr("%1; %2 with another best token; KL mean %3")
          .arg(pluralText(qint64(m_tokens.size()), tr("%1 token"), tr("%1 tokens")))
          .arg(differing)
          .arg(report.klMean, 0, 'g', 3));
  updateGeometry();
  update();
}

int DivergenceStrip::perLine(int width) const {
  return std::max(1, int(width / look().px(kCell)));
}

void DivergenceStrip::merge(int width) {
  const std::size_t most = std::size_t(perLine(width)) * kMostLines;
  if (m_tokens.size() <= most) {
    m_cells = m_tokens;
    return;
  }
  m_cells.clear();
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t begin = i * m_tokens.size() / most;
    const std::size_t end = (i + 1) * m_tokens.size() / most;
    Cell cell = m_tokens[begin];
    for (std::size_t j = begin + 1; j < end; ++j) {
      const Cell& other = m_tokens[j];
      const bool first = cell.first || other.first;
      const bool differs = cell.differs || other.differs;
      if (other.first || (!cell.first && other.divergence > cell.divergence)) cell = other;
      cell.first = first;
      cell.differs = differs;
    }
    m_cells.push_back(cell);
  }
}

QSize DivergenceStrip::sizeHint() const {
  return {look().px(320), heightForWidth(std::max(width(), look().px(320)))};
}

int DivergenceStrip::heightForWidth(int width) const {
  const int line = perLine(width);
  const int lines = (int(m_tokens.size()) + line - 1) / line;
  return int(std::ceil(look().px(kLine) * std::clamp(lines, 1, kMostLines)));
}

QRectF DivergenceStrip::cellRect(int cell) const {
  const int line = perLine(width());
  const double tall = look().px(kLine);
  const double wide = look().px(kCell);
  return {(cell % line) * wide, (cell / line) * tall + kDot + 2, wide - 1.5, tall - kDot - 6};
}

int DivergenceStrip::cellAt(const QPointF& position) const {
  const int line = perLine(width());
  const int column = int(std::floor(position.x() / look().px(kCell)));
  const int row = int(std::floor(position.y() / look().px(kLine)));
  if (column < 0 || column >= line || row < 0) return -1;
  const int cell = row * line + column;
  return cell < int(m_cells.size()) ? cell : -1;
}

void DivergenceStrip::paintEvent(QPaintEvent*) {
  const Tokens& t = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  for (int i = 0; i < int(m_cells.size()); ++i) {
    const Cell& cell = m_cells[std::size_t(i)];
    const QRectF area = cellRect(i);
    painter.setPen(Qt::NoPen);
    painter.setBrush(t.raised);
    painter.drawRect(area);
    const double tall =
        std::max(2.0, area.height() * (0.15 + 0.85 * divergenceLevel(cell.divergence)));
    painter.setBrush(divergenceColour(cell.divergence));
    painter.drawRect(QRectF(area.x(), area.bottom() - tall, area.width(), tall));
    if (cell.differs) {
      painter.setBrush(t.text);
      painter.drawEllipse(QPointF(area.center().x(), area.top() - 1 - kDot / 2.0), kDot / 2.0,
                          kDot / 2.0);
    }
    if (cell.first || i == m_pointed) {
      painter.setBrush(Qt::NoBrush);
      painter.setPen(QPen(t.text, cell.first ? 1.6 : 1.0));
      painter.drawRect(area.adjusted(-0.5, -0.5, 0.5, 0.5));
    }
  }
  if (hasFocus()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(t.accent, 1));
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
  }
}

void DivergenceStrip::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  merge(width());
}

void DivergenceStrip::point(int cell) {
  if (cell == m_pointed) return;
  m_pointed = cell;
  const bool any = cell >= 0 && cell < int(m_cells.size()) && m_words;
  emit pointed(any ? m_words(m_cells[std::size_t(cell)].token) : QString());
  update();
}

void DivergenceStrip::mouseMoveEvent(QMouseEvent* event) {
  point(cellAt(event->position()));
}

void DivergenceStrip::mousePressEvent(QMouseEvent* event) {
  const int cell = cellAt(event->position());
  if (cell >= 0) emit chosen(m_cells[std::size_t(cell)].token);
}

void DivergenceStrip::leaveEvent(QEvent*) {
  point(-1);
}

void DivergenceStrip::focusOutEvent(QFocusEvent* event) {
  QWidget::focusOutEvent(event);
  point(-1);
}

void DivergenceStrip::keyPressEvent(QKeyEvent* event) {
  const int last = int(m_cells.size()) - 1;
  const int line = perLine(width());
  int step = 0;
  if (event->key() == Qt::Key_Left) step = -1;
  if (event->key() == Qt::Key_Right) step = 1;
  if (event->key() == Qt::Key_Up) step = -line;
  if (event->key() == Qt::Key_Down) step = line;
  if (last >= 0 && m_pointed >= 0 && event->key() == Qt::Key_Return) {
    emit chosen(m_cells[std::size_t(m_pointed)].token);
    return;
  }
  if (step == 0 || last < 0) return QWidget::keyPressEvent(event);
  point(m_pointed < 0 ? 0 : std::clamp(m_pointed + step, 0, last));
}

}  // namespace vitrine::ui

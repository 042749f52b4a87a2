#include "ui/inspector/cache/block_map.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kMostCells = 2400;  // more cannot be told apart in this width
constexpr int kTallest = 190;     // design pixels

const Theme& look() {
  return Theme::instance();
}

}  // namespace

BlockMap::BlockMap(QWidget* parent) : QWidget(parent) {
  QSizePolicy policy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  policy.setHeightForWidth(true);
  setSizePolicy(policy);
  setFocusPolicy(Qt::TabFocus);
  setAccessibleName(tr("Block map"));
  connect(&look(), &Theme::changed, this, [this] {
    m_layout = layOut(width());
    updateGeometry();
    update();
  });
}

void BlockMap::setBlocks(std::shared_ptr<const engine::EngineSnapshot> snapshot,
                         QVector<QColor> colours, QStringList names) {
  m_snapshot = std::move(snapshot);
  m_colours = std::move(colours);
  m_names = std::move(names);
  const int rowsBefore = m_layout.rows;
  const double pitchBefore = m_layout.pitch;
  m_layout = layOut(width());
  if (m_layout.rows != rowsBefore || m_layout.pitch != pitchBefore) updateGeometry();
  setAccessibleDescription(tr("%1 blocks: %2 in use now, %3 kept for later, %4 free")
                               .arg(m_snapshot->blocks.size())
                               .arg(m_snapshot->blocksUsed)
                               .arg(m_snapshot->blocksCached)
                               .arg(m_snapshot->blocksFree));
  update();
}

// All blocks up to the last that holds something, and some free ones behind it.
int BlockMap::shownBlocks() const {
  if (!m_snapshot) return 0;
  const auto& blocks = m_snapshot->blocks;
  int last = int(blocks.size()) - 1;
  while (last >= 0 && blocks[std::size_t(last)].state == engine::BlockState::kFree) --last;
  const int wanted = std::max({last + 1 + 32, (last + 1) * 5 / 4, 128});
  const int rounded = (wanted + 31) / 32 * 32;
  return std::min(rounded, int(blocks.size()));
}

int BlockMap::hiddenFreeBlocks() const {
  return m_snapshot ? int(m_snapshot->blocks.size()) - shownBlocks() : 0;
}

BlockMap::Layout BlockMap::layOut(int width) const {
  Layout layout;
  const int blocks = shownBlocks();
  if (blocks == 0 || width <= 0) return layout;
  layout.blocksPerCell = (blocks + kMostCells - 1) / kMostCells;
  layout.cells = (blocks + layout.blocksPerCell - 1) / layout.blocksPerCell;
  const double tallest = look().px(kTallest);
  for (const int columns : {32, 40, 48, 56, 64, 72, 80}) {
    layout.columns = columns;
    layout.pitch = double(width) / columns;
    layout.rows = (layout.cells + columns - 1) / columns;
    if (layout.rows * layout.pitch <= tallest) break;
  }
  layout.side = layout.pitch - (layout.pitch > 7 ? 2.0 : 1.0);
  return layout;
}

QSize BlockMap::sizeHint() const {
  const int width = look().px(332);
  return {width, heightForWidth(width)};
}

int BlockMap::heightForWidth(int width) const {
  const Layout layout = layOut(width);
  return std::max(look().px(16), int(std::ceil(layout.rows * layout.pitch)));
}

void BlockMap::resizeEvent(QResizeEvent*) {
  m_layout = layOut(width());
}

QRectF BlockMap::cellRect(int cell) const {
  const int row = cell / m_layout.columns;
  const int column = cell % m_layout.columns;
  return {column * m_layout.pitch, row * m_layout.pitch, m_layout.side, m_layout.side};
}

int BlockMap::cellAt(QPoint position) const {
  if (m_layout.cells == 0) return -1;
  const int column = int(position.x() / m_layout.pitch);
  const int row = int(position.y() / m_layout.pitch);
  const int cell = row * m_layout.columns + column;
  return column >= 0 && column < m_layout.columns && cell < m_layout.cells ? cell : -1;
}

QString BlockMap::describeCell(int cell) const {
  if (!m_snapshot || cell < 0) return {};
  const int first = cell * m_layout.blocksPerCell;
  QStringList lines;
  for (int i = first; i < first + m_layout.blocksPerCell && i < int(m_snapshot->blocks.size());
       ++i) {
    const engine::BlockCell& block = m_snapshot->blocks[std::size_t(i)];
    if (block.state == engine::BlockState::kFree) {
      lines << tr("Block %1: free").arg(i);
      continue;
    }
    const bool owned = block.owner >= 0 && block.owner < m_names.size();
    QString line = tr("Block %1: %2, %3 of %4 tokens")
                       .arg(i)
                       .arg(owned ? m_names[block.owner] : tr("a chat that is gone"))
                       .arg(block.filled)
                       .arg(m_snapshot->shape.blockSize);
    if (block.references > 1) line += tr(", shared by %1").arg(block.references);
    line += block.state == engine::BlockState::kUsed ? tr(", in use now") : tr(", kept for reuse");
    lines << line;
  }
  return lines.join(u'\n');
}

void BlockMap::paintEvent(QPaintEvent*) {
  if (!m_snapshot || m_layout.cells == 0) return;
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(Qt::NoPen);
  const double corner = std::min(2.0, m_layout.side / 4);
  const double blockSize = std::max(1, m_snapshot->shape.blockSize);
  const QColor freeColour = mix(tokens.panel, tokens.faint, tokens.dark ? 0.28 : 0.30);
  const auto& blocks = m_snapshot->blocks;
  for (int cell = 0; cell < m_layout.cells; ++cell) {
    const QRectF area = cellRect(cell);
    // The cell shows the fullest of its blocks (nearly always there is one block a cell).
    const std::size_t first = std::size_t(cell) * std::size_t(m_layout.blocksPerCell);
    const std::size_t end = std::min(first + std::size_t(m_layout.blocksPerCell), blocks.size());
    const engine::BlockCell* shown = &blocks[first];
    for (std::size_t i = first; i < end; ++i) {
      if (blocks[i].state > shown->state || blocks[i].filled > shown->filled) shown = &blocks[i];
    }
    if (shown->state == engine::BlockState::kFree) {
      painter.setBrush(freeColour);
      painter.drawRoundedRect(area, corner, corner);
      continue;
    }
    const bool owned = shown->owner >= 0 && shown->owner < m_colours.size();
    const QColor colour = owned ? m_colours[shown->owner] : tokens.muted;
    const double filled = std::min(1.0, shown->filled / blockSize);
    if (filled < 1) {
      painter.setBrush(mix(tokens.panel, colour, 0.30));
      painter.drawRoundedRect(area, corner, corner);
    }
    painter.setBrush(colour);
    painter.drawRoundedRect(QRectF(area.x(), area.y(), area.width() * filled, area.height()),
                            corner, corner);
    if (shown->references > 1 && m_layout.side >= 5) {  // a corner in the panel's colour
      const double notch = m_layout.side * 0.42;
      const QPointF tip = area.topRight();
      const QPointF triangle[] = {tip, tip - QPointF(notch, 0), tip + QPointF(0, notch)};
      painter.setBrush(tokens.panel);
      painter.drawPolygon(triangle, 3);
    }
    if (shown->state == engine::BlockState::kUsed && m_layout.side >= 5) {
      painter.setBrush(Qt::NoBrush);
      painter.setPen(QPen(tokens.text, 1));
      painter.drawRoundedRect(area.adjusted(0.5, 0.5, -0.5, -0.5), corner, corner);
      painter.setPen(Qt::NoPen);
    }
  }
  if (hasFocus() && m_focused >= 0) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(tokens.text, 2));
    painter.drawRect(cellRect(m_focused).adjusted(-1, -1, 1, 1));
  }
}

void BlockMap::keyPressEvent(QKeyEvent* event) {
  int step = 0;
  switch (event->key()) {
    case Qt::Key_Left:
      step = -1;
      break;
    case Qt::Key_Right:
      step = 1;
      break;
    case Qt::Key_Up:
      step = -m_layout.columns;
      break;
    case Qt::Key_Down:
      step = m_layout.columns;
      break;
    default:
      return QWidget::keyPressEvent(event);
  }
  if (m_layout.cells == 0) return;
  const int next = m_focused < 0 ? 0 : m_focused + step;
  m_focused = std::clamp(next, 0, m_layout.cells - 1);
  setAccessibleDescription(describeCell(m_focused));
  QToolTip::showText(mapToGlobal(cellRect(m_focused).bottomRight().toPoint()),
                     literalToolTip(describeCell(m_focused)), this);
  update();
}

bool BlockMap::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const int cell = cellAt(help->pos());
  if (cell < 0) {
    QToolTip::hideText();
  } else {
    QToolTip::showText(help->globalPos(), literalToolTip(describeCell(cell)), this,
                       cellRect(cell).toAlignedRect());
  }
  return true;
}

}  // namespace vitrine::ui

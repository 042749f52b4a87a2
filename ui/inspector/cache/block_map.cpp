#include "ui/inspector/cache/block_map.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QPainterPath>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kFewBlocks = 1024;    // a pool that is drawn whole in the inspector
constexpr double kTallest = 190;    // design pixels of the inspector's map
constexpr double kSmallMark = 5;    // a cell must have this side for marks on it
constexpr double kNumberSide = 15;  // and this for a number in it
constexpr int kMostNames = 4;

const Theme& look() {
  return Theme::instance();
}

}  // namespace

BlockMap::BlockMap(Extent extent, QWidget* parent) : QWidget(parent), m_extent(extent) {
  QSizePolicy policy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  policy.setHeightForWidth(true);
  setSizePolicy(policy);
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setAccessibleName(tr("Block map"));
  connect(&look(), &Theme::changed, this, [this] {
    m_layout = layOut(width());
    updateGeometry();
    update();
  });
}

void BlockMap::setBlocks(std::shared_ptr<const engine::EngineSnapshot> snapshot,
                         QVector<BlockOwnerLook> looks) {
  m_snapshot = std::move(snapshot);
  m_looks = std::move(looks);
  m_others.assign(m_snapshot->blocks.size(), -1);
  for (std::size_t owner = 0; owner < m_snapshot->owners.size(); ++owner) {
    for (const engine::BlockId block : m_snapshot->owners[owner].chain) {
      std::int16_t& other = m_others[std::size_t(block)];
      const bool labelled = m_snapshot->blocks[std::size_t(block)].owner == int(owner);
      if (other < 0 && !labelled) other = std::int16_t(owner);
    }
  }
  const Layout before = m_layout;
  m_layout = layOut(width());
  if (m_layout.rows != before.rows || m_layout.pitch != before.pitch) updateGeometry();
  if (m_pointed >= m_layout.cells) point(-1);
  const auto shared = std::ranges::count_if(
      m_snapshot->blocks, [](const engine::BlockCell& cell) { return cell.sharers > 1; });
  if (!m_byKeyboard) {
    setAccessibleDescription(
        tr("%1 blocks: %2 in use now, %3 kept for later, %4 free; %5 are shared")
            .arg(m_snapshot->blocks.size())
            .arg(m_snapshot->blocksUsed)
            .arg(m_snapshot->blocksCached)
            .arg(m_snapshot->blocksFree)
            .arg(shared));
  }
  update();
}

void BlockMap::setCellPixels(int pixels) {
  if (pixels == m_cellPixels) return;
  m_cellPixels = pixels;
  m_layout = layOut(width());
  updateGeometry();
  update();
}

// ------------------------------------------------------------------------------------- layout

// All blocks up to the last that holds something, and some free ones behind it.
int BlockMap::shownBlocks() const {
  if (!m_snapshot) return 0;
  const auto& blocks = m_snapshot->blocks;
  if (m_extent == Extent::kWhole || blocks.size() <= kFewBlocks) return int(blocks.size());
  int last = int(blocks.size()) - 1;
  while (last >= 0 && blocks[std::size_t(last)].state == engine::BlockState::kFree) --last;
  const int wanted = std::max({last + 1 + 32, (last + 1) * 5 / 4, 128});
  const int rounded = (wanted + 31) / 32 * 32;
  return std::min(rounded, int(blocks.size()));
}

int BlockMap::hiddenFreeBlocks() const {
  return m_snapshot ? int(m_snapshot->blocks.size()) - shownBlocks() : 0;
}

// In the inspector cells shrink until the height is enough: 6,800 of 3 pixels fit. What does not
// fit then makes the map higher, as every block keeps its cell.
BlockMap::Layout BlockMap::layOut(int width) const {
  Layout layout;
  layout.cells = shownBlocks();
  if (layout.cells == 0 || width <= 0) return layout;
  const auto rowsFor = [&](int columns) { return (layout.cells + columns - 1) / columns; };
  if (m_extent == Extent::kWhole) {
    layout.columns = std::max(1, width / look().px(m_cellPixels));
    layout.pitch = look().px(m_cellPixels);
  } else {
    for (const int columns : {32, 40, 48, 56, 64, 72, 80, 96, 110}) {
      layout.columns = columns;
      layout.pitch = double(width) / columns;
      if (rowsFor(columns) * layout.pitch <= look().px(kTallest)) break;
    }
  }
  layout.rows = rowsFor(layout.columns);
  layout.side = layout.pitch - (layout.pitch > 7 ? 2.0 : 1.0);
  return layout;
}

QSize BlockMap::sizeHint() const {
  const int width = look().px(332);
  return {width, heightForWidth(width)};
}

// The width decides the height; a hint for another width must not hold a scroll area open.
QSize BlockMap::minimumSizeHint() const {
  return {look().px(60), look().px(16)};
}

int BlockMap::heightForWidth(int width) const {
  const Layout layout = layOut(width);
  return std::max(look().px(16), int(std::ceil(layout.rows * layout.pitch)));
}

void BlockMap::resizeEvent(QResizeEvent*) {
  m_layout = layOut(width());
}

QRectF BlockMap::cellRect(int block) const {
  const int row = block / m_layout.columns;
  const int column = block % m_layout.columns;
  return {column * m_layout.pitch, row * m_layout.pitch, m_layout.side, m_layout.side};
}

int BlockMap::blockAt(QPoint position) const {
  if (m_layout.cells == 0 || position.x() < 0 || position.y() < 0) return -1;
  const int column = int(position.x() / m_layout.pitch);
  const int row = int(position.y() / m_layout.pitch);
  const int cell = row * m_layout.columns + column;
  return column < m_layout.columns && cell < m_layout.cells ? cell : -1;
}

// -------------------------------------------------------------------------------------- words

QString BlockMap::describe(int block) const {
  if (!m_snapshot || block < 0 || block >= int(m_snapshot->blocks.size())) return {};
  const engine::BlockCell& cell = m_snapshot->blocks[std::size_t(block)];
  if (cell.state == engine::BlockState::kFree) return tr("Block %1: free").arg(block);
  const QString type = m_snapshot->shape.type == engine::KvType::kInt8 ? "INT8" : "FP16";
  QStringList lines;
  if (cell.filled > 0) {
    lines << tr("Block %1: %2, tokens %3 to %4 (%5 of %6 places)")
                 .arg(block)
                 .arg(type, countText(cell.position), countText(cell.position + cell.filled - 1))
                 .arg(cell.filled)
                 .arg(m_snapshot->shape.blockSize);
  } else {
    lines << tr("Block %1: %2, reserved for tokens from %3 on, nothing written yet")
                 .arg(block)
                 .arg(type, countText(cell.position));
  }
  QStringList names;
  const QVector<int> holders = holdersOf(*m_snapshot, block);
  for (const int holder : holders) {
    if (names.size() < kMostNames && holder < m_looks.size()) names << m_looks[holder].name;
  }
  if (names.isEmpty()) names << tr("a chat that is gone");
  QString held = names.join(QStringLiteral(" · "));
  if (holders.size() > names.size()) {
    held += tr(" and %1 more").arg(holders.size() - names.size());
  }
  lines << (holders.size() > 1 ? tr("shared by %1: %2").arg(holders.size()).arg(held)
                               : tr("held by %1").arg(held));
  lines << (cell.state == engine::BlockState::kUsed
                ? pluralText(cell.references, tr("in use now by %1 turn"),
                             tr("in use now by %1 turns"))
                : tr("kept for reuse, no turn uses it now"));
  return lines.join(u'\n');
}

QString BlockMap::tipText() const {
  QString text = describe(m_pointed);
  if (m_textOf == m_pointed && !m_text.isEmpty()) text += u'\n' + m_text;
  return text;
}

void BlockMap::setText(int block, const QString& text) {
  m_textOf = block;
  m_text = text;
  if (block != m_pointed) return;
  if (m_byKeyboard) setAccessibleDescription(tipText());
  if (QToolTip::isVisible()) showTip(m_tipPosition);
}

void BlockMap::showTip(QPoint globalPosition) {
  m_tipPosition = globalPosition;
  QToolTip::showText(globalPosition, literalToolTip(tipText()), this,
                     cellRect(m_pointed).toAlignedRect());
}

// ------------------------------------------------------------------------------------ drawing

void BlockMap::paintCell(QPainter& painter, int block) const {
  const Tokens& tokens = look().tokens();
  const QRectF area = cellRect(block);
  const double corner = std::min(2.0, m_layout.side / 4);
  const engine::BlockCell& cell = m_snapshot->blocks[std::size_t(block)];
  if (cell.state == engine::BlockState::kFree) {
    painter.setBrush(mix(tokens.panel, tokens.faint, tokens.dark ? 0.28 : 0.30));
    painter.drawRoundedRect(area, corner, corner);
    return;
  }
  const auto colourOf = [&](int owner) {
    return owner >= 0 && owner < m_looks.size() ? m_looks[owner].colour : tokens.muted;
  };
  const QColor colour = colourOf(cell.owner);
  const int blockSize = std::max(1, m_snapshot->shape.blockSize);
  const double filled = std::min(1.0, double(cell.filled) / blockSize);
  if (filled < 1) {
    painter.setBrush(mix(tokens.panel, colour, 0.30));
    painter.drawRoundedRect(area, corner, corner);
  }
  const QRectF written(area.x(), area.y(), area.width() * filled, area.height());
  painter.setBrush(colour);
  painter.drawRoundedRect(written, corner, corner);
  const bool shared = cell.sharers > 1 || cell.references > 1;
  const bool hasMarks = m_layout.side >= kSmallMark;
  if (shared && m_others[std::size_t(block)] >= 0) {  // below the diagonal: another holder
    const QPointF triangle[] = {area.bottomLeft(), area.bottomRight(), area.topRight()};
    painter.setBrush(colourOf(m_others[std::size_t(block)]));
    painter.drawPolygon(triangle, 3);
  }
  if (shared && hasMarks) {  // a corner in the panel's colour
    const double notch = m_layout.side * 0.42;
    const QPointF tip = area.topRight() + QPointF(0.5, -0.5);
    const QPointF triangle[] = {tip, tip - QPointF(notch, 0), tip + QPointF(0, notch)};
    painter.setBrush(tokens.panel);
    painter.drawPolygon(triangle, 3);
  }
  if (cell.state == engine::BlockState::kUsed && hasMarks) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(tokens.text, 1));
    painter.drawRoundedRect(area.adjusted(0.5, 0.5, -0.5, -0.5), corner, corner);
    painter.setPen(Qt::NoPen);
  }
  if (shared && m_layout.side >= kNumberSide) {
    const QColor light = tokens.dark ? tokens.text : tokens.panel;
    const QColor dark = tokens.dark ? tokens.panel : tokens.text;
    painter.setPen(contrast(light, colour) > contrast(dark, colour) ? light : dark);
    painter.setFont(look().figureFont(std::min(11.0, m_layout.side * 0.55), QFont::DemiBold));
    const int count = std::max(int(cell.sharers), int(cell.references));
    painter.drawText(area, Qt::AlignCenter, QString::number(count));
    painter.setPen(Qt::NoPen);
  }
}

void BlockMap::paintEvent(QPaintEvent* event) {
  if (!m_snapshot || m_layout.cells == 0) return;
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(Qt::NoPen);
  const int firstRow = std::max(0, int(event->rect().top() / m_layout.pitch));
  const int lastRow = int(event->rect().bottom() / m_layout.pitch);
  const int end = std::min(m_layout.cells, (lastRow + 1) * m_layout.columns);
  for (int block = firstRow * m_layout.columns; block < end; ++block) paintCell(painter, block);
  if (m_pointed >= 0 && (hasFocus() || underMouse())) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(look().tokens().text, 2));
    painter.drawRect(cellRect(m_pointed).adjusted(-1, -1, 1, 1));
  }
}

// ------------------------------------------------------------------------------------ pointing

void BlockMap::point(int block) {
  if (block == m_pointed) return;
  m_pointed = block;
  const bool holdsText =
      block >= 0 && m_snapshot->blocks[std::size_t(block)].state != engine::BlockState::kFree &&
      m_snapshot->blocks[std::size_t(block)].filled > 0;
  setCursor(holdsText ? Qt::PointingHandCursor : Qt::ArrowCursor);
  emit textWanted(holdsText ? block : -1);
  update();
}

void BlockMap::keyPressEvent(QKeyEvent* event) {
  int next = std::max(0, m_pointed);
  switch (event->key()) {
    case Qt::Key_Left:
      next -= 1;
      break;
    case Qt::Key_Right:
      next += m_pointed < 0 ? 0 : 1;
      break;
    case Qt::Key_Up:
      next -= m_layout.columns;
      break;
    case Qt::Key_Down:
      next += m_pointed < 0 ? 0 : m_layout.columns;
      break;
    case Qt::Key_Home:
      next = 0;
      break;
    case Qt::Key_End:
      next = m_layout.cells - 1;
      break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space:
      if (m_pointed >= 0) emit chosen(m_pointed);
      return;
    default:
      return QWidget::keyPressEvent(event);
  }
  if (m_layout.cells == 0) return;
  m_byKeyboard = true;
  point(std::clamp(next, 0, m_layout.cells - 1));
  setAccessibleDescription(tipText());
  showTip(mapToGlobal(cellRect(m_pointed).bottomRight().toPoint()));
}

void BlockMap::focusInEvent(QFocusEvent* event) {
  QWidget::focusInEvent(event);
  update();
}

void BlockMap::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return QWidget::mousePressEvent(event);
  m_byKeyboard = false;
  point(blockAt(event->position().toPoint()));
  if (m_pointed >= 0) emit chosen(m_pointed);
}

void BlockMap::mouseMoveEvent(QMouseEvent* event) {
  m_byKeyboard = false;
  point(blockAt(event->position().toPoint()));
}

void BlockMap::leaveEvent(QEvent*) {
  if (!m_byKeyboard) point(-1);
}

bool BlockMap::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  m_byKeyboard = false;
  point(blockAt(help->pos()));
  if (m_pointed < 0) {
    QToolTip::hideText();
  } else {
    showTip(help->globalPos());
  }
  return true;
}

}  // namespace vitrine::ui

#include "ui/inspector/cache/branch_list.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kRowHeight = 38;
constexpr int kBarHeight = 7;

const Theme& look() {
  return Theme::instance();
}

}  // namespace

BranchList::BranchList(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setCursor(Qt::PointingHandCursor);
  setAccessibleName(tr("Branches of this chat"));
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void BranchList::setBranches(const BranchShares& shares, const QVector<BlockOwnerLook>& looks) {
  const auto before = m_rows.size();
  m_rows.clear();
  for (const BranchShares::Branch& branch : shares.branches) {
    if (branch.owner >= looks.size()) continue;
    const BlockOwnerLook& owner = looks[branch.owner];
    m_rows.append({branch,
                   owner.branch == 0 ? tr("First branch") : tr("Branch %1").arg(owner.branch + 1),
                   owner.colour, owner.branch});
  }
  std::sort(m_rows.begin(), m_rows.end(),
            [](const Row& a, const Row& b) { return a.order < b.order; });
  m_focused = std::clamp(m_focused, 0, std::max(0, int(m_rows.size()) - 1));
  QStringList words;
  for (int row = 0; row < rowCount(); ++row) words << rowText(row);
  setAccessibleDescription(words.join(QStringLiteral(". ")));
  if (m_rows.size() != before) updateGeometry();
  update();
}

QString BranchList::rowText(int row) const {
  if (row < 0 || row >= rowCount()) return {};
  const BranchShares::Branch& branch = m_rows[row].branch;
  QString text = tr("%1: %2 tokens in %3")
                     .arg(m_rows[row].name, countText(branch.tokens),
                          pluralText(branch.blocks, tr("%1 block"), tr("%1 blocks")));
  if (branch.sharedHere > 0) {
    text += tr("; %1 shared with other branches").arg(countText(branch.sharedHere));
  }
  if (branch.sharedOutside > 0) {
    text += tr("; %1 shared with other chats").arg(countText(branch.sharedOutside));
  }
  return text + tr("; %1 of its own").arg(countText(branch.own));
}

QSize BranchList::sizeHint() const {
  return {look().px(240), look().px(kRowHeight) * rowCount()};
}

QRect BranchList::rowRect(int row) const {
  return {0, row * look().px(kRowHeight), width(), look().px(kRowHeight)};
}

int BranchList::rowAt(QPoint position) const {
  const int row = position.y() / std::max(1, look().px(kRowHeight));
  return position.y() >= 0 && row < rowCount() ? row : -1;
}

void BranchList::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  int longest = 1;
  for (const Row& row : m_rows) longest = std::max(longest, row.branch.blocks);
  for (int i = 0; i < rowCount(); ++i) {
    const Row& row = m_rows[i];
    const QRect area = rowRect(i);
    if (i == m_hovered || (hasFocus() && i == m_focused)) {
      painter.setPen(hasFocus() && i == m_focused ? QPen(tokens.accent, 1) : Qt::NoPen);
      painter.setBrush(tokens.hover);
      painter.drawRoundedRect(QRectF(area).adjusted(0.5, 1.5, -0.5, -1.5), 4, 4);
    }
    const int pad = look().px(6);
    const double square = look().px(9);
    QRect line(area.x() + pad, area.y() + look().px(4), area.width() - 2 * pad, look().px(18));
    const QRectF mark(line.x(), line.y() + (line.height() - square) / 2, square, square);
    paintMark(painter, mark, row.colour, MarkPattern::kSolid, 2);
    line.setLeft(line.left() + int(square) + pad);
    painter.setFont(look().figureFont(11));
    painter.setPen(tokens.muted);
    const QString figures = tr("%1 shared · %2 own")
                                .arg(countText(row.branch.sharedHere + row.branch.sharedOutside),
                                     countText(row.branch.own));
    painter.drawText(line, Qt::AlignVCenter | Qt::AlignRight, figures);
    const int figuresWidth = painter.fontMetrics().horizontalAdvance(figures);
    painter.setFont(look().textFont(12.5));
    painter.setPen(tokens.text);
    const int room = line.width() - figuresWidth - pad;
    painter.drawText(line, Qt::AlignVCenter | Qt::AlignLeft,
                     painter.fontMetrics().elidedText(row.name, Qt::ElideRight, room));

    const double width = area.width() - 2.0 * pad;
    double x = area.x() + pad;
    const double y = area.y() + look().px(25);
    const auto part = [&](int blocks, const QColor& colour, MarkPattern pattern) {
      if (blocks == 0) return;
      const double wide = width * blocks / longest;
      const QRectF bar(x, y, std::max(1.0, wide - 1), look().px(kBarHeight));
      paintMark(painter, bar, colour, pattern, 1.5);
      x += wide;
    };
    part(row.branch.sharedHere, tokens.reused, MarkPattern::kHatched);
    part(row.branch.sharedOutside, tokens.information, MarkPattern::kDotted);
    part(row.branch.own, row.colour, MarkPattern::kSolid);
  }
}

void BranchList::focusRow(int row) {
  m_focused = std::clamp(row, 0, std::max(0, rowCount() - 1));
  setAccessibleDescription(rowText(m_focused));
  update();
}

void BranchList::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Up:
      return focusRow(m_focused - 1);
    case Qt::Key_Down:
      return focusRow(m_focused + 1);
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space:
      if (m_focused < rowCount()) emit chosen(m_rows[m_focused].branch.owner);
      return;
    default:
      return QWidget::keyPressEvent(event);
  }
}

void BranchList::mousePressEvent(QMouseEvent* event) {
  const int row = rowAt(event->position().toPoint());
  if (event->button() != Qt::LeftButton || row < 0) return QWidget::mousePressEvent(event);
  m_focused = row;
  emit chosen(m_rows[row].branch.owner);
}

void BranchList::mouseMoveEvent(QMouseEvent* event) {
  const int row = rowAt(event->position().toPoint());
  if (row == m_hovered) return;
  m_hovered = row;
  update();
}

void BranchList::leaveEvent(QEvent*) {
  m_hovered = -1;
  update();
}

bool BranchList::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const int row = rowAt(help->pos());
  if (row < 0) {
    QToolTip::hideText();
  } else {
    QToolTip::showText(help->globalPos(),
                       literalToolTip(rowText(row) + u'\n' + tr("A click shows this branch.")),
                       this, rowRect(row));
  }
  return true;
}

}  // namespace vitrine::ui

#include "ui/inspector/latency/turn_table.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <array>
#include <cmath>

#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

const Theme& look() {
  return Theme::instance();
}

// Widths of the design: number, bar, three counts, two times.
constexpr std::array kColumns = {20.0, 54.0, 46.0, 44.0, 40.0, 62.0, 62.0};

}  // namespace

TurnTable::TurnTable(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Turns"));
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void TurnTable::setTurns(const std::vector<app::TurnMetrics>& turns) {
  QVector<Row> rows;
  for (const app::TurnMetrics& turn : turns) {
    const engine::TurnReport& report = turn.report;
    rows.append({report.reusedTokens, report.prefilledTokens, report.generatedTokens, report.ttftMs,
                 report.tpotMs, QString::fromStdString(report.reuse.reason)});
  }
  if (rows == m_rows) return;
  const bool sameCount = rows.size() == m_rows.size();
  m_rows = std::move(rows);
  if (!sameCount) updateGeometry();
  describe();
  update();
}

void TurnTable::setSelectedTurn(int turn) {
  if (turn == m_selectedTurn) return;
  m_selectedTurn = turn;
  describe();
  update();
}

QString TurnTable::rowText(int row) const {
  const Row& r = m_rows[row];
  QString text = tr("Turn %1: %2 reused, %3 prefilled, %4 generated; TTFT %5, TPOT %6")
                     .arg(row + 1)
                     .arg(countText(r.reused), countText(r.prefilled), countText(r.generated),
                          millisecondsText(r.ttftMs), millisecondsText(r.tpotMs));
  if (!r.reason.isEmpty()) text += tr("\nPrefilled because: %1").arg(r.reason);
  return text;
}

void TurnTable::describe() {
  const bool selected = m_selectedTurn > 0 && m_selectedTurn <= m_rows.size();
  setAccessibleDescription(selected ? rowText(m_selectedTurn - 1) : tr("No turn yet"));
}

double TurnTable::rowHeight() const {
  return look().px(22);
}

QSize TurnTable::sizeHint() const {
  return {look().px(240), int(std::ceil(rowHeight() * double(m_rows.size() + 1)))};
}

int TurnTable::rowAt(QPoint position) const {
  const int row = int(position.y() / rowHeight()) - 1;
  return row >= 0 && row < m_rows.size() ? row : -1;
}

void TurnTable::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  double sum = 0;
  for (const double column : kColumns) sum += column;
  const double scale = width() / sum;
  std::array<QRectF, kColumns.size()> cells;
  const auto placeRow = [&](double y) {
    double x = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      cells[i] = QRectF(x, y, kColumns[i] * scale, rowHeight());
      x += kColumns[i] * scale;
    }
  };
  const QFont figures = look().figureFont(11);
  placeRow(0);
  painter.setFont(look().textFont(10.5));
  const QColor inks[] = {tokens.muted,
                         tokens.muted,
                         look().ink(tokens.reused),
                         look().ink(tokens.prefilled),
                         look().ink(tokens.generated),
                         tokens.text,
                         tokens.text};
  const QString titles[] = {QString(),  tr("tokens"), tr("reused"), tr("prefill"),
                            tr("gen."), tr("TTFT"),   tr("TPOT")};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    painter.setPen(i >= 2 && i <= 4 ? inks[i] : tokens.muted);
    painter.drawText(cells[i], Qt::AlignVCenter | (i == 1 ? Qt::AlignLeft : Qt::AlignRight),
                     titles[i]);
  }
  double most = 1;
  for (const Row& row : m_rows) {
    most = std::max(most, double(row.reused) + row.prefilled + row.generated);
  }
  painter.setFont(figures);
  for (int i = 0; i < m_rows.size(); ++i) {
    const Row& row = m_rows[i];
    placeRow((i + 1) * rowHeight());
    if (i + 1 == m_selectedTurn) {
      painter.setPen(hasFocus() ? QPen(tokens.accent, 1) : Qt::NoPen);
      painter.setBrush(tokens.raised);
      painter.drawRoundedRect(
          QRectF(0.5, (i + 1) * rowHeight() + 0.5, width() - 1, rowHeight() - 1), 4, 4);
    }
    painter.setPen(tokens.muted);
    painter.drawText(cells[0].adjusted(0, 0, -6, 0), Qt::AlignVCenter | Qt::AlignRight,
                     QString::number(i + 1));
    const double thick = look().px(6);
    const double whole = cells[1].width() - 8;
    double x = cells[1].x();
    const double y = cells[1].center().y() - thick / 2;
    const std::pair<int, QColor> parts[] = {{row.reused, tokens.reused},
                                            {row.prefilled, tokens.prefilled},
                                            {row.generated, tokens.generated}};
    for (const auto& [amount, colour] : parts) {
      if (amount == 0) continue;
      const double wide = std::max(1.5, whole * amount / most);
      painter.fillRect(QRectF(x, y, wide, thick), colour);
      x += wide;
    }
    const QString texts[] = {{},
                             {},
                             countText(row.reused),
                             countText(row.prefilled),
                             countText(row.generated),
                             millisecondsText(row.ttftMs),
                             row.tpotMs > 0 ? millisecondsText(row.tpotMs) : QStringLiteral("–")};
    for (std::size_t column = 2; column < cells.size(); ++column) {
      painter.setPen(inks[column]);
      const double indent = column + 1 == cells.size() ? -4 : 0;
      painter.drawText(cells[column].adjusted(0, 0, indent, 0), Qt::AlignVCenter | Qt::AlignRight,
                       texts[column]);
    }
  }
}

void TurnTable::mousePressEvent(QMouseEvent* event) {
  const int row = rowAt(event->pos());
  if (row >= 0) emit turnSelected(row + 1);
}

void TurnTable::keyPressEvent(QKeyEvent* event) {
  const int step = event->key() == Qt::Key_Up ? -1 : event->key() == Qt::Key_Down ? 1 : 0;
  if (step == 0 || m_rows.isEmpty()) return QWidget::keyPressEvent(event);
  emit turnSelected(std::clamp(m_selectedTurn + step, 1, int(m_rows.size())));
}

bool TurnTable::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const int row = rowAt(help->pos());
  if (row < 0) {
    QToolTip::hideText();
  } else {
    QToolTip::showText(help->globalPos(), literalToolTip(rowText(row)), this);
  }
  return true;
}

}  // namespace vitrine::ui

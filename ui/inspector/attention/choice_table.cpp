#include "ui/inspector/attention/choice_table.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <array>
#include <cmath>

#include "ui/common/engine_switching.h"
#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

// Widths of the design: name, KV type, bytes a token, largest context, chats.
constexpr std::array kColumns = {88.0, 44.0, 74.0, 70.0, 56.0};

const Theme& look() {
  return Theme::instance();
}

}  // namespace

ChoiceCost choiceCost(const engine::ModelConfig& model, int kvHeads, engine::KvType type,
                      int blockSize, std::uint64_t budgetBytes, int chatTokens) {
  engine::KvShape shape;
  shape.type = type;
  shape.blockSize = blockSize;
  shape.nBlocks = 1;
  shape.nKvHeads = kvHeads;
  const std::uint64_t blockBytes = engine::kvBytesPerBlock(model, shape);
  const std::uint64_t blocks = budgetBytes / blockBytes;
  const auto size = static_cast<std::uint64_t>(blockSize);
  const std::uint64_t chatBlocks =
      (static_cast<std::uint64_t>(std::max(1, chatTokens)) + size - 1) / size;
  ChoiceCost cost;
  cost.name = attentionText(model.nHeads, kvHeads);
  cost.type = type;
  cost.bytesPerToken = blockBytes / size;
  cost.contextTokens =
      int(std::min(blocks * size, static_cast<std::uint64_t>(std::max(0, model.contextLength))));
  cost.chats = int(std::min<std::uint64_t>(blocks / chatBlocks, 1'000'000));
  return cost;
}

ChoiceTable::ChoiceTable(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setAccessibleName(tr("What each choice takes of the cache"));
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void ChoiceTable::setRows(QVector<ChoiceCost> rows) {
  if (rows == m_rows) return;
  const bool sameCount = rows.size() == m_rows.size();
  m_rows = std::move(rows);
  QStringList texts;
  for (int i = 0; i < m_rows.size(); ++i) texts << rowText(i);
  setAccessibleDescription(texts.join(QStringLiteral("\n")));
  if (!sameCount) updateGeometry();
  update();
}

QString ChoiceTable::rowText(int row) const {
  const ChoiceCost& r = m_rows[row];
  QString text = tr("%1, %2 KV: %3 a token; the largest context here is %4 tokens; %5 chats fit")
                     .arg(r.name, kvTypeText(r.type), exactBytesText(r.bytesPerToken),
                          countText(r.contextTokens), countText(r.chats));
  if (!r.exact) text += tr("; approximate");
  if (r.inForce) text += tr("; in use");
  return text;
}

double ChoiceTable::rowHeight() const {
  return look().px(22);
}

QSize ChoiceTable::sizeHint() const {
  return {look().px(240), int(std::ceil(rowHeight() * double(m_rows.size() + 1)))};
}

void ChoiceTable::paintEvent(QPaintEvent*) {
  const Tokens& t = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  double sum = 0;
  for (const double column : kColumns) sum += column;
  const double scale = (width() - 12) / sum;
  const auto cell = [&](std::size_t column, int row) {
    double x = 6;
    for (std::size_t i = 0; i < column; ++i) x += kColumns[i] * scale;
    return QRectF(x, row * rowHeight(), kColumns[column] * scale, rowHeight());
  };
  const QString titles[] = {{}, tr("KV"), tr("a token"), tr("context"), tr("chats")};
  painter.setFont(look().textFont(10.5));
  painter.setPen(t.muted);
  for (std::size_t i = 0; i < std::size(titles); ++i) {
    painter.drawText(cell(i, 0), Qt::AlignVCenter | (i < 2 ? Qt::AlignLeft : Qt::AlignRight),
                     titles[i]);
  }
  for (int i = 0; i < m_rows.size(); ++i) {
    const ChoiceCost& row = m_rows[i];
    const int line = i + 1;
    if (row.inForce) {
      painter.setPen(Qt::NoPen);
      painter.setBrush(t.raised);
      painter.drawRoundedRect(QRectF(0, line * rowHeight() + 0.5, width(), rowHeight() - 1), 4, 4);
      painter.setBrush(t.accent);
      painter.drawRoundedRect(QRectF(0, line * rowHeight() + 4, 2.5, rowHeight() - 8), 1, 1);
      painter.setBrush(Qt::NoBrush);
    }
    // The name once for its two types.
    const bool named = i == 0 || m_rows[i - 1].name != row.name;
    if (named) {
      painter.setFont(look().textFont(12, row.inForce ? QFont::DemiBold : QFont::Normal));
      painter.setPen(t.text);
      painter.drawText(cell(0, line), Qt::AlignVCenter | Qt::AlignLeft,
                       row.exact ? row.name : row.name + QStringLiteral(" ≈"));
    }
    painter.setFont(look().figureFont(11));
    painter.setPen(row.inForce ? t.text : t.muted);
    painter.drawText(cell(1, line), Qt::AlignVCenter | Qt::AlignLeft, kvTypeText(row.type));
    painter.setPen(t.text);
    const QString figures[] = {bytesText(row.bytesPerToken), countText(row.contextTokens),
                               countText(row.chats)};
    for (std::size_t f = 0; f < std::size(figures); ++f) {
      painter.drawText(cell(f + 2, line), Qt::AlignVCenter | Qt::AlignRight, figures[f]);
    }
  }
}

bool ChoiceTable::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const int row = int(help->pos().y() / rowHeight()) - 1;
  if (row < 0 || row >= m_rows.size()) {
    QToolTip::hideText();
  } else {
    QToolTip::showText(help->globalPos(), rowText(row), this);
  }
  return true;
}

}  // namespace vitrine::ui

#include "ui/inspector/cache/layout_view.h"

#include <QGridLayout>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr const char* kRows[] = {QT_TRANSLATE_NOOP("vitrine::ui::LayoutView", "reserved"),
                                 QT_TRANSLATE_NOOP("vitrine::ui::LayoutView", "used"),
                                 QT_TRANSLATE_NOOP("vitrine::ui::LayoutView", "wasted"),
                                 QT_TRANSLATE_NOOP("vitrine::ui::LayoutView", "fit")};
constexpr int kInPool = 0;
constexpr int kAllChats = 1;

}  // namespace

LayoutView::LayoutView(QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(8);
  m_source = new SegmentedSwitch(tr("For"), {}, this);
  m_source->setObjectName("layoutSource");
  column->addWidget(m_source, 0, Qt::AlignLeft);
  m_intro = new PlainLabel(LabelStyle::kMuted, this);
  m_intro->setWordWrap(true);
  column->addWidget(m_intro);
  auto* grid = new QGridLayout;
  grid->setHorizontalSpacing(14);
  grid->setVerticalSpacing(5);
  grid->setColumnStretch(1, 1);
  grid->setColumnStretch(2, 1);
  int place = 1;
  for (Column* one : {&m_paged, &m_contiguous}) {
    one->heading = new PlainLabel(LabelStyle::kBody, this);
    one->bar = new StackedBar(9, this);
    grid->addWidget(one->heading, 0, place);
    grid->addWidget(one->bar, 1, place);
    for (int row = 0; row < 4; ++row) {
      one->figures[std::size_t(row)] = new PlainLabel(LabelStyle::kFigure, this);
      grid->addWidget(one->figures[std::size_t(row)], row + 2, place);
    }
    ++place;
  }
  m_paged.bar->setAccessibleName(tr("Paged: used and wasted"));
  m_contiguous.bar->setAccessibleName(tr("Contiguous: used and wasted"));
  for (int row = 0; row < 4; ++row) {
    grid->addWidget(new PlainLabel(tr(kRows[row]), LabelStyle::kMuted, this), row + 2, 0);
  }
  column->addLayout(grid);
  m_measured = new PlainLabel(LabelStyle::kMuted, this);
  m_measured->setObjectName("layoutMeasured");
  m_measured->setWordWrap(true);
  column->addWidget(m_measured);
  m_source->setCurrent(kInPool);
  connect(m_source, &SegmentedSwitch::chosen, this, [this](int index) {
    m_source->setCurrent(index);
    showState(InspectorState(m_state));
  });
}

void LayoutView::fill(Column& column, const LayoutCost& cost, const QString& heading, double whole,
                      double bytesPerToken) {
  const Tokens& t = Theme::instance().tokens();
  const auto bytes = [&](std::uint64_t tokens) {
    return bytesText(quint64(std::llround(double(tokens) * bytesPerToken)));
  };
  column.heading->setText(heading);
  column.bar->setWhole(whole);
  column.bar->setParts(
      {{tr("used"), double(cost.usedTokens), t.reused, MarkPattern::kSolid,
        tr("%1 tokens are kept").arg(countText(qint64(cost.usedTokens)))},
       {tr("wasted"), double(cost.wastedTokens()), t.muted, MarkPattern::kHatched,
        tr("%1 places are reserved and empty").arg(countText(qint64(cost.wastedTokens())))}});
  const double share =
      cost.reservedTokens > 0 ? double(cost.wastedTokens()) / double(cost.reservedTokens) : 0.0;
  column.figures[0]->setText(bytes(cost.reservedTokens));
  column.figures[1]->setText(bytes(cost.usedTokens));
  column.figures[2]->setText(
      QStringLiteral("%1 · %2").arg(bytes(cost.wastedTokens()), percentText(share)));
  column.figures[3]->setText(
      pluralText(qint64(std::floor(cost.chatsThatFit)), tr("%1 chat"), tr("%1 chats")));
  column.figures[3]->setToolTip(
      literalToolTip(tr("In the whole pool, of the average length of these (%1)")
                         .arg(QString::number(cost.chatsThatFit, 'f', 1))));
}

void LayoutView::showState(const InspectorState& state) {
  m_state = state;
  const engine::EngineSnapshot& snapshot = *state.snapshot;
  const bool hasPool = state.info && !snapshot.blocks.empty();
  setVisible(hasPool);
  if (!hasPool) return;
  const int stored = int(state.chatLengths.size());
  m_source->setChoices({{tr("the pool now"), tr("Branches and chats that lie in the pool"), true},
                        {tr("my %1").arg(pluralText(stored, tr("%1 chat"), tr("%1 chats"))),
                         tr("Each of your chats with the length of its last turn"), stored > 0}});
  if (stored == 0) m_source->setCurrent(kInPool);
  const bool all = m_source->current() == kAllChats;
  const int blockSize = std::max(1, snapshot.shape.blockSize);
  const int context = state.info->contextTokens;
  const LayoutComparison comparison =
      all ? compareLayouts(state.chatLengths, blockSize, context, int(snapshot.blocks.size()))
          : compareLayoutsInPool(snapshot, context);
  const double perToken = double(snapshot.bytesPerBlock) / blockSize;
  const QString shared = all ? QString() : tr(", shared ones counted once");
  m_intro->setText(
      comparison.sequences == 0
          ? tr("Nothing is held yet.")
          : tr("%1. Paged: blocks of %2 tokens as needed%3. Contiguous: %4 tokens for each, "
               "at once.")
                .arg(all ? pluralText(comparison.sequences, tr("%1 chat, each to itself"),
                                      tr("%1 chats, each to itself"))
                         : pluralText(comparison.sequences, tr("%1 branch in the pool"),
                                      tr("%1 branches in the pool")))
                .arg(blockSize)
                .arg(shared, countText(context)));
  const bool paged = state.info->running.cache.layout == engine::KvLayout::kPaged;
  const double whole =
      double(std::max(comparison.paged.reservedTokens, comparison.contiguous.reservedTokens));
  fill(m_paged, comparison.paged, paged ? tr("paged (in force)") : tr("paged"), whole, perToken);
  fill(m_contiguous, comparison.contiguous, paged ? tr("contiguous") : tr("contiguous (in force)"),
       whole, perToken);

  QString measured;
  if (!state.turns.empty()) {
    const engine::KvUse& kv = state.turns.back().report.kv;
    if (kv.bytesReserved > 0) {
      measured = tr("Measured at this chat's last turn: %1 reserved in %2, %3 used, %4 waste.")
                     .arg(bytesText(kv.bytesReserved),
                          pluralText(kv.blocksUsed, tr("%1 block"), tr("%1 blocks")),
                          bytesText(kv.bytesUsed),
                          percentText(1.0 - double(kv.bytesUsed) / double(kv.bytesReserved)));
    }
  }
  m_measured->setText(measured);
  m_measured->setVisible(!measured.isEmpty());
}

QString LayoutView::figure(const QString& row, engine::KvLayout layout) const {
  const Column& column = layout == engine::KvLayout::kPaged ? m_paged : m_contiguous;
  for (int i = 0; i < 4; ++i) {
    if (row == QLatin1String(kRows[i])) return column.figures[std::size_t(i)]->text();
  }
  return {};
}

}  // namespace vitrine::ui

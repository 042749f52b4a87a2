#include "ui/inspector/cache/cache_tab.h"

#include <QHBoxLayout>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/common/plain_label.h"
#include "ui/inspector/cache/block_section.h"
#include "ui/inspector/cache/branch_list.h"
#include "ui/inspector/cache/formula_view.h"
#include "ui/inspector/cache/layout_view.h"
#include "ui/inspector/cache/ledger_view.h"
#include "ui/inspector/charts/turn_chart.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

const Tokens& tokens() {
  return Theme::instance().tokens();
}

}  // namespace

CacheTab::CacheTab(QWidget* parent) : InspectorTab(parent) {
  QVBoxLayout* section = addSection(tr("KV cache of this chat"), &m_budget);
  auto* figures = new QHBoxLayout;
  figures->setSpacing(10);
  m_bytes = new PlainLabel(LabelStyle::kBig, this);
  m_bytes->setObjectName("kvBytes");
  m_details = new PlainLabel(LabelStyle::kFigureMuted, this);
  m_details->setObjectName("kvDetails");
  figures->addWidget(m_bytes, 0, Qt::AlignBaseline);
  figures->addWidget(m_details, 1, Qt::AlignBaseline);
  section->addLayout(figures);
  m_formula = new FormulaView(this);
  section->addWidget(m_formula);
  m_held = new PlainLabel(LabelStyle::kFigureMuted, this);
  m_held->setObjectName("kvHeld");
  m_held->setWordWrap(true);
  section->addWidget(m_held);
  m_hint = new PlainLabel(LabelStyle::kMuted, this);
  m_hint->setWordWrap(true);
  section->addWidget(m_hint);

  section = addSection(tr("Memory over this chat"));
  m_chart = new TurnChart(TurnChart::Kind::kLine, 108, this);
  m_chart->setAccessibleName(tr("KV bytes held after each turn"));
  m_chart->setFormat([](double bytes) { return bytesText(quint64(bytes)); });
  m_chart->setEmptyText(tr("Grows with each turn of the chat."));
  section->addWidget(m_chart);

  section = addSection(tr("Block map"), &m_blockCount);
  m_blocks = new BlockSection(this);
  section->addWidget(m_blocks);
  connect(m_blocks, &BlockSection::textWanted, this, &CacheTab::blockTextWanted);
  connect(m_blocks, &BlockSection::chosen, this, &CacheTab::chooseBlock);
  connect(m_blocks, &BlockSection::dialogOpened, this, &CacheTab::stateWanted);

  section = addSection(tr("Branches of this chat"), &m_saved);
  m_branches = new BranchList(this);
  section->addWidget(m_branches);
  connect(m_branches, &BranchList::chosen, this, &CacheTab::chooseBranch);
  m_branchLegend = new Legend(this);
  section->addWidget(m_branchLegend);
  m_branchNote = new PlainLabel(LabelStyle::kMuted, this);
  m_branchNote->setObjectName("branchNote");
  m_branchNote->setWordWrap(true);
  section->addWidget(m_branchNote);

  section = addSection(tr("Paged against contiguous"));
  m_layouts = new LayoutView(this);
  section->addWidget(m_layouts);

  section = addSection(tr("Where the memory is"), &m_memoryTotal);
  m_memoryTotal->setToolTip(tr("What the system says this program holds in memory (RSS)"));
  m_ledger = new LedgerView(this);
  section->addWidget(m_ledger);
  endSections();
}

void CacheTab::showState(const InspectorState& state) {
  m_snapshot = state.snapshot;
  m_branchOnScreen = state.branch;
  showUse(state);
  showBlocks(state);
  showBranches(state);
  m_layouts->showState(state);
  showMemory(state);
}

void CacheTab::showUse(const InspectorState& state) {
  const engine::EngineSnapshot& snapshot = *state.snapshot;
  const ConversationUse use = branchUseOf(state);
  const std::uint64_t poolBytes = snapshot.bytesPerBlock * std::uint64_t(snapshot.blocks.size());
  m_budget->setText(poolBytes > 0 ? tr("of %1").arg(bytesText(poolBytes)) : QString());
  const BytesParts bytes = bytesParts(use.bytes);
  m_bytes->setText(bytes.number);
  m_bytes->setToolTip(exactBytesText(use.bytes));

  const int blockSize = std::max(1, snapshot.shape.blockSize);
  const std::int64_t room = std::int64_t(use.blocks) * blockSize;
  const double waste = room > 0 ? std::max(0.0, 1.0 - double(use.tokens) / double(room)) : 0;
  QString details = QStringLiteral("%1 · %2").arg(
      bytes.unit, pluralText(use.blocks, tr("%1 block"), tr("%1 blocks")));
  if (use.blocks > 0) details += tr(" · %1 waste").arg(percentText(waste));
  m_details->setText(details);
  m_details->setToolTip(literalToolTip(
      tr("%1 tokens fill %2 places; the rest of the last block waits for the next token.")
          .arg(countText(use.tokens), countText(room))));
  showFormula(state, use.tokens);

  const LiveSequences live = liveSequences(snapshot);
  if (live.count > 1) {
    m_held->setText(tr("held by the %1 that run: %2 × %3 = %4, shared ones once")
                        .arg(live.count)
                        .arg(pluralText(live.blocks, tr("%1 block"), tr("%1 blocks")),
                             bytesText(snapshot.bytesPerBlock),
                             bytesText(std::uint64_t(live.blocks) * snapshot.bytesPerBlock)));
  } else if (use.blocks > 0) {
    QString held =
        tr("held: %1 × %2 = %3")
            .arg(countText(use.blocks), bytesText(snapshot.bytesPerBlock), bytesText(use.bytes));
    const std::uint64_t scales = std::uint64_t(use.blocks) * snapshot.memory.kvScaleBytesPerBlock;
    if (scales > 0) held += tr(", of it scales %1").arg(bytesText(scales));
    m_held->setText(held);
  } else {
    m_held->clear();
  }
  m_held->setVisible(use.blocks > 0 || live.count > 1);

  QString hint;
  if (!state.info) {
    hint = tr("Load a model: its cache is shown here while you chat.");
  } else if (!state.info->running.cache.enabled) {
    hint =
        tr("The cache is off: each token computes the whole chat again. Switch it on under "
           "Precision.");
  } else if (use.blocks == 0) {
    hint =
        tr("Nothing is held yet. Keys and values of every token will be kept here, so that "
           "the next turn computes only what is new.");
  }
  m_hint->setText(hint);
  m_hint->setVisible(!hint.isEmpty());
  showTurns(state, use.bytes);
}

// Of this chat; while several sequences run at a time, of them all: B of them, S tokens on average.
void CacheTab::showFormula(const InspectorState& state, int tokenCount) {
  if (!state.info) {
    m_formula->hide();
    return;
  }
  const engine::ModelConfig& config = state.info->config;
  const engine::KvShape& shape = state.snapshot->shape;
  const int kvHeads = shape.nKvHeads > 0 ? shape.nKvHeads : config.nKvHeads;
  const std::uint64_t bytes = shape.type == engine::KvType::kInt8 ? 1 : 2;
  const LiveSequences live = liveSequences(*state.snapshot);
  const bool several = live.count > 1;
  const std::int64_t tokens = several ? live.tokens : tokenCount;
  const std::uint64_t total = std::uint64_t(config.nLayers) * std::uint64_t(tokens) *
                              std::uint64_t(kvHeads) * std::uint64_t(config.headDim) * 2 * bytes;
  m_formula->setFormula(
      {{"B", countText(several ? live.count : 1),
        several ? tr("B: sequences that run now") : tr("B: sequences (this chat)")},
       {"L", countText(config.nLayers), tr("L: layers of the model")},
       {"S", countText(several ? tokens / live.count : tokens),
        several
            ? tr("S: tokens kept, on average of the sequences; together %1").arg(countText(tokens))
            : tr("S: tokens kept")},
       {"H_kv", countText(kvHeads),
        kvHeads == config.nKvHeads
            ? tr("H_kv: key and value heads of a layer")
            : tr("H_kv: key and value heads of a layer as it is run (the model's own: %1)")
                  .arg(config.nKvHeads)},
       {"D", countText(config.headDim), tr("D: numbers in a head")},
       {"2", "2", tr("a key and a value"), true},
       {"bytes", countText(qint64(bytes)),
        tr("bytes of a number: 2 for FP16, 1 for INT8 (its scales are counted apart)")}},
      bytesText(total));
  m_formula->show();
}

void CacheTab::showTurns(const InspectorState& state, std::uint64_t bytesNow) {
  QVector<TurnChart::Point> points;
  if (!state.turns.empty() || state.live.running) {
    points.append({0, 0, tr("Before the first turn: nothing")});
  }
  int number = 0;
  for (const app::TurnMetrics& turn : state.turns) {
    ++number;
    const engine::KvUse& kv = turn.report.kv;
    points.append({number, double(kv.bytesReserved),
                   tr("Turn %1: %2 in %3 blocks, %4 tokens")
                       .arg(number)
                       .arg(bytesText(kv.bytesReserved))
                       .arg(kv.blocksUsed)
                       .arg(countText(turn.contextUsed()))});
  }
  if (state.live.running) {
    points.append({number + 1, double(bytesNow),
                   tr("Turn %1, running: %2").arg(number + 1).arg(bytesText(bytesNow)), true});
  }
  m_chart->setPoints(points);
}

void CacheTab::showBlocks(const InspectorState& state) {
  const engine::EngineSnapshot& snapshot = *state.snapshot;
  m_looks = blockOwnerLooks(state);
  m_blockCount->setText(
      snapshot.blocks.empty()
          ? QString()
          : tr("%1 blocks × %2 tokens · %3")
                .arg(countText(qint64(snapshot.blocks.size())))
                .arg(snapshot.shape.blockSize)
                .arg(snapshot.shape.type == engine::KvType::kInt8 ? "INT8" : "FP16"));
  m_blocks->showState(state, m_looks);
}

void CacheTab::showBranches(const InspectorState& state) {
  const engine::EngineSnapshot& snapshot = *state.snapshot;
  const Tokens& t = tokens();
  const BranchShares shares = branchShares(snapshot, state.conversation);
  m_branches->setBranches(shares, m_looks);
  m_branches->setVisible(!shares.branches.empty());
  const auto savedHere = bytesText(shares.savedHere);
  m_saved->setText(shares.savedPool > 0 ? tr("%1 saved").arg(bytesText(shares.savedPool))
                                        : QString());
  m_saved->setToolTip(tr("What all chats of the pool would hold more if nothing were shared"));
  int here = 0;
  int outside = 0;
  for (const BranchShares::Branch& branch : shares.branches) {
    here += branch.sharedHere;
    outside += branch.sharedOutside;
  }
  QVector<Legend::Entry> legend;
  if (here > 0) {
    legend.append({tr("shared by branches"),
                   {},
                   t.reused,
                   MarkPattern::kHatched,
                   tr("Blocks that two or more branches of this chat read")});
  }
  if (outside > 0) {
    legend.append({tr("shared with other chats"),
                   {},
                   t.information,
                   MarkPattern::kDotted,
                   tr("Blocks that another chat reads, too: the same system prompt or beginning")});
  }
  m_branchLegend->setEntries(legend);
  m_branchLegend->setVisible(!legend.isEmpty());
  QString note;
  if (shares.branches.empty()) {
    note =
        tr("Regenerate an answer or edit a question: the branches of this chat appear here, "
           "with what they share.");
  } else {
    note = shares.savedHere > 0
               ? tr("The branches of this chat hold %1 together; apart they would hold %2 more.")
                     .arg(bytesText(std::uint64_t(shares.distinctBlocks) * snapshot.bytesPerBlock),
                          savedHere)
               : tr("This chat holds %1 in one branch.")
                     .arg(bytesText(std::uint64_t(shares.distinctBlocks) * snapshot.bytesPerBlock));
    if (shares.sharedOutside > 0) {
      note +=
          u' ' + tr("%1 of it lie in blocks that other chats read, too.")
                     .arg(bytesText(std::uint64_t(shares.sharedOutside) * snapshot.bytesPerBlock));
    }
  }
  m_branchNote->setText(note);
}

void CacheTab::chooseBlock(int block) {
  if (!m_snapshot || block < 0 || block >= int(m_snapshot->blocks.size())) return;
  const engine::BlockCell& cell = m_snapshot->blocks[std::size_t(block)];
  const QVector<int> holders = holdersOf(*m_snapshot, block);
  if (holders.isEmpty()) return;
  // Of those who share it the branch on screen, else this chat, else the first.
  int chosen = holders.first();
  int best = 0;
  for (const int holder : holders) {
    if (holder >= m_looks.size()) continue;
    const int rank = !m_looks[holder].isThisChat                     ? 1
                     : m_looks[holder].branchKey == m_branchOnScreen ? 3
                                                                     : 2;
    if (rank <= best) continue;
    best = rank;
    chosen = holder;
  }
  if (chosen >= m_looks.size()) return;
  emit messageWanted(m_looks[chosen].conversation, m_looks[chosen].branchKey, cell.position);
}

void CacheTab::chooseBranch(int owner) {
  if (!m_snapshot || owner < 0 || owner >= m_looks.size()) return;
  const auto& chain = m_snapshot->owners[std::size_t(owner)].chain;
  if (chain.empty()) return;
  const engine::BlockCell& last = m_snapshot->blocks[std::size_t(chain.back())];
  emit messageWanted(m_looks[owner].conversation, m_looks[owner].branchKey,
                     last.position + std::max(0, last.filled - 1));
}

void CacheTab::showBlockText(int block, const QString& text) {
  m_blocks->setText(block, text);
}

bool CacheTab::wantsStates() const {
  return m_blocks->dialog() != nullptr;
}

void CacheTab::showMemory(const InspectorState& state) {
  m_memoryTotal->setText(state.memory.known ? bytesText(state.memory.rss) : QString());
  m_ledger->showLedger(state.memory);
}

}  // namespace vitrine::ui

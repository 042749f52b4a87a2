#include "ui/inspector/cache/block_section.h"

#include <QPushButton>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/inspector/cache/block_map.h"
#include "ui/inspector/cache/block_map_dialog.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

QVector<Legend::Entry> blockLegend(const engine::EngineSnapshot& snapshot,
                                   const QVector<BlockOwnerLook>& looks, int mostNames) {
  const Tokens& t = Theme::instance().tokens();
  QVector<Legend::Entry> entries;
  const auto words = [](const char* text) { return BlockMap::tr(text); };
  QVector<int> order(looks.size());
  for (int i = 0; i < looks.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (looks[a].isThisChat != looks[b].isThisChat) return looks[a].isThisChat;
    return looks[a].isThisChat && looks[a].branch < looks[b].branch;
  });
  int unnamed = 0;
  for (const int i : order) {
    const engine::CacheOwner& owner = snapshot.owners[std::size_t(i)];
    if (owner.blocks == 0 && owner.chain.empty()) continue;
    if (entries.size() >= mostNames) {
      ++unnamed;
      continue;
    }
    const int held = std::max(owner.blocks, int(owner.chain.size()));
    entries.append({looks[i].name, countText(held), looks[i].colour, MarkPattern::kSolid,
                    words("%1 tokens in blocks of its own; its history goes through %2 blocks")
                        .arg(countText(owner.tokens))
                        .arg(owner.chain.size())});
  }
  if (unnamed > 0) entries.append({words("%1 more").arg(unnamed), {}, t.muted});
  const auto shared = std::ranges::count_if(snapshot.blocks, [](const engine::BlockCell& c) {
    return c.sharers > 1 || c.references > 1;
  });
  if (shared > 0) {
    entries.append({words("cut corner: shared"), countText(qint64(shared)), t.reused,
                    MarkPattern::kHatched,
                    words("Several branches or chats read the same block; it is held once. The two "
                          "colours are those of two of them.")});
  }
  if (snapshot.blocksUsed > 0) {
    entries.append({words("outlined: in use now"), countText(snapshot.blocksUsed), t.text,
                    MarkPattern::kHollow, words("A turn that runs reads or writes these.")});
  }
  entries.append({words("free"), countText(snapshot.blocksFree), mix(t.panel, t.faint, 0.30)});
  return entries;
}

BlockSection::BlockSection(QWidget* parent)
    : QWidget(parent),
      m_map(new BlockMap(BlockMap::Extent::kHeld, this)),
      m_legend(new Legend(this)),
      m_note(new PlainLabel(LabelStyle::kMuted, this)),
      m_whole(new QPushButton(tr("Whole pool…"), this)) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(8);
  column->addWidget(m_map);
  column->addWidget(m_legend);
  auto* row = new QHBoxLayout;
  m_note->setWordWrap(true);
  row->addWidget(m_note, 1);
  m_whole->setProperty("kind", "link");
  m_whole->setObjectName("wholePool");
  m_whole->setToolTip(tr("Every block of the pool in a window of its own"));
  row->addWidget(m_whole);
  column->addLayout(row);
  connect(m_map, &BlockMap::textWanted, this, &BlockSection::textWanted);
  connect(m_map, &BlockMap::chosen, this, &BlockSection::chosen);
  connect(m_whole, &QPushButton::clicked, this, &BlockSection::openDialog);
}

BlockMapDialog* BlockSection::dialog() const {
  return m_dialog;
}

void BlockSection::openDialog() {
  if (!m_dialog) {
    m_dialog = new BlockMapDialog(window());
    m_dialog->setAttribute(Qt::WA_DeleteOnClose);
    connect(m_dialog, &BlockMapDialog::textWanted, this, &BlockSection::textWanted);
    connect(m_dialog, &BlockMapDialog::chosen, this, &BlockSection::chosen);
  }
  m_dialog->show();
  m_dialog->raise();
  m_dialog->activateWindow();
  emit dialogOpened();
}

void BlockSection::setText(int block, const QString& text) {
  m_map->setText(block, text);
  if (m_dialog) m_dialog->setText(block, text);
}

void BlockSection::showState(const InspectorState& state, const QVector<BlockOwnerLook>& looks) {
  const engine::EngineSnapshot& snapshot = *state.snapshot;
  const bool hasPool = !snapshot.blocks.empty();
  m_map->setBlocks(state.snapshot, looks);
  m_map->setVisible(hasPool);
  m_legend->setEntries(hasPool ? blockLegend(snapshot, looks, 8) : QVector<Legend::Entry>{});
  m_legend->setVisible(hasPool);
  m_whole->setVisible(hasPool);
  if (m_dialog) m_dialog->showState(state, looks);

  QString note;
  if (!hasPool) {
    note = state.info ? tr("There is no pool of blocks while the cache is off.")
                      : tr("The pool's blocks appear here once a model is loaded.");
  } else if (m_map->hiddenFreeBlocks() > 0) {
    note = tr("and %1 free blocks more").arg(countText(m_map->hiddenFreeBlocks()));
  }
  m_note->setText(note);
}

}  // namespace vitrine::ui

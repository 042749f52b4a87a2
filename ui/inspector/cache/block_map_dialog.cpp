#include "ui/inspector/cache/block_map_dialog.h"

#include <QHBoxLayout>
#include <QScrollArea>
#include <QSlider>
#include <QVBoxLayout>

#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/common/plain_label.h"
#include "ui/inspector/cache/block_map.h"
#include "ui/inspector/cache/block_section.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kSmallestCell = 5;
constexpr int kLargestCell = 40;
constexpr int kUsualCell = 18;

}  // namespace

BlockMapDialog::BlockMapDialog(QWidget* parent)
    : QDialog(parent),
      m_counts(new PlainLabel(LabelStyle::kFigureMuted, this)),
      m_map(new BlockMap(BlockMap::Extent::kWhole, this)),
      m_size(new QSlider(Qt::Horizontal, this)),
      m_legend(new Legend(this)),
      m_block(new PlainLabel(LabelStyle::kMuted, this)),
      m_text(new PlainLabel(LabelStyle::kFigure, this)) {
  setWindowTitle(tr("Block map of the whole pool"));
  const Theme& theme = Theme::instance();
  resize(theme.px(900), theme.px(640));
  auto* column = new QVBoxLayout(this);
  column->setSpacing(theme.px(10));
  column->setContentsMargins(theme.px(16), theme.px(14), theme.px(16), theme.px(14));
  auto* head = new QHBoxLayout;
  m_counts->setObjectName("poolCounts");
  m_counts->setWordWrap(true);
  head->addWidget(m_counts, 1);
  head->addWidget(new PlainLabel(tr("Cell size"), LabelStyle::kMuted, this));
  m_size->setRange(kSmallestCell, kLargestCell);
  m_size->setValue(kUsualCell);
  m_size->setFixedWidth(theme.px(120));
  m_size->setAccessibleName(tr("Size of a cell"));
  head->addWidget(m_size);
  column->addLayout(head);
  auto* scroll = new QScrollArea(this);
  scroll->setWidgetResizable(true);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setFrameShape(QFrame::NoFrame);
  auto* place = new QWidget(scroll);
  auto* inner = new QVBoxLayout(place);
  inner->setContentsMargins(2, 2, 2, 2);
  inner->addWidget(m_map);
  inner->addStretch(1);
  scroll->setWidget(place);
  column->addWidget(scroll, 1);
  column->addWidget(m_legend);
  // Three lines of words and one of text, whatever is pointed at, so that nothing jumps.
  m_block->setObjectName("blockWords");
  m_block->setMinimumHeight(theme.px(56));
  m_block->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  m_block->setWordWrap(true);
  m_text->setObjectName("blockText");
  m_text->setMinimumHeight(theme.px(40));
  m_text->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  m_text->setWordWrap(true);
  column->addWidget(m_block);
  column->addWidget(m_text);

  m_map->setCellPixels(kUsualCell);
  connect(m_size, &QSlider::valueChanged, m_map, &BlockMap::setCellPixels);
  connect(m_map, &BlockMap::textWanted, this, [this](int block) {
    showBlock(m_map->pointedAt());
    emit textWanted(block);
  });
  connect(m_map, &BlockMap::chosen, this, &BlockMapDialog::chosen);
  showBlock(-1);
}

void BlockMapDialog::showBlock(int block) {
  m_text->clear();
  m_block->setText(block < 0 ? tr("Point at a block, or move with the arrow keys: here is what it "
                                  "holds. A click or Enter goes to the message.")
                             : m_map->describe(block));
}

void BlockMapDialog::setText(int block, const QString& text) {
  m_map->setText(block, text);
  if (block == m_map->pointedAt()) m_text->setText(text);
}

void BlockMapDialog::showState(const InspectorState& state, const QVector<BlockOwnerLook>& looks) {
  const engine::EngineSnapshot& snapshot = *state.snapshot;
  m_map->setBlocks(state.snapshot, looks);
  m_legend->setEntries(snapshot.blocks.empty() ? QVector<Legend::Entry>{}
                                               : blockLegend(snapshot, looks, 24));
  if (snapshot.blocks.empty()) {
    m_counts->setText(tr("There is no pool of blocks now."));
  } else {
    const auto blocks = quint64(snapshot.blocks.size());
    m_counts->setText(tr("%1 blocks of %2 tokens × %3 = %4 · %5 · %6 in use, %7 kept, %8 free")
                          .arg(countText(qint64(blocks)))
                          .arg(snapshot.shape.blockSize)
                          .arg(bytesText(snapshot.bytesPerBlock),
                               bytesText(blocks * snapshot.bytesPerBlock),
                               snapshot.shape.type == engine::KvType::kInt8 ? "INT8" : "FP16",
                               countText(snapshot.blocksUsed), countText(snapshot.blocksCached),
                               countText(snapshot.blocksFree)));
  }
  if (m_map->pointedAt() >= 0) m_block->setText(m_map->describe(m_map->pointedAt()));
}

}  // namespace vitrine::ui

#include "ui/inspector/cache/cache_tab.h"

#include <QHBoxLayout>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/common/plain_label.h"
#include "ui/inspector/cache/block_map.h"
#include "ui/inspector/cache/formula_view.h"
#include "ui/inspector/charts/turn_chart.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kMostLegendNames = 6;

const Tokens& tokens() {
  return Theme::instance().tokens();
}

QString nameOfOwner(const InspectorState& state, const engine::CacheOwner& owner) {
  const QString key = QString::fromStdString(owner.conversation);
  QString name = state.ownerLook ? state.ownerLook(key).title : key;
  if (name.isEmpty()) name = InspectorTab::tr("Untitled chat");
  return oneLine(name, 60);
}

}  // namespace

QColor branchColour(int branch) {
  const Tokens& t = tokens();
  switch (branch % 4) {
    case 0:
      return t.reused;
    case 1:
      return mix(t.reused, t.text, 0.45);
    case 2:
      return mix(t.reused, t.information, 0.50);
    default:
      return mix(t.reused, t.panel, 0.45);
  }
}

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
  m_blocks = new BlockMap(this);
  section->addWidget(m_blocks);
  m_blockLegend = new Legend(this);
  section->addWidget(m_blockLegend);
  m_blockNote = new PlainLabel(LabelStyle::kMuted, this);
  m_blockNote->setWordWrap(true);
  section->addWidget(m_blockNote);

  section = addSection(tr("Where the memory is"), &m_memoryTotal);
  m_memoryTotal->setToolTip(tr("What the system says this program holds in memory (RSS)"));
  m_memoryBar = new StackedBar(11, this);
  m_memoryBar->setAccessibleName(tr("Where the memory is"));
  section->addWidget(m_memoryBar);
  m_memoryLegend = new Legend(this);
  section->addWidget(m_memoryLegend);
  m_memoryNote = new PlainLabel(LabelStyle::kMuted, this);
  m_memoryNote->setWordWrap(true);
  section->addWidget(m_memoryNote);
  endSections();
}

void CacheTab::showState(const InspectorState& state) {
  showUse(state);
  showBlocks(state);
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

  if (use.blocks > 0) {
    QString held =
        tr("held: %1 × %2 = %3")
            .arg(countText(use.blocks), bytesText(snapshot.bytesPerBlock), bytesText(use.bytes));
    const std::uint64_t scales = std::uint64_t(use.blocks) * snapshot.memory.kvScaleBytesPerBlock;
    if (scales > 0) held += tr(", of it scales %1").arg(bytesText(scales));
    m_held->setText(held);
  } else {
    m_held->clear();
  }
  m_held->setVisible(use.blocks > 0);

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

void CacheTab::showFormula(const InspectorState& state, int tokenCount) {
  if (!state.info) {
    m_formula->hide();
    return;
  }
  const engine::ModelConfig& config = state.info->config;
  const engine::KvShape& shape = state.snapshot->shape;
  const int kvHeads = shape.nKvHeads > 0 ? shape.nKvHeads : config.nKvHeads;
  const std::uint64_t bytes = shape.type == engine::KvType::kInt8 ? 1 : 2;
  const std::uint64_t total = std::uint64_t(config.nLayers) * std::uint64_t(tokenCount) *
                              std::uint64_t(kvHeads) * std::uint64_t(config.headDim) * 2 * bytes;
  m_formula->setFormula(
      {{"B", "1", tr("B: sequences (this chat)")},
       {"L", countText(config.nLayers), tr("L: layers of the model")},
       {"S", countText(tokenCount), tr("S: tokens kept")},
       {"H_kv", countText(kvHeads), tr("H_kv: key and value heads of a layer")},
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
  const Tokens& t = tokens();
  m_blockCount->setText(snapshot.blocks.empty()
                            ? QString()
                            : tr("%1 blocks × %2 tokens")
                                  .arg(countText(qint64(snapshot.blocks.size())))
                                  .arg(snapshot.shape.blockSize));
  QVector<QColor> colours;
  QStringList names;
  QVector<Legend::Entry> legend;
  int branches = 0;
  int others = 0;
  bool anyShared = false;
  for (const engine::BlockCell& block : snapshot.blocks) {
    if (block.references > 1) {
      anyShared = true;
      break;
    }
  }
  for (const engine::CacheOwner& owner : snapshot.owners) {
    const QString key = QString::fromStdString(owner.conversation);
    if (key == state.conversation && !key.isEmpty()) {
      const int branch = branches++;
      const QColor colour = branchColour(branch);
      colours << colour;
      const QString name =
          branch == 0 ? tr("this chat") : tr("this chat, branch %1").arg(branch + 1);
      names << name;
      if (owner.blocks > 0 && branch < 4) {
        legend.insert(branch, {name, countText(owner.blocks), colour, MarkPattern::kSolid,
                               tr("%1 tokens").arg(countText(owner.tokens))});
      }
      continue;
    }
    const QColor colour = state.ownerLook ? state.ownerLook(key).colour : t.muted;
    const QString name = nameOfOwner(state, owner);
    colours << colour;
    names << name;
    if (owner.blocks > 0 && others++ < kMostLegendNames) {
      legend.append({name, countText(owner.blocks), colour});
    }
  }
  if (others > kMostLegendNames) {
    legend.append({tr("%1 more chats").arg(others - kMostLegendNames), {}, t.muted});
  }
  if (anyShared) {
    legend.append({tr("cut corner: shared"),
                   {},
                   t.reused,
                   MarkPattern::kHollow,
                   tr("Several branches or chats read the same block; it is held once.")});
  }
  if (!snapshot.blocks.empty()) {
    legend.append({tr("free"), countText(snapshot.blocksFree), mix(t.panel, t.faint, 0.30)});
  }
  m_blocks->setBlocks(state.snapshot, colours, names);
  m_blocks->setVisible(!snapshot.blocks.empty());
  m_blockLegend->setEntries(legend);
  m_blockLegend->setVisible(!legend.isEmpty());

  QString note;
  if (snapshot.blocks.empty()) {
    note = state.info ? tr("There is no pool of blocks while the cache is off.")
                      : tr("The pool's blocks appear here once a model is loaded.");
  } else if (m_blocks->hiddenFreeBlocks() > 0) {
    note = tr("and %1 free blocks more").arg(countText(m_blocks->hiddenFreeBlocks()));
  }
  if (m_blocks->blocksPerCell() > 1) {
    note +=
        (note.isEmpty() ? "" : " · ") + tr("a cell is %1 blocks").arg(m_blocks->blocksPerCell());
  }
  m_blockNote->setText(note);
  m_blockNote->setVisible(!note.isEmpty());
}

void CacheTab::showMemory(const InspectorState& state) {
  const MemoryLedger& memory = state.memory;
  const Tokens& t = tokens();
  m_memoryTotal->setText(memory.known ? bytesText(memory.rss) : QString());
  QVector<StackedBar::Part> parts;
  QVector<Legend::Entry> legend;
  const auto add = [&](const QString& name, std::uint64_t bytes, std::uint64_t inBar,
                       const QColor& colour, MarkPattern pattern, const QString& meaning) {
    if (bytes == 0) return;
    const QString words = meaning + u'\n' + exactBytesText(bytes);
    parts.append({name, double(inBar), colour, pattern, words});
    legend.append({name, bytesText(bytes), colour, pattern, words});
  };
  add(tr("weights"), memory.weights, memory.weights, t.information, MarkPattern::kSolid,
      tr("Weights in the form that is computed with"));
  add(tr("model file"), memory.modelFile, memory.modelFile, t.information, MarkPattern::kHatched,
      tr("Pages of the mapped file that are in memory; the system may drop them at any time"));
  add(tr("KV used"), memory.kvUsed, memory.kvUsed, t.reused, MarkPattern::kSolid,
      tr("Blocks that hold keys and values"));
  add(tr("KV free"), memory.kvFree, memory.kvFreeResident, t.reused, MarkPattern::kHollow,
      tr("Reserved for blocks and not used; %1 of it is in memory, the system gives the rest when "
         "it is first written")
          .arg(bytesText(memory.kvFreeResident)));
  add(tr("workspace"), memory.workspace, memory.workspace, t.generated, MarkPattern::kDotted,
      tr("Intermediate results of a step"));
  add(tr("program"), memory.program, memory.program, t.faint, MarkPattern::kSolid,
      tr("Code, libraries, fonts, and what the program held before a model was loaded"));
  add(tr("unexplained"), memory.unexplained, memory.unexplained, t.fault, MarkPattern::kHatched,
      tr("What the system counts and we cannot name: the chat's text, caches of the window, "
         "memory that was freed and is not yet given back"));
  m_memoryBar->setParts(parts);
  m_memoryLegend->setEntries(legend);
  m_memoryNote->setText(tr("The system does not tell what this program holds."));
  m_memoryNote->setVisible(!memory.known);
}

}  // namespace vitrine::ui

#include "ui/models/model_details.h"

#include <QPushButton>
#include <QVBoxLayout>
#include <algorithm>

#include "app/text.h"
#include "engine/backend/backend.h"
#include "engine/measure/machine.h"
#include "ui/common/engine_switching.h"
#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/models/memory_planner.h"
#include "ui/models/model_list.h"

namespace vitrine::ui {
namespace {

std::uint64_t kvBytesPerToken(const engine::ModelConfig& config, engine::KvType type) {
  const engine::KvShape shape{type, 16, 1, config.nKvHeads};
  return engine::kvBytesPerBlock(config, shape) / std::uint64_t(shape.blockSize);
}

}  // namespace

int contextThatFits(const app::ModelEntry& entry, engine::KvType type, std::uint64_t freeBytes) {
  if (entry.config.nLayers == 0 || freeBytes <= entry.bytes) return 0;
  const std::uint64_t tokens = (freeBytes - entry.bytes) / kvBytesPerToken(entry.config, type);
  return int(std::min<std::uint64_t>(tokens, std::uint64_t(entry.contextLength)));
}

ModelDetails::ModelDetails(QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(20, 4, 4, 4);
  column->setSpacing(8);
  m_name = new PlainLabel(LabelStyle::kTitle, this);
  m_name->setElided(Qt::ElideMiddle);
  m_path = new PlainLabel(LabelStyle::kMuted, this);
  m_path->setWordWrap(true);
  m_path->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  m_problem = new PlainLabel(LabelStyle::kFault, this);
  m_problem->setObjectName("modelProblem");
  m_problem->setWordWrap(true);
  m_problem->setTextInteractionFlags(Qt::TextSelectableByMouse);
  m_figures = new FigureGrid(this);
  m_note = new PlainLabel(LabelStyle::kMuted, this);
  m_note->setWordWrap(true);
  m_load = new QPushButton(tr("Use this model"), this);
  m_load->setObjectName("useModel");
  m_load->setProperty("kind", "primary");
  connect(m_load, &QPushButton::clicked, this, &ModelDetails::loadWanted);
  column->addWidget(m_name);
  column->addWidget(m_path);
  column->addWidget(m_problem);
  column->addSpacing(4);
  column->addWidget(m_figures);
  column->addWidget(m_note);
  column->addSpacing(8);
  column->addWidget(m_load, 0, Qt::AlignLeft);
  m_planner = new MemoryPlanner(this);
  column->addWidget(m_planner);
  column->addStretch(1);
  showEntry(nullptr, false);
}

QString ModelDetails::figure(const QString& name) const {
  return m_figures->figure(name);
}

void ModelDetails::showEntry(const app::ModelEntry* entry, bool loaded) {
  m_name->setVisible(entry);
  m_path->setVisible(entry);
  m_load->setVisible(entry && entry->problem.isEmpty());
  m_problem->setVisible(entry && !entry->problem.isEmpty());
  m_note->setVisible(true);
  m_planner->hide();
  if (!entry) {
    m_figures->setRows({});
    m_note->setText(tr("Choose a model to see what it holds and what it needs."));
    return;
  }
  m_name->setText(oneLine(entry->name, 200));
  m_path->setText(app::displayPath(entry->path));
  m_problem->setText(entry->problem);
  m_load->setText(loaded ? tr("In use") : tr("Use this model"));
  m_load->setEnabled(!loaded);

  QVector<FigureGrid::Row> rows{
      {tr("File"), bytesText(entry->bytes), exactBytesText(entry->bytes)}};
  const auto add = [&rows](const QString& name, const QString& figure, const QString& tip = {}) {
    if (!figure.isEmpty()) rows.append({name, figure, tip});
  };
  add(tr("Weights"), entry->quantization);
  add(tr("Architecture"), oneLine(entry->architecture, 40));
  add(tr("Parameters"), entry->parameters > 0 ? countText(qint64(entry->parameters)) : QString());
  const engine::ModelConfig& config = entry->config;
  if (config.nLayers > 0) {
    add(tr("Layers × width"), tr("%1 × %2").arg(config.nLayers).arg(countText(config.dModel)));
    add(tr("Attention"), attentionText(config.nHeads, config.nKvHeads),
        tr("Query heads and key/value heads"));
    add(tr("Head size"), countText(config.headDim));
    add(tr("Vocabulary"), tr("%1 tokens").arg(countText(config.vocabSize)));
    add(tr("Context"), tr("%1 tokens").arg(countText(entry->contextLength)));
    const std::uint64_t free = engine::availableMemoryBytes();
    add(tr("Memory free now"), bytesText(free));
    for (const engine::KvType type : {engine::KvType::kFp16, engine::KvType::kInt8}) {
      const std::uint64_t perToken = kvBytesPerToken(config, type);
      add(tr("KV %1 per token").arg(kvTypeText(type)), bytesText(perToken),
          exactBytesText(perToken));
      const int tokens = contextThatFits(*entry, type, free);
      add(tr("fits beside the weights"),
          tr("%1 tokens · %2").arg(countText(tokens), bytesText(perToken * std::uint64_t(tokens))),
          tr("At most the model's own context"));
    }
    if (!entry->weightNeeds.empty() && !loaded) {
      m_planner->showModel(*entry, free);
      m_planner->show();
    }
    const bool fits = free > entry->bytes;
    m_note->setText(fits ? tr("Computed from the file's shapes; weights as in the file.")
                         : tr("The weights alone need more memory than is free: %1 of %2.")
                               .arg(bytesText(entry->bytes), bytesText(free)));
  } else {
    m_note->setText(QString());
    m_note->hide();
  }
  m_figures->setRows(rows);
}

}  // namespace vitrine::ui

#include "ui/models/memory_planner.h"

#include <QFormLayout>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/common/engine_switching.h"
#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"

namespace vitrine::ui {
namespace {

constexpr std::uint64_t kMegabyte = 1 << 20;
constexpr int kMostMegabytes = 4 << 20;  // 4 TB
constexpr engine::WeightMode kModes[] = {engine::WeightMode::kNative, engine::WeightMode::kFp16,
                                         engine::WeightMode::kBf16, engine::WeightMode::kInt8};
constexpr engine::KvType kTypes[] = {engine::KvType::kFp16, engine::KvType::kInt8};

}  // namespace

MemoryPlanner::MemoryPlanner(QWidget* parent)
    : QWidget(parent),
      m_weights(new SegmentedSwitch(tr("Weights"), {}, this)),
      m_kv(new SegmentedSwitch(tr("KV"), {}, this)),
      m_headSwitch(new SegmentedSwitch(tr("KV heads"), {}, this)),
      m_memory(new QSpinBox(this)),
      m_context(new QSpinBox(this)),
      m_figures(new FigureGrid(this)),
      m_warning(new PlainLabel(LabelStyle::kFault, this)) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 8, 0, 0);
  column->setSpacing(8);
  column->addWidget(
      new PlainLabel(tr("Plan the memory before loading"), LabelStyle::kHeading, this));
  m_weights->setObjectName("planWeights");
  m_kv->setObjectName("planKv");
  m_headSwitch->setObjectName("planHeads");
  for (SegmentedSwitch* one : {m_weights, m_kv, m_headSwitch}) {
    column->addWidget(one, 0, Qt::AlignLeft);
  }
  auto* form = new QFormLayout;
  form->setHorizontalSpacing(12);
  form->setVerticalSpacing(6);
  m_memory->setObjectName("planMemory");
  m_memory->setRange(1, kMostMegabytes);
  m_memory->setSuffix(tr(" MB"));
  m_memory->setSingleStep(64);
  m_memory->setAccessibleName(tr("Memory to give"));
  m_memory->setKeyboardTracking(false);
  m_context->setObjectName("planContext");
  m_context->setSuffix(tr(" tokens"));
  m_context->setSingleStep(256);
  m_context->setAccessibleName(tr("Context"));
  m_context->setKeyboardTracking(false);
  form->addRow(new PlainLabel(tr("Memory to give"), LabelStyle::kMuted, this), m_memory);
  form->addRow(new PlainLabel(tr("Context"), LabelStyle::kMuted, this), m_context);
  column->addLayout(form);
  column->addWidget(m_figures);
  m_warning->setObjectName("planWarning");
  m_warning->setWordWrap(true);
  column->addWidget(m_warning);

  connect(m_weights, &SegmentedSwitch::chosen, this, [this](int index) {
    m_choice.weights = kModes[index];
    replan();
  });
  connect(m_kv, &SegmentedSwitch::chosen, this, [this](int index) {
    m_choice.kv = kTypes[index];
    replan();
  });
  connect(m_headSwitch, &SegmentedSwitch::chosen, this, [this](int index) {
    m_choice.kvHeads = m_heads[std::size_t(index)];
    replan();
  });
  connect(m_memory, &QSpinBox::valueChanged, this, &MemoryPlanner::memoryChanged);
  connect(m_context, &QSpinBox::valueChanged, this, &MemoryPlanner::contextChanged);
}

void MemoryPlanner::showModel(const app::ModelEntry& model, std::uint64_t freeBytes) {
  const bool isOther = model.path != m_model.path;
  m_model = model;
  m_freeBytes = freeBytes;
  m_heads = app::kvHeadChoices(model);
  if (isOther) m_choice = {engine::WeightMode::kNative, m_choice.kv, model.config.nKvHeads};
  QVector<SegmentedSwitch::Choice> weights;
  for (const engine::WeightMode mode : kModes) {
    const QString native = nativeFormatText(model.quantization);
    const bool isNative = mode == engine::WeightMode::kNative;
    weights.append({isNative ? native : weightModeText(mode),
                    isNative ? tr("As in the file") : QString(), true});
  }
  m_weights->setChoices(weights);
  m_kv->setChoices({{kvTypeText(kTypes[0]), {}, true}, {kvTypeText(kTypes[1]), {}, true}});
  QVector<SegmentedSwitch::Choice> heads;
  for (const int count : m_heads) {
    const int own = model.config.nKvHeads;
    heads.append({QString::number(count),
                  count == own  ? tr("The model's own")
                  : count > own ? tr("Repeated heads: exact, more memory")
                                : tr("Averaged heads: approximate, less memory"),
                  true});
  }
  m_headSwitch->setChoices(heads);
  m_headSwitch->setVisible(heads.size() > 1);
  const QSignalBlocker noMemory(m_memory);
  const QSignalBlocker noContext(m_context);
  m_context->setRange(1, std::max(1, model.contextLength));
  if (isOther) {
    m_memory->setValue(int(std::min<std::uint64_t>(freeBytes / kMegabyte, kMostMegabytes)));
  }
  replan();
}

std::uint64_t MemoryPlanner::memoryBytes() const {
  return std::uint64_t(m_memory->value()) * kMegabyte;
}

// Another way to run it: the memory stays, the context follows.
void MemoryPlanner::replan() {
  m_plan = app::planMemory(m_model, m_choice);
  m_weights->setCurrent(
      int(std::find(std::begin(kModes), std::end(kModes), m_choice.weights) - std::begin(kModes)));
  m_kv->setCurrent(m_choice.kv == engine::KvType::kInt8 ? 1 : 0);
  m_headSwitch->setCurrent(
      int(std::find(m_heads.begin(), m_heads.end(), m_choice.kvHeads) - m_heads.begin()));
  memoryChanged();
}

void MemoryPlanner::memoryChanged() {
  const QSignalBlocker quiet(m_context);
  m_context->setValue(int(std::max<std::int64_t>(1, m_plan.contextThatFits(memoryBytes()))));
  showPlan();
}

void MemoryPlanner::contextChanged() {
  const QSignalBlocker quiet(m_memory);
  const std::uint64_t wanted = m_plan.memoryFor(m_context->value());
  m_memory->setValue(
      int(std::min<std::uint64_t>((wanted + kMegabyte - 1) / kMegabyte, kMostMegabytes)));
  showPlan();
}

void MemoryPlanner::showPlan() {
  const int tokens = m_context->value();
  const std::uint64_t kv = m_plan.kvBytes(tokens);
  const std::uint64_t wanted = m_plan.memoryFor(tokens);
  QVector<FigureGrid::Row> rows{
      {tr("Weights in memory"), bytesText(m_plan.weightBytes), exactBytesText(m_plan.weightBytes)},
      {tr("of the file, while running"), bytesText(m_plan.mappedBytes),
       tr("The embedding is read where it lies in the mapped file.")}};
  for (const int heads : m_heads) {
    QStringList sizes;
    for (const engine::KvType type : kTypes) {
      const auto plan = app::planMemory(m_model, {m_choice.weights, type, heads});
      sizes << QStringLiteral("%1 %2").arg(bytesText(plan.kvBytesPerToken), kvTypeText(type));
    }
    rows.append({heads == m_model.config.nKvHeads ? tr("KV a token, %1 heads (own)").arg(heads)
                 : heads == 1                     ? tr("KV a token, 1 head")
                                                  : tr("KV a token, %1 heads").arg(heads),
                 sizes.join(QStringLiteral(" · "))});
  }
  rows.append({tr("KV of this context"), bytesText(kv), exactBytesText(kv)});
  rows.append({tr("Together"), bytesText(wanted),
               tr("The program itself and a step's intermediate results come on top, some tens of "
                  "megabytes.")});
  rows.append({tr("Chats of that length at a time"),
               countText(m_plan.chatsThatFit(memoryBytes(), tokens))});
  rows.append({tr("Memory free now"), bytesText(m_freeBytes)});
  m_figures->setRows(rows);

  QString warning;
  if (m_plan.fixedBytes() + m_plan.kvBytes(1) > memoryBytes()) {
    warning =
        tr("The weights and one block need %1, more than the %2 to give. Choose smaller "
           "weights or give more.")
            .arg(bytesText(m_plan.fixedBytes() + m_plan.kvBytes(1)), bytesText(memoryBytes()));
  } else if (wanted > m_freeBytes) {
    warning = tr("This needs %1, but only %2 are free now: it will not fit.")
                  .arg(bytesText(wanted), bytesText(m_freeBytes));
  }
  m_warning->setText(warning);
  m_warning->setVisible(!warning.isEmpty());
}

QString MemoryPlanner::figure(const QString& name) const {
  return m_figures->figure(name);
}

QString MemoryPlanner::warning() const {
  return m_warning->text();
}

}  // namespace vitrine::ui

#include "ui/inspector/precision/precision_tab.h"

#include <QHBoxLayout>
#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>

#include "engine/model/model.h"
#include "ui/common/engine_switching.h"
#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/common/toggle_switch.h"
#include "ui/inspector/precision/weight_sizes.h"

namespace vitrine::ui {
namespace {

constexpr engine::WeightMode kWeightModes[] = {engine::WeightMode::kNative,
                                               engine::WeightMode::kFp16, engine::WeightMode::kBf16,
                                               engine::WeightMode::kInt8};

std::string measuredKey(const std::string& fingerprint, const engine::WeightPrecision& precision) {
  std::string key = fingerprint + '/' + engine::toString(precision.weights);
  if (precision.weights == engine::WeightMode::kInt8) {
    key += '/' + std::to_string(precision.groupSize);
  }
  return key;
}

}  // namespace

PrecisionTab::PrecisionTab(QWidget* parent) : InspectorTab(parent) {
  QVBoxLayout* section = addSection(tr("Weights"), &m_weightsAside);
  m_empty = new PlainLabel(tr("Load a model to switch how it is run. What is set here is used for "
                              "the next one."),
                           LabelStyle::kMuted, this);
  m_empty->setWordWrap(true);
  section->addWidget(m_empty);

  m_progressBox = new QWidget(this);
  auto* progressColumn = new QVBoxLayout(m_progressBox);
  progressColumn->setContentsMargins(0, 0, 0, 0);
  auto* progressRow = new QHBoxLayout;
  m_progressText = new PlainLabel(LabelStyle::kMuted, m_progressBox);
  m_cancel = new QPushButton(tr("Stop"), m_progressBox);
  m_cancel->setProperty("kind", "link");
  m_cancel->setAccessibleName(tr("Stop the change"));
  progressRow->addWidget(m_progressText, 1);
  progressRow->addWidget(m_cancel);
  progressColumn->addLayout(progressRow);
  m_progress = new QProgressBar(m_progressBox);
  m_progress->setRange(0, 1000);
  m_progress->setTextVisible(false);
  m_progress->setAccessibleName(tr("Progress of the change"));
  progressColumn->addWidget(m_progress);
  section->addWidget(m_progressBox);

  QVector<SegmentedSwitch::Choice> modes;
  for (const engine::WeightMode mode : kWeightModes) modes.append({weightModeText(mode), {}});
  modes[0].toolTip = tr("As they are in the file, computed in that format");
  modes[1].toolTip = tr("Converted to 16-bit floating point");
  modes[2].toolTip = tr("Converted to bfloat16: the range of FP32, fewer digits than FP16");
  modes[3].toolTip = tr("Converted to 8-bit integers, a scale for each group of a row");
  m_weights = new SegmentedSwitch({}, modes, this);
  m_weights->setObjectName("weightsSwitch");
  m_weights->setAccessibleName(tr("Weights"));
  section->addWidget(m_weights);
  m_weightSizes = new FigureGrid(this);
  section->addWidget(m_weightSizes);
  m_weightNote = new PlainLabel(LabelStyle::kMuted, this);
  m_weightNote->setWordWrap(true);
  section->addWidget(m_weightNote);

  section = addSection(tr("Activations"));
  m_activations = new SegmentedSwitch(
      {},
      {{QStringLiteral("FP16"), tr("Inputs of each product stay floating point")},
       {QStringLiteral("INT8"), tr("Inputs are rounded to 8 bits as they come; products run in "
                                   "integers (W8A8). Needs INT8 weights.")}},
      this);
  m_activations->setObjectName("activationsSwitch");
  m_activations->setAccessibleName(tr("Activations"));
  section->addWidget(m_activations);
  m_activationNote = new PlainLabel(LabelStyle::kMuted, this);
  m_activationNote->setWordWrap(true);
  section->addWidget(m_activationNote);

  section = addSection(tr("KV cache"), &m_kvAside);
  m_kv = new SegmentedSwitch(
      {},
      {{QStringLiteral("FP16"), tr("Keys and values in 16 bits")},
       {QStringLiteral("INT8"), tr("Keys and values in 8 bits, a scale for each token and head")}},
      this);
  m_kv->setObjectName("kvSwitch");
  m_kv->setAccessibleName(tr("KV cache type"));
  section->addWidget(m_kv);
  m_kvSizes = new FigureGrid(this);
  section->addWidget(m_kvSizes);

  section = addSection(tr("Use of the cache"));
  m_cacheOn = new ToggleSwitch(tr("Keep keys and values (KV cache)"), this);
  m_cacheOn->setToolTip(tr("Off: each token computes the whole chat again"));
  m_cacheOn->setObjectName("cacheToggle");
  section->addWidget(m_cacheOn);
  m_reuse = new ToggleSwitch(tr("Reuse them for the next turn"), this);
  m_reuse->setToolTip(tr("Off: each turn computes its whole prompt"));
  m_reuse->setObjectName("reuseToggle");
  section->addWidget(m_reuse);
  m_layout = new SegmentedSwitch(
      tr("Layout"),
      {{tr("Paged"), tr("Blocks from a pool, as they are needed")},
       {tr("Contiguous"), tr("The whole context is reserved for each chat up front")}},
      this);
  m_layout->setObjectName("layoutSwitch");
  section->addWidget(m_layout);
  m_layoutNote = new PlainLabel(LabelStyle::kMuted, this);
  m_layoutNote->setWordWrap(true);
  section->addWidget(m_layoutNote);
  m_consequence = new PlainLabel(LabelStyle::kMuted, this);
  m_consequence->setObjectName("consequence");
  m_consequence->setWordWrap(true);
  section->addWidget(m_consequence);
  endSections();

  connect(m_cancel, &QPushButton::clicked, this, &InspectorTab::cancelWanted);
  connect(m_weights, &SegmentedSwitch::chosen, this, [this](int index) {
    want([&](engine::EngineConfig& c) { c.precision.weights = kWeightModes[index]; });
  });
  connect(m_activations, &SegmentedSwitch::chosen, this, [this](int index) {
    want([&](engine::EngineConfig& c) {
      c.precision.activations =
          index == 1 ? engine::ActivationMode::kInt8 : engine::ActivationMode::kFp16;
    });
  });
  connect(m_kv, &SegmentedSwitch::chosen, this, [this](int index) {
    want([&](engine::EngineConfig& c) {
      c.cache.type = index == 1 ? engine::KvType::kInt8 : engine::KvType::kFp16;
    });
  });
  connect(m_layout, &SegmentedSwitch::chosen, this, [this](int index) {
    want([&](engine::EngineConfig& c) {
      c.cache.layout = index == 1 ? engine::KvLayout::kContiguous : engine::KvLayout::kPaged;
    });
  });
  connect(m_cacheOn, &ToggleSwitch::toggled, this, [this](bool on) {
    if (!m_filling) want([&](engine::EngineConfig& c) { c.cache.enabled = on; });
  });
  connect(m_reuse, &ToggleSwitch::toggled, this, [this](bool on) {
    if (!m_filling) want([&](engine::EngineConfig& c) { c.cache.reuse = on; });
  });
}

template <typename Change>
void PrecisionTab::want(Change change) {
  engine::EngineConfig config = m_wanted;
  change(config);
  m_wanted = config;
  emit configWanted(config);
}

void PrecisionTab::showState(const InspectorState& state) {
  m_wanted = state.wanted;
  m_filling = true;
  showProgress(state);
  showWeights(state);
  showKv(state);
  showCache(state);
  m_filling = false;
}

void PrecisionTab::showProgress(const InspectorState& state) {
  m_empty->setVisible(!state.info && !state.loading);
  m_progressBox->setVisible(state.loading);
  const QString stage = state.loadStage.isEmpty() ? tr("Preparing") : state.loadStage;
  m_progressText->setText(tr("%1 · %2").arg(stage, percentText(state.loadFraction)));
  m_progress->setValue(int(state.loadFraction * 1000));
}

void PrecisionTab::showWeights(const InspectorState& state) {
  const engine::EngineConfig& running = state.info ? state.info->running : state.wanted;
  const auto indexOf = [](engine::WeightMode mode) {
    return int(std::find(std::begin(kWeightModes), std::end(kWeightModes), mode) -
               std::begin(kWeightModes));
  };
  m_weights->setCurrent(indexOf(running.precision.weights));
  const bool changing = state.wanted.precision.weights != running.precision.weights;
  m_weights->setPending(changing && state.loading ? indexOf(state.wanted.precision.weights) : -1);

  QVector<FigureGrid::Row> rows;
  if (state.info && state.model) {
    const engine::BackendMemory& memory = state.info->memory;
    const std::uint64_t held = memory.weightBytes + memory.mappedBytes;
    m_measuredWeights[measuredKey(state.info->fingerprint, running.precision)] = held;
    m_weightsAside->setText(bytesText(held));
    for (const engine::WeightMode mode : kWeightModes) {
      engine::WeightPrecision precision = running.precision;
      precision.weights = mode;
      const auto measured = m_measuredWeights.find(measuredKey(state.info->fingerprint, precision));
      const bool known = measured != m_measuredWeights.end();
      const std::uint64_t bytes =
          known ? measured->second : computedWeightBytes(state.model->weights(), precision);
      QString name = weightModeText(mode);
      if (mode == engine::WeightMode::kNative) {
        const bool onGpu = state.info->backend.kind == engine::BackendKind::kCuda;
        name += onGpu ? tr(" (%1 here)").arg(nativeWeightsText(*state.info))
                      : tr(" (%1)").arg(QString::fromStdString(state.info->quantization));
      }
      rows.append(
          {name,
           known ? tr("%1 measured").arg(bytesText(bytes))
                 : tr("%1 computed").arg(bytesText(bytes)),
           known
               ? tr("Counted by the backend when it was loaded so: %1").arg(exactBytesText(bytes))
               : tr("From the model's shapes; not loaded so yet: %1").arg(exactBytesText(bytes))});
    }
    m_weightNote->setText(
        tr("A step reads %1 of weights for one token.").arg(bytesText(memory.weightBytesPerToken)));
  } else {
    m_weightsAside->clear();
    m_weightNote->clear();
  }
  m_weightSizes->setRows(rows);
  m_weightSizes->setVisible(!rows.isEmpty());
  m_weightNote->setVisible(!m_weightNote->text().isEmpty());

  const bool int8Weights = state.wanted.precision.weights == engine::WeightMode::kInt8;
  m_activations->setCurrent(running.precision.activations == engine::ActivationMode::kInt8 ? 1 : 0);
  const bool changingActivations =
      state.wanted.precision.activations != running.precision.activations;
  m_activations->setPending(
      changingActivations && state.loading
          ? (state.wanted.precision.activations == engine::ActivationMode::kInt8 ? 1 : 0)
          : -1);
  m_activations->setEnabled(int8Weights);
  m_activationNote->setText(int8Weights ? tr("INT8 activations: products in integers, faster "
                                             "prefill; outliers cost accuracy.")
                                        : tr("INT8 activations need INT8 weights."));
}

void PrecisionTab::showKv(const InspectorState& state) {
  const engine::EngineConfig& running = state.info ? state.info->running : state.wanted;
  m_kv->setCurrent(running.cache.type == engine::KvType::kInt8 ? 1 : 0);
  const bool changing = state.wanted.cache.type != running.cache.type;
  m_kv->setPending(
      changing && state.loading ? (state.wanted.cache.type == engine::KvType::kInt8 ? 1 : 0) : -1);
  QVector<FigureGrid::Row> rows;
  if (state.info) {
    const engine::KvShape shape = state.snapshot->shape;
    const int blockSize = shape.blockSize > 0 ? shape.blockSize : running.cache.blockSize;
    const int tokens = branchUseOf(state).tokens;
    for (const engine::KvType type : {engine::KvType::kFp16, engine::KvType::kInt8}) {
      engine::KvShape asked{type, blockSize, 1,
                            shape.nKvHeads > 0 ? shape.nKvHeads : state.info->config.nKvHeads};
      const bool inForce = type == running.cache.type && state.snapshot->bytesPerBlock > 0;
      const std::uint64_t block = inForce ? state.snapshot->bytesPerBlock
                                          : engine::kvBytesPerBlock(state.info->config, asked);
      const std::uint64_t perToken = block / std::uint64_t(blockSize);
      QString figure = tr("%1 a token").arg(bytesText(perToken));
      if (tokens > 0) {
        figure += tr(" · chat %1").arg(bytesText(perToken * std::uint64_t(tokens)));
      }
      rows.append({kvTypeText(type) + (inForce ? tr(" (in use)") : QString()), figure,
                   tr("%1 a token, scales counted; a whole context of %2 tokens: %3")
                       .arg(exactBytesText(perToken), countText(state.info->contextTokens),
                            bytesText(perToken * std::uint64_t(state.info->contextTokens)))});
    }
    const std::uint64_t pool =
        state.snapshot->bytesPerBlock * std::uint64_t(state.snapshot->blocks.size());
    m_kvAside->setText(pool > 0 ? tr("pool %1").arg(bytesText(pool)) : QString());
  } else {
    m_kvAside->clear();
  }
  m_kvSizes->setRows(rows);
  m_kvSizes->setVisible(!rows.isEmpty());
}

void PrecisionTab::showCache(const InspectorState& state) {
  const engine::CacheOptions& cache = state.wanted.cache;
  m_cacheOn->setChecked(cache.enabled);
  m_reuse->setChecked(cache.reuse);
  m_reuse->setEnabled(cache.enabled);
  m_layout->setEnabled(cache.enabled);
  m_layout->setCurrent(cache.layout == engine::KvLayout::kContiguous ? 1 : 0);
  QString note;
  if (!cache.enabled) {
    note = tr("Off: every token costs as much as the whole chat before it.");
  } else if (cache.layout == engine::KvLayout::kContiguous) {
    note = tr("Contiguous: each chat reserves its whole context; watch the waste under Cache.");
  } else {
    note = tr("Paged: a chat holds what it uses, and blocks are shared between branches.");
  }
  m_layoutNote->setText(note);

  const engine::EngineSnapshot& snapshot = *state.snapshot;
  const int held = snapshot.blocksUsed + snapshot.blocksCached;
  m_consequence->setText(
      state.info && held > 0
          ? tr("Another weight, activation or KV type empties the cache (now %1 in %2 blocks): the "
               "next turn of each chat computes its prompt again.")
                .arg(bytesText(std::uint64_t(held) * snapshot.bytesPerBlock), countText(held))
          : tr("Another weight, activation or KV type starts with an empty cache."));
}

}  // namespace vitrine::ui

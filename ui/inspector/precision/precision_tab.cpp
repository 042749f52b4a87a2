#include "ui/inspector/precision/precision_tab.h"

#include <QHBoxLayout>
#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>

#include "engine/backend/weight_bytes.h"
#include "engine/model/model.h"
#include "ui/common/engine_switching.h"
#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/common/toggle_switch.h"
#include "ui/inspector/precision/precision_loss.h"
#include "ui/inspector/precision/range_table.h"
#include "ui/precision/precision_choices.h"
#include "ui/precision/precision_form.h"
#include "ui/precision/weight_sizes.h"

namespace vitrine::ui {
namespace {

constexpr float kFewLevels = 8;  // of 127, for a usual channel under a static scale

std::string countedKey(const std::string& fingerprint, const engine::WeightPrecision& precision) {
  return fingerprint + '/' + engine::precisionKey(precision);
}

engine::WeightPrecision fp16() {
  engine::WeightPrecision precision;
  precision.weights = engine::WeightMode::kFp16;
  return precision;
}

QString shareText(std::uint64_t bytes, std::uint64_t of) {
  return of > 0 ? QString::number(double(bytes) / double(of), 'f', 2) : QStringLiteral("–");
}

PlainLabel* addNote(QVBoxLayout* section, const char* object, QWidget* parent) {
  auto* note = new PlainLabel(LabelStyle::kMuted, parent);
  note->setObjectName(QString::fromLatin1(object));
  note->setWordWrap(true);
  section->addWidget(note);
  return note;
}

}  // namespace

PrecisionTab::PrecisionTab(QWidget* parent) : InspectorTab(parent) {
  QVBoxLayout* section = addProgress(addSection(tr("In use")));
  m_inUse = new PlainLabel(LabelStyle::kBody, this);
  m_inUse->setObjectName("precisionInUse");
  m_inUse->setWordWrap(true);
  section->addWidget(m_inUse);
  m_saved = new FigureGrid(this);
  m_saved->setObjectName("precisionSaves");
  section->addWidget(m_saved);

  section = addSection(tr("Switches"));
  m_form = new PrecisionForm(this);
  section->addWidget(m_form);
  m_consequence = addNote(section, "consequence", this);
  connect(m_form, &PrecisionForm::configWanted, this, [this](const engine::EngineConfig& config) {
    m_wanted = config;
    emit configWanted(config);
  });
  connect(m_form, &PrecisionForm::studioWanted, this, &InspectorTab::studioWanted);
  addRange(section);

  section = addSection(tr("What it costs, against FP16"));
  m_loss = new PrecisionLoss(this);
  section->addWidget(m_loss);
  connect(m_loss, &PrecisionLoss::stateWanted, this, &InspectorTab::stateWanted);

  addSizes(addSection(tr("What each mode takes")));
  addCache(addSection(tr("Use of the cache")));
  endSections();
}

QVBoxLayout* PrecisionTab::addProgress(QVBoxLayout* section) {
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
  connect(m_cancel, &QPushButton::clicked, this, &InspectorTab::cancelWanted);
  progressRow->addWidget(m_progressText, 1);
  progressRow->addWidget(m_cancel);
  progressColumn->addLayout(progressRow);
  m_progress = new QProgressBar(m_progressBox);
  m_progress->setRange(0, 1000);
  m_progress->setTextVisible(false);
  m_progress->setAccessibleName(tr("Progress of the change"));
  progressColumn->addWidget(m_progress);
  section->addWidget(m_progressBox);
  return section;
}

void PrecisionTab::addRange(QVBoxLayout* section) {
  m_rangeBox = new QWidget(this);
  auto* column = new QVBoxLayout(m_rangeBox);
  column->setContentsMargins(0, 6, 0, 0);
  column->setSpacing(6);
  column->addWidget(
      new PlainLabel(tr("Live use of the calibrated range"), LabelStyle::kHeading, m_rangeBox));
  m_rangeText = addNote(column, "rangeText", m_rangeBox);
  m_rangeAdvice = addNote(column, "rangeAdvice", m_rangeBox);
  m_range = new RangeTable(m_rangeBox);
  column->addWidget(m_range);
  m_rangePointed = addNote(column, "rangePointed", m_rangeBox);
  const QString hint =
      tr("Filled: the range that was used. At a cell's end: what was clipped. "
         "Point at a cell to read it.");
  m_rangePointed->setText(hint);
  connect(m_range, &RangeTable::pointed, this, [this, hint](const QString& words) {
    m_rangePointed->setText(words.isEmpty() ? hint : words);
  });
  section->addWidget(m_rangeBox);
}

void PrecisionTab::addSizes(QVBoxLayout* section) {
  m_sizesFold = new QPushButton(this);
  m_sizesFold->setObjectName("sizesFold");
  m_sizesFold->setProperty("kind", "link");
  section->addWidget(m_sizesFold, 0, Qt::AlignLeft);
  m_sizesBox = new QWidget(this);
  auto* column = new QVBoxLayout(m_sizesBox);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(8);
  m_weightSizes = new FigureGrid(m_sizesBox);
  column->addWidget(m_weightSizes);
  m_weightNote = addNote(column, "weightNote", m_sizesBox);
  m_kvSizes = new FigureGrid(m_sizesBox);
  column->addWidget(m_kvSizes);
  section->addWidget(m_sizesBox);
  connect(m_sizesFold, &QPushButton::clicked, this, [this] { openSizes(m_sizesBox->isHidden()); });
  openSizes(false);
}

void PrecisionTab::openSizes(bool open) {
  m_sizesBox->setVisible(open);
  m_sizesFold->setText(open ? tr("▾ Weights and KV cache in bytes")
                            : tr("▸ Weights and KV cache in bytes"));
}

void PrecisionTab::addCache(QVBoxLayout* section) {
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
  const engine::EngineConfig& running = state.info ? state.info->running : state.wanted;
  if (state.info) {
    m_counted[countedKey(state.info->fingerprint, running.precision)] =
        state.info->memory.weightBytes + state.info->memory.mappedBytes;
  }
  showProgress(state);
  showInUse(state);
  m_form->setModel(state.info, state.model, state.profiles);
  m_form->setConfig(running, state.wanted, state.loading);
  showRange(state);
  m_loss->setVisible(state.info != nullptr);
  m_loss->showState(state);
  showWeightSizes(state);
  showKvSizes(state);
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

std::uint64_t PrecisionTab::weightBytes(const InspectorState& state,
                                        const engine::WeightPrecision& precision,
                                        bool* counted) const {
  const auto found = m_counted.find(countedKey(state.info->fingerprint, precision));
  if (counted) *counted = found != m_counted.end();
  if (found != m_counted.end()) return found->second;
  const engine::Weights& weights = state.model->weights();
  if (state.info->backend.kind != engine::BackendKind::kCpu) {
    return computedWeightBytes(weights, precision);
  }
  // As it is counted there: the embedding is read from the mapped file in every mode.
  return weights.tokenEmbedding.bytes() + engine::cpuWeightBytes(weights, state.info->ownKvHeads,
                                                                 precision,
                                                                 state.info->config.nKvHeads);
}

// What is active, and what it saves against FP16; while it changes, also what will be.
void PrecisionTab::showInUse(const InspectorState& state) {
  const bool hasModel = state.info && state.model;
  m_inUse->setVisible(hasModel);
  m_saved->setVisible(hasModel);
  if (!hasModel) return;
  const engine::EngineConfig& running = state.info->running;
  m_inUse->setText(precisionText(running));
  const std::uint64_t full = weightBytes(state, fp16());
  const std::uint64_t held = weightBytes(state, running.precision);
  QString weights = tr("%1 · %2 of FP16").arg(bytesText(held), shareText(held, full));
  QString toolTip = tr("Counted by the backend: %1. In FP16: %2.")
                        .arg(exactBytesText(held), exactBytesText(full));
  if (state.loading && state.wanted.precision != running.precision) {
    bool counted = false;
    const std::uint64_t then = weightBytes(state, state.wanted.precision, &counted);
    weights = tr("%1 → %2").arg(bytesText(held), bytesText(then));
    toolTip = counted ? tr("As counted when it last ran so") : tr("Computed from the shapes");
  }
  const auto perToken = [&](engine::KvType type) {
    const engine::KvShape shape{type, running.cache.blockSize, 1, state.info->config.nKvHeads};
    return engine::kvBytesPerBlock(state.info->config, shape) /
           std::uint64_t(running.cache.blockSize);
  };
  const std::uint64_t kv = perToken(running.cache.type);
  const std::uint64_t kvFull = perToken(engine::KvType::kFp16);
  m_saved->setRows(
      {{tr("Weights"), weights, toolTip},
       {tr("KV cache a token"), tr("%1 · %2 of FP16").arg(bytesText(kv), shareText(kv, kvFull)),
        tr("Keys and values of all layers, scales counted: %1").arg(exactBytesText(kv))}});
}

void PrecisionTab::showRange(const InspectorState& state) {
  const bool isStatic =
      state.info && state.info->running.precision.weights == engine::WeightMode::kInt8 &&
      state.info->running.precision.activations == engine::ActivationMode::kInt8 &&
      state.info->running.precision.activationScales == engine::ActivationScales::kStatic;
  m_rangeBox->setVisible(isStatic);
  if (!isStatic) return;
  const int nLayers = state.info->config.nLayers;
  const RangeSummary summary = summarize(state.snapshot->activationUse);
  QString text = tr("Nothing has run through it yet.");
  if (summary.sites > 0) {
    text = tr("%1 of all values clipped; %2 of the range unused at the median input.")
               .arg(smallShareText(double(summary.clipped) / double(summary.values)),
                    percentText(summary.unused));
    if (summary.worst >= 0) {
      text += tr(" Most at %1: %2.")
                  .arg(siteText(summary.worst, nLayers), smallShareText(summary.worstShare));
    }
  }
  m_rangeText->setText(text);
  showRangeAdvice(state.info->running.precision);
  m_range->setUse(state.snapshot->activationUse, nLayers);
}

// What one scale an input costs is known from the profile alone.
void PrecisionTab::showRangeAdvice(const engine::WeightPrecision& precision) {
  const auto& profile = precision.calibration;
  // All columns are looked at: once a profile, not ten times a second.
  if (profile && profile != m_advised) {
    m_advised = profile;
    m_coarse = engine::coarseSites(*profile, kFewLevels);
  }
  const bool advise = profile && precision.outliers == engine::OutlierMode::kNone && m_coarse > 0;
  m_rangeAdvice->setVisible(advise);
  if (!advise) return;
  m_rangeAdvice->setText(
      tr("Large values take the levels: at %1 of %2 inputs a usual channel is left with fewer than "
         "%3 of 127. Answers suffer; set outliers to mixed, or scales to dynamic.")
          .arg(m_coarse)
          .arg(profile->sites.size())
          .arg(int(kFewLevels)));
}

void PrecisionTab::showWeightSizes(const InspectorState& state) {
  QVector<FigureGrid::Row> rows;
  const bool hasModel = state.info && state.model;
  if (hasModel) {
    for (const engine::WeightMode mode : {engine::WeightMode::kNative, engine::WeightMode::kFp16,
                                          engine::WeightMode::kBf16, engine::WeightMode::kInt8}) {
      engine::EngineConfig config = state.info->running;
      config.precision.weights = mode;
      bool counted = false;
      const std::uint64_t bytes = weightBytes(state, withoutStrayModes(config).precision, &counted);
      QString name = weightModeText(mode);
      if (mode == engine::WeightMode::kNative) {
        const bool onGpu = state.info->backend.kind == engine::BackendKind::kCuda;
        name += onGpu ? tr(" (%1 here)").arg(nativeWeightsText(*state.info))
                      : tr(" (%1)").arg(QString::fromStdString(state.info->quantization));
      }
      rows.append(
          {name,
           counted ? tr("%1 measured").arg(bytesText(bytes))
                   : tr("%1 computed").arg(bytesText(bytes)),
           counted
               ? tr("Counted by the backend when it was loaded so: %1").arg(exactBytesText(bytes))
               : tr("From the model's shapes; not loaded so yet: %1").arg(exactBytesText(bytes))});
    }
    m_weightNote->setText(tr("A step reads %1 of weights for one token.")
                              .arg(bytesText(state.info->memory.weightBytesPerToken)));
  }
  m_weightSizes->setRows(rows);
  m_weightNote->setVisible(hasModel);
  m_sizesFold->setEnabled(hasModel);
}

void PrecisionTab::showKvSizes(const InspectorState& state) {
  const engine::EngineConfig& running = state.info ? state.info->running : state.wanted;
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
  }
  m_kvSizes->setRows(rows);
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
  const bool onDisk = !state.wanted.archive.folder.empty();
  QString consequence;
  if (state.loading && state.info) {
    consequence = cacheFate(state.info->running, state.wanted) == CacheFate::kKept
                      ? tr("The cache is kept.")
                      : tr("Turns that run end in the old mode; then the cache is emptied, and the "
                           "next turn of each chat reads its prompt again.");
  } else if (state.info && held > 0) {
    consequence = tr("Any of these switches empties the cache (now %1): the next turn of each chat "
                     "reads its prompt again")
                      .arg(bytesText(std::uint64_t(held) * snapshot.bytesPerBlock));
    consequence += onDisk ? tr(", or takes it from disk where it was kept in that mode.") : tr(".");
  } else {
    consequence = tr("Any of these switches starts with an empty cache.");
  }
  m_consequence->setText(consequence);
}

}  // namespace vitrine::ui

#include "ui/precision/precision_form.h"

#include <QAbstractItemView>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QGridLayout>
#include <QPushButton>
#include <QVBoxLayout>
#include <algorithm>

#include "engine/model/model.h"
#include "engine/quant/quant_plan.h"
#include "ui/common/engine_switching.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/precision/kept_layers.h"
#include "ui/precision/precision_choices.h"
#include "ui/precision/weight_sizes.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

using engine::EngineConfig;
using engine::WeightPrecision;

constexpr engine::WeightMode kWeightModes[] = {engine::WeightMode::kNative,
                                               engine::WeightMode::kFp16, engine::WeightMode::kBf16,
                                               engine::WeightMode::kInt8};
constexpr int kGroups[] = {32, 64, 128};
constexpr int kStrengthSettlesMs = 700;

bool isInt8(const EngineConfig& config) {
  return config.precision.weights == engine::WeightMode::kInt8;
}

bool isW8A8(const EngineConfig& config) {
  return isInt8(config) && config.precision.activations == engine::ActivationMode::kInt8;
}

bool isKvInt8(const EngineConfig& config) {
  return config.cache.type == engine::KvType::kInt8;
}

int indexOfScales(const EngineConfig& config) {
  const WeightPrecision& p = config.precision;
  if (p.weightScales == engine::WeightScales::kChannel) return 3;
  if (p.weightScales == engine::WeightScales::kTensor) return 4;
  return int(std::find(std::begin(kGroups), std::end(kGroups), p.groupSize) - std::begin(kGroups));
}

void takeScales(EngineConfig& config, int index) {
  WeightPrecision& p = config.precision;
  p.weightScales = index == 3   ? engine::WeightScales::kChannel
                   : index == 4 ? engine::WeightScales::kTensor
                                : engine::WeightScales::kGroup;
  if (index < int(std::size(kGroups))) p.groupSize = kGroups[index];
}

}  // namespace

PrecisionForm::PrecisionForm(QWidget* parent) : QWidget(parent), m_grid(new QGridLayout(this)) {
  const Theme& theme = Theme::instance();
  m_grid->setContentsMargins(0, 0, 0, 0);
  m_grid->setHorizontalSpacing(theme.px(8));
  m_grid->setVerticalSpacing(theme.px(8));
  m_grid->setColumnStretch(1, 1);
  addRows();
  m_strengthSettles.setSingleShot(true);
  m_strengthSettles.setInterval(kStrengthSettlesMs);
}

void PrecisionForm::addRow(Row& row, const QString& name, const char* object,
                           const QStringList& texts, const QStringList& toolTips, Take take,
                           Get get) {
  row.texts = texts;
  row.toolTips = toolTips;
  row.take = std::move(take);
  row.get = std::move(get);
  row.name = new PlainLabel(name, LabelStyle::kMuted, this);
  row.field = new SegmentedSwitch({}, {}, this);
  row.field->setObjectName(QString::fromLatin1(object));
  const int line = m_grid->rowCount();
  m_grid->addWidget(row.name, line, 0);
  m_grid->addWidget(row.field, line, 1, Qt::AlignLeft);
  showRow(row);
  row.field->setAccessibleName(name);
  connect(row.field, &SegmentedSwitch::chosen, this, [this, &row](int index) {
    want([&](EngineConfig& config) { row.take(config, index); });
  });
}

void PrecisionForm::addRows() {
  QStringList modes;
  for (const engine::WeightMode mode : kWeightModes) modes << weightModeText(mode);
  addRow(
      m_weights, tr("Weights"), "weightsSwitch", modes,
      {tr("As they are in the file, computed in that format"),
       tr("Converted to 16-bit floating point"),
       tr("Converted to bfloat16: the range of FP32, fewer digits than FP16"),
       tr("Converted to 8-bit integers with scales")},
      [](EngineConfig& c, int i) { c.precision.weights = kWeightModes[i]; },
      [](const EngineConfig& c) {
        return int(
            std::find(std::begin(kWeightModes), std::end(kWeightModes), c.precision.weights) -
            std::begin(kWeightModes));
      });
  addRow(
      m_scales, tr("A scale for"), "scalesSwitch",
      {QStringLiteral("32"), QStringLiteral("64"), QStringLiteral("128"), tr("row"), tr("matrix")},
      {tr("A scale for 32 neighbours of a row: the most exact"), tr("A scale for 64 neighbours"),
       tr("A scale for 128 neighbours"), tr("A scale for each row (per channel)"),
       tr("One scale for the whole matrix (per tensor): the least exact")},
      takeScales, indexOfScales);
  addRow(
      m_activations, tr("Activations"), "activationsSwitch",
      {QStringLiteral("FP16"), QStringLiteral("INT8")},
      {tr("Inputs of each product stay floating point (W8A16)"),
       tr("Inputs are rounded to 8 bits as they come; products run in integers (W8A8)")},
      [](EngineConfig& c, int i) {
        c.precision.activations =
            i == 1 ? engine::ActivationMode::kInt8 : engine::ActivationMode::kFp16;
      },
      [](const EngineConfig& c) {
        return c.precision.activations == engine::ActivationMode::kInt8 ? 1 : 0;
      });
  addRow(
      m_activationScales, tr("Their scales"), "activationScalesSwitch",
      {tr("dynamic"), tr("static")},
      {tr("Each row has scales of its own, taken as it comes: nothing is clipped"),
       tr("One scale a layer's input, from a calibration: cheaper, but what exceeds it is "
          "clipped")},
      [](EngineConfig& c, int i) {
        c.precision.activationScales =
            i == 1 ? engine::ActivationScales::kStatic : engine::ActivationScales::kDynamic;
      },
      [](const EngineConfig& c) {
        return c.precision.activationScales == engine::ActivationScales::kStatic ? 1 : 0;
      });
  addRow(
      m_outliers, tr("Outliers"), "outliersSwitch", {tr("none"), tr("mixed"), tr("smooth")},
      {tr("Large columns are rounded like all others"),
       tr("Columns much larger than the others stay FP16, and so do their weights (LLM.int8())"),
       tr("Their range moves into the weights, which leaves the function as it is (SmoothQuant)")},
      [](EngineConfig& c, int i) { c.precision.outliers = static_cast<engine::OutlierMode>(i); },
      [](const EngineConfig& c) { return static_cast<int>(c.precision.outliers); });

  m_strengthName = new PlainLabel(LabelStyle::kMuted, this);
  m_strength = new QDoubleSpinBox(this);
  m_strength->setObjectName("outlierStrength");
  m_strength->setKeyboardTracking(false);
  m_strength->setFixedWidth(Theme::instance().px(110));
  int line = m_grid->rowCount();
  m_grid->addWidget(m_strengthName, line, 0);
  m_grid->addWidget(m_strength, line, 1, Qt::AlignLeft);
  connect(m_strength, &QDoubleSpinBox::valueChanged, this, [this] {
    if (!m_filling) m_strengthSettles.start();
  });
  connect(&m_strengthSettles, &QTimer::timeout, this, [this] {
    const auto value = float(m_strength->value());
    want([&](EngineConfig& config) {
      if (config.precision.outliers == engine::OutlierMode::kSmooth) {
        config.precision.smoothing = value;
      } else if (config.precision.outliers == engine::OutlierMode::kMixed) {
        config.precision.outlierThreshold = value;
      }
    });
  });

  addRow(
      m_kv, tr("KV cache"), "kvSwitch", {QStringLiteral("FP16"), QStringLiteral("INT8")},
      {tr("Keys and values in 16 bits"),
       tr("Keys and values in 8 bits, a scale for each token and head. Keys are transformed first, "
          "so that a few large elements do not cost the others their steps")},
      [](EngineConfig& c, int i) {
        c.cache.type = i == 1 ? engine::KvType::kInt8 : engine::KvType::kFp16;
      },
      [](const EngineConfig& c) { return isKvInt8(c) ? 1 : 0; });
  addRow(
      m_keys, tr("Scales of keys"), "keysSwitch", {tr("token"), tr("token and channel")},
      {tr("A scale for each token and head"),
       tr("Also one for each pair of channels, folded into the weights of Q and K. May lose "
          "less or more, as the model's keys are: measure it in the Studio")},
      [](EngineConfig& c, int i) {
        c.precision.keyScales = i == 1 ? engine::KeyScales::kChannel : engine::KeyScales::kToken;
      },
      [](const EngineConfig& c) {
        return c.precision.keyScales == engine::KeyScales::kChannel ? 1 : 0;
      });

  line = m_grid->rowCount();
  m_calibrationName = new PlainLabel(tr("Calibration"), LabelStyle::kMuted, this);
  m_calibration = new QComboBox(this);
  m_calibration->setObjectName("calibrationChoice");
  m_calibration->setAccessibleName(tr("Calibration profile"));
  m_calibration->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  m_calibration->setMinimumContentsLength(12);
  m_grid->addWidget(m_calibrationName, line, 0);
  m_grid->addWidget(m_calibration, line, 1);
  connect(m_calibration, &QComboBox::activated, this, [this](int index) {
    if (index < 0 || index >= int(m_profiles.size())) return;
    want([&](EngineConfig& c) { c.precision.calibration = m_profiles[std::size_t(index)]; });
  });

  m_noProfile = new QWidget(this);
  auto* column = new QVBoxLayout(m_noProfile);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(Theme::instance().px(4));
  auto* words = new PlainLabel(
      tr("Static scales, mixed, smooth and keys per channel need a calibration of this model: it "
         "takes a minute on texts of your choice."),
      LabelStyle::kMuted, m_noProfile);
  words->setWordWrap(true);
  column->addWidget(words);
  auto* studio = new QPushButton(tr("Calibrate in the Studio…"), m_noProfile);
  studio->setObjectName("openStudio");
  column->addWidget(studio, 0, Qt::AlignLeft);
  connect(studio, &QPushButton::clicked, this, &PrecisionForm::studioWanted);
  m_grid->addWidget(m_noProfile, m_grid->rowCount(), 0, 1, 2);

  m_kept = new KeptLayers(this);
  m_grid->addWidget(m_kept, m_grid->rowCount(), 0, 1, 2);
  connect(m_kept, &KeptLayers::wanted, this, [this](const engine::MatrixSet& kept) {
    want([&](EngineConfig& config) { config.precision.keep = kept; });
  });
}

void PrecisionForm::setModel(const app::ModelInfoPtr& info,
                             const std::shared_ptr<const engine::Model>& model,
                             const std::vector<engine::CalibrationPtr>& profiles) {
  m_info = info;
  m_model = model;
  m_profiles.clear();
  if (info) {
    for (const engine::CalibrationPtr& profile : profiles) {
      if (problemOf(*profile, *info).isEmpty()) m_profiles.push_back(profile);
    }
  }
}

void PrecisionForm::setConfig(const EngineConfig& running, const EngineConfig& wanted,
                              bool changing) {
  m_running = running;
  m_wanted = wanted;
  m_changing = changing;
  // A profile that is in use and not in the folder (any more) can still be chosen.
  const engine::CalibrationPtr& used = running.precision.calibration;
  const auto isUsed = [&](const engine::CalibrationPtr& p) { return p->id == used->id; };
  if (used && running.precision.needsCalibration() &&
      std::none_of(m_profiles.begin(), m_profiles.end(), isUsed)) {
    m_profiles.push_back(used);
  }
  m_filling = true;
  showChoices();
  showProfiles();
  m_filling = false;
}

/// The wish with a change in it; what needs a profile takes the usual one.
EngineConfig PrecisionForm::with(const std::function<void(EngineConfig&)>& change) const {
  EngineConfig config = m_wanted;
  change(config);
  const auto fits = [&](const engine::CalibrationPtr& profile) {
    return config.precision.calibration && profile->id == config.precision.calibration->id;
  };
  if (m_info && std::none_of(m_profiles.begin(), m_profiles.end(), fits)) {
    config.precision.calibration = usualProfile(m_profiles, *m_info);
  }
  return config;
}

QString PrecisionForm::problemWith(const EngineConfig& config) const {
  const QString reason = whyNot(config.precision);
  if (!reason.isEmpty()) return reason;
  if (!config.precision.needsCalibration() || config.precision.calibration) return {};
  return m_info ? tr("Needs a calibration profile of this model; the Studio makes one.")
                : tr("Needs a calibration profile: load the model first.");
}

void PrecisionForm::want(const std::function<void(EngineConfig&)>& change) {
  const EngineConfig config = withoutStrayModes(with(change));
  m_wanted = config;
  emit configWanted(config);
}

// Each choice is tried on the wish: one that would not go with the rest is grey and says why.
void PrecisionForm::showRow(Row& row) {
  std::vector<QString> problems;
  for (int i = 0; i < row.texts.size(); ++i) {
    const EngineConfig tried = with([&](EngineConfig& config) {
      row.take(config, i);
      // Going back to FP16 takes what hangs on INT8 along; that is not a conflict.
      if (&row == &m_weights || (&row == &m_activations && i == 0)) {
        config = withoutStrayModes(config);
      }
    });
    problems.push_back(row.get(m_running) == i ? QString() : problemWith(tried));
  }
  if (problems == row.problems) return;
  row.problems = problems;
  QVector<SegmentedSwitch::Choice> choices;
  for (int i = 0; i < row.texts.size(); ++i) {
    const QString& problem = problems[std::size_t(i)];
    choices.append({row.texts[i],
                    problem.isEmpty() ? row.toolTips[i] : row.toolTips[i] + u'\n' + problem,
                    problem.isEmpty()});
  }
  row.field->setChoices(choices);
}

void PrecisionForm::showChoices() {
  const bool int8 = isInt8(m_running) || isInt8(m_wanted);
  const bool w8a8 = isW8A8(m_running) || isW8A8(m_wanted);
  const bool kvInt8 = isKvInt8(m_running) || isKvInt8(m_wanted);
  const std::pair<Row*, bool> rows[] = {
      {&m_weights, true},  {&m_scales, int8}, {&m_activations, true}, {&m_activationScales, w8a8},
      {&m_outliers, w8a8}, {&m_kv, true},     {&m_keys, kvInt8}};
  for (const auto& [row, shown] : rows) {
    row->name->setVisible(shown);
    row->field->setVisible(shown);
    showRow(*row);
    const int running = row->get(m_running);
    const int wanted = row->get(m_wanted);
    row->field->setCurrent(running);
    row->field->setPending(m_changing && wanted != running ? wanted : -1);
  }
  const bool canActivations = isInt8(m_wanted);
  m_activations.field->setEnabled(canActivations);
  m_activations.field->setToolTip(canActivations ? QString()
                                                 : tr("INT8 activations need INT8 weights."));

  const engine::OutlierMode outliers = m_wanted.precision.outliers;
  const bool hasStrength = w8a8 && outliers != engine::OutlierMode::kNone;
  m_strengthName->setVisible(hasStrength);
  m_strength->setVisible(hasStrength);
  if (hasStrength && !m_strengthSettles.isActive() && !m_strength->hasFocus()) {
    const bool smooth = outliers == engine::OutlierMode::kSmooth;
    m_strengthName->setText(smooth ? tr("Strength α") : tr("From"));
    m_strength->setRange(smooth ? 0.0 : 1.5, smooth ? 1.0 : 1000.0);
    m_strength->setSingleStep(smooth ? 0.05 : 0.5);
    m_strength->setDecimals(smooth ? 2 : 1);
    m_strength->setSuffix(smooth ? QString() : tr(" × median"));
    const QString meaning =
        smooth ? tr("How much range moves from the activations into the weights: 0 none, 1 all")
               : tr("Columns stay FP16 whose largest value is so many times the median column's");
    m_strength->setAccessibleName(meaning);
    m_strength->setToolTip(meaning);
    m_strength->setValue(
        double(smooth ? m_wanted.precision.smoothing : m_wanted.precision.outlierThreshold));
  }

  m_kept->setVisible(int8);
  m_kept->setKept(m_running.precision.keep, m_info ? m_info->config.nLayers : 0);
  m_kept->setBytesOf([this](const engine::MatrixSet& kept) -> std::uint64_t {
    if (!m_model) return 0;
    WeightPrecision precision = m_wanted.precision;
    precision.weights = engine::WeightMode::kInt8;
    precision.keep = {};
    const std::uint64_t without = computedWeightBytes(m_model->weights(), precision);
    precision.keep = kept;
    return computedWeightBytes(m_model->weights(), precision) - without;
  });
}

void PrecisionForm::showProfiles() {
  const bool couldUse = isW8A8(m_running) || isW8A8(m_wanted) || isKvInt8(m_running);
  const bool uses = m_running.precision.needsCalibration() || m_wanted.precision.needsCalibration();
  m_noProfile->setVisible(m_info && couldUse && m_profiles.empty());
  m_calibrationName->setVisible(uses && !m_profiles.empty());
  m_calibration->setVisible(uses && !m_profiles.empty());
  QStringList texts;
  for (const engine::CalibrationPtr& profile : m_profiles) texts << profileText(*profile);
  QStringList shown;
  for (int i = 0; i < m_calibration->count(); ++i) shown << m_calibration->itemText(i);
  if (texts != shown) {
    m_calibration->clear();
    for (std::size_t i = 0; i < m_profiles.size(); ++i) {
      m_calibration->addItem(texts[int(i)]);
      m_calibration->setItemData(int(i), literalToolTip(profileDetails(*m_profiles[i])),
                                 Qt::ToolTipRole);
    }
  }
  const engine::CalibrationPtr& wanted = m_wanted.precision.calibration;
  int current = -1;
  for (std::size_t i = 0; i < m_profiles.size(); ++i) {
    if (wanted && m_profiles[i]->id == wanted->id) current = int(i);
  }
  if (!m_calibration->view()->isVisible()) m_calibration->setCurrentIndex(current);
  m_calibration->setToolTip(
      current < 0 ? QString() : literalToolTip(profileDetails(*m_profiles[std::size_t(current)])));
}

}  // namespace vitrine::ui

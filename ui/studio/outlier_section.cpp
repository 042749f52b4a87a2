#include "ui/studio/outlier_section.h"

#include <QComboBox>
#include <QFrame>
#include <QPushButton>
#include <QSlider>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/toast.h"
#include "ui/studio/column_chart.h"
#include "ui/studio/section_card.h"
#include "ui/studio/smoothing_preview.h"
#include "ui/studio/studio_state.h"
#include "ui/studio/studio_words.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

using engine::OutlierMode;
using engine::WeightPrecision;

namespace {

constexpr int kPreviewAfterMs = 120;

float medianOf(const std::vector<float>& values) {
  return engine::medianColumn(values);
}

/// How uneven channels are: the largest as a multiple of the median.
QString unevenText(const std::vector<float>& values) {
  if (values.empty()) return QStringLiteral("–");
  const float median = medianOf(values);
  const float largest = *std::max_element(values.begin(), values.end());
  return median > 0 ? magnitudeText(double(largest / median)) : QStringLiteral("–");
}

/// A slider between its name and its value, and the button that takes it.
struct SliderRow {
  QSlider* slider;
  PlainLabel* value;
  QPushButton* use;
};

SliderRow addSliderRow(QVBoxLayout* card, const QString& name) {
  const Theme& theme = Theme::instance();
  QWidget* parent = card->parentWidget();
  auto* row = new QHBoxLayout;
  row->setSpacing(10);
  row->addWidget(new PlainLabel(name, LabelStyle::kBody, parent));
  auto* slider = new QSlider(Qt::Horizontal, parent);
  slider->setFixedWidth(theme.px(200));
  row->addWidget(slider);
  auto* value = new PlainLabel(LabelStyle::kFigure, parent);
  value->setMinimumWidth(theme.px(120));
  row->addWidget(value);
  row->addStretch(1);
  auto* use = new QPushButton(OutlierSection::tr("Use this"), parent);
  row->addWidget(use);
  card->addLayout(row);
  return {slider, value, use};
}

}  // namespace

OutlierSection::OutlierSection(StudioState& state, QWidget* parent)
    : QWidget(parent), m_state(state), m_worker(new SmoothingWorker(this)) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(12);
  auto* row = new QHBoxLayout;
  row->setSpacing(10);
  row->addWidget(new PlainLabel(tr("Input"), LabelStyle::kBody, this));
  m_sites = new QComboBox(this);
  m_sites->setObjectName("studioSite");
  m_sites->setAccessibleName(tr("Input whose channels are shown"));
  m_sites->setMinimumContentsLength(24);
  row->addWidget(m_sites);
  m_pointed = new PlainLabel(LabelStyle::kFigureMuted, this);
  m_pointed->setElided(Qt::ElideRight);
  m_pointed->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  row->addWidget(m_pointed, 1);
  column->addLayout(row);
  column->addWidget(makeMixed());
  column->addWidget(makeSmooth());
  column->addStretch(1);

  m_askSoon.setSingleShot(true);
  m_askSoon.setInterval(kPreviewAfterMs);
  connect(&m_askSoon, &QTimer::timeout, this, &OutlierSection::askPreview);
  connect(m_sites, &QComboBox::activated, &m_state, &StudioState::setSite);
  connect(m_worker, &SmoothingWorker::ready, this, &OutlierSection::showPreview);
  connect(m_worker, &SmoothingWorker::failed, this, [this](const QString& message) {
    m_inputs->clear(message);
    m_weights->clear({});
  });
  for (ColumnChart* chart : {m_columns, m_inputs, m_weights}) {
    connect(chart, &ColumnChart::pointed, m_pointed, &QLabel::setText);
  }
  connect(&m_state, &StudioState::profileChanged, this, &OutlierSection::takeProfile);
  connect(&m_state, &StudioState::modelChanged, this, &OutlierSection::takeProfile);
  connect(&m_state, &StudioState::siteChanged, this, &OutlierSection::takeProfile);
  connect(&m_state, &StudioState::readinessChanged, this, &OutlierSection::updateButtons);
  takeProfile();
}

QWidget* OutlierSection::makeMixed() {
  auto* column = makeCard(this);
  QWidget* card = column->parentWidget();
  column->addWidget(
      new PlainLabel(tr("Mixed: outlier columns stay FP16"), LabelStyle::kHeading, card));
  m_columns = new ColumnChart(150, card);
  m_columns->setObjectName("outlierColumns");
  column->addWidget(m_columns);
  const SliderRow row = addSliderRow(column, tr("Threshold"));
  m_threshold = row.slider;
  m_threshold->setObjectName("outlierThreshold");
  m_threshold->setRange(4, 80);  // quarters
  m_threshold->setValue(qRound(WeightPrecision{}.outlierThreshold * 4));
  m_threshold->setAccessibleName(tr("Threshold of outlier columns, times the median channel"));
  m_thresholdText = row.value;
  m_useMixed = row.use;
  m_useMixed->setObjectName("useMixed");
  m_useMixed->setAccessibleName(tr("Use mixed decomposition with this threshold"));
  m_mixedText = new PlainLabel(LabelStyle::kMuted, card);
  m_mixedText->setObjectName("mixedText");
  m_mixedText->setWordWrap(true);
  column->addWidget(m_mixedText);
  connect(m_threshold, &QSlider::valueChanged, this, &OutlierSection::showColumns);
  connect(m_useMixed, &QPushButton::clicked, this, &OutlierSection::useMixed);
  return card;
}

QWidget* OutlierSection::makeSmooth() {
  auto* column = makeCard(this);
  QWidget* card = column->parentWidget();
  column->addWidget(new PlainLabel(tr("Smoothing: range moves from the input into the weights"),
                                   LabelStyle::kHeading, card));
  auto* charts = new QHBoxLayout;
  charts->setSpacing(24);
  m_inputs = new ColumnChart(140, card);
  m_inputs->setObjectName("smoothedInput");
  m_weights = new ColumnChart(140, card);
  m_weights->setObjectName("smoothedWeights");
  charts->addWidget(m_inputs);
  charts->addWidget(m_weights);
  column->addLayout(charts);
  const SliderRow row = addSliderRow(column, tr("Strength α"));
  m_alpha = row.slider;
  m_alpha->setObjectName("smoothingAlpha");
  m_alpha->setRange(0, 20);  // twentieths
  m_alpha->setValue(10);
  m_alpha->setAccessibleName(tr("Strength of smoothing"));
  m_alphaText = row.value;
  m_useSmooth = row.use;
  m_useSmooth->setObjectName("useSmooth");
  m_useSmooth->setAccessibleName(tr("Use smoothing of this strength"));
  m_smoothText = new PlainLabel(LabelStyle::kMuted, card);
  m_smoothText->setObjectName("smoothText");
  m_smoothText->setWordWrap(true);
  column->addWidget(m_smoothText);
  connect(m_alpha, &QSlider::valueChanged, this, [this] {
    m_alphaText->setText(QString::number(double(alpha()), 'f', 2));
    updateButtons();
    m_askSoon.start();
  });
  connect(m_useSmooth, &QPushButton::clicked, this, &OutlierSection::useSmooth);
  return card;
}

float OutlierSection::threshold() const {
  return float(m_threshold->value()) / 4.0F;
}

float OutlierSection::alpha() const {
  return float(m_alpha->value()) / 20.0F;
}

void OutlierSection::takeProfile() {
  const auto& profile = m_state.profile();
  const bool ready = profile && m_state.model();
  const int count = ready ? engine::siteCount(profile->nLayers()) : 0;
  if (m_sites->count() != count) {
    m_sites->clear();
    for (int site = 0; site < count; ++site) {
      m_sites->addItem(siteWords(site, profile->nLayers()));
    }
  }
  m_sites->setEnabled(ready);
  m_threshold->setEnabled(ready);
  m_alpha->setEnabled(ready);
  m_alphaText->setText(QString::number(double(alpha()), 'f', 2));
  if (ready) m_sites->setCurrentIndex(m_state.site());
  showColumns();
  if (!ready) {
    m_inputs->clear(
        tr("Here: the channels' ranges of the input, before and after smoothing. "
           "Calibrate first."));
    m_weights->clear(tr("Here: those of the weights that read it."));
    m_smoothText->setText(
        tr("Smoothing divides each channel of the input by a factor and "
           "multiplies the weights by it: the function stays, the outliers go."));
  } else if (isVisible()) {
    m_askSoon.start();
  }
  updateButtons();
}

void OutlierSection::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  m_askSoon.start();
}

void OutlierSection::showColumns() {
  const auto& profile = m_state.profile();
  m_thresholdText->setText(tr("%1 × median").arg(double(threshold()), 0, 'f', 2));
  if (!profile) {
    m_columns->clear(
        tr("Here: the largest value of each channel, and which of them are outliers. "
           "Calibrate first."));
    m_mixedText->setText(
        tr("Columns above the threshold and their weights are computed in FP16 "
           "beside the INT8 product."));
    return;
  }
  const auto& site = profile->sites[std::size_t(m_state.site())];
  const float limit = medianOf(site.channelMax) * threshold();
  const auto columns = engine::outlierColumns(site, threshold());
  m_columns->setThreshold(limit, tr("threshold %1").arg(magnitudeText(double(limit))));
  m_columns->setValues(tr("Largest |x| by channel of %1")
                           .arg(siteWords(m_state.site(), profile->nLayers()).toLower()),
                       site.channelMax);
  std::size_t all = 0, widths = 0;
  int sites = 0;
  for (const auto& each : profile->sites) {
    const auto found = engine::outlierColumns(each, threshold()).size();
    all += found;
    sites += found > 0 ? 1 : 0;
    widths += each.channelMax.size();
  }
  QString text =
      pluralText(qint64(columns.size()), tr("%1 outlier column"), tr("%1 outlier columns")) +
      tr(" of %1 here (%2)")
          .arg(site.channelMax.size())
          .arg(tinyShareText(double(columns.size()) / double(site.channelMax.size())));
  if (!columns.empty()) {
    // The scale is then taken from the others.
    float rest = 0;
    for (std::size_t i = 0; i < site.channelMax.size(); ++i) {
      if (!std::binary_search(columns.begin(), columns.end(), int(i))) {
        rest = std::max(rest, site.channelMax[i]);
      }
    }
    text += tr("; without them the largest is %1 instead of %2")
                .arg(magnitudeText(double(rest)), magnitudeText(double(site.absMax())));
  }
  text += tr(". In the whole model %1 of %2 columns, at %3 inputs.")
              .arg(countText(qint64(all)), countText(qint64(widths)))
              .arg(sites);
  m_mixedText->setText(text);
  updateButtons();
}

void OutlierSection::askPreview() {
  if (!m_state.profile() || !m_state.model() || !isVisible()) return;
  m_worker->ask(m_state.model(), m_state.modelConfig(), m_state.profile(), m_state.site(), alpha());
}

void OutlierSection::showPreview(const SmoothingPreview& preview) {
  if (!m_state.profile() || preview.site != m_state.site()) return;
  m_inputs->setValues(tr("Input, largest |x| by channel; the line: before"), preview.inputAfter,
                      preview.inputBefore);
  m_weights->setValues(tr("Weights, largest |w| by column; the line: before"), preview.weightAfter,
                       preview.weightBefore);
  const double gain = preview.scaleAfter > 0 && medianOf(preview.inputAfter) > 0
                          ? (double(preview.scaleBefore) / double(medianOf(preview.inputBefore))) /
                                (double(preview.scaleAfter) / double(medianOf(preview.inputAfter)))
                          : 1.0;
  m_smoothText->setText(
      tr("The largest channel of the input goes from %1 to %2 times the median, that of the "
         "weights "
         "from %3 to %4. Scale of the input: %5 before, %6 after; a median channel gets %7 times "
         "the levels.")
          .arg(unevenText(preview.inputBefore), unevenText(preview.inputAfter),
               unevenText(preview.weightBefore), unevenText(preview.weightAfter),
               magnitudeText(double(preview.scaleBefore)),
               magnitudeText(double(preview.scaleAfter)), QString::number(gain, 'f', 2)));
}

void OutlierSection::updateButtons() {
  const bool ready = m_state.profile() && m_state.model();
  const WeightPrecision& running = m_state.config().precision;
  const bool ours = ready && running.calibration &&
                    running.calibration->id == m_state.profile()->id &&
                    running.activations == engine::ActivationMode::kInt8;
  const bool mixed =
      ours && running.outliers == OutlierMode::kMixed && running.outlierThreshold == threshold();
  const bool smooth = ours && running.outliers == OutlierMode::kSmooth &&
                      std::abs(running.smoothing - alpha()) < 0.001F;
  m_useMixed->setEnabled(ready && !mixed);
  m_useMixed->setText(mixed ? tr("In force") : tr("Use this"));
  m_useSmooth->setEnabled(ready && !smooth);
  m_useSmooth->setText(smooth ? tr("In force") : tr("Use this"));
}

void OutlierSection::useMixed() {
  WeightPrecision precision = m_state.config().precision;
  precision.weights = engine::WeightMode::kInt8;
  precision.activations = engine::ActivationMode::kInt8;
  precision.outliers = OutlierMode::kMixed;
  precision.outlierThreshold = threshold();
  precision.calibration = m_state.profile();
  m_state.use(precision);
  Toast::of(this)->showMessage(tr("The next turn runs with outlier columns in FP16."));
}

void OutlierSection::useSmooth() {
  WeightPrecision precision = m_state.config().precision;
  precision.weights = engine::WeightMode::kInt8;
  precision.activations = engine::ActivationMode::kInt8;
  precision.outliers = OutlierMode::kSmooth;
  precision.smoothing = alpha();
  precision.calibration = m_state.profile();
  m_state.use(precision);
  Toast::of(this)->showMessage(tr("The next turn runs smoothed."));
}

QString OutlierSection::mixedText() const {
  return m_mixedText->text();
}

QString OutlierSection::smoothText() const {
  return m_smoothText->text();
}

}  // namespace vitrine::ui

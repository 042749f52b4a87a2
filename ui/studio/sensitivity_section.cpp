#include "ui/studio/sensitivity_section.h"

#include <QFrame>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>
#include <algorithm>
#include <map>

#include "app/text.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/common/toast.h"
#include "ui/studio/bar_chart.h"
#include "ui/studio/section_card.h"
#include "ui/studio/studio_state.h"
#include "ui/studio/studio_words.h"
#include "ui/studio/text_choice.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

using app::toQString;
using engine::SensitivityRow;

namespace {

QString rowText(const SensitivityRow& row, const QString& name) {
  return SensitivitySection::tr("%1 alone: KL %2 (p99 %3), top-1 %4, saves %5")
      .arg(name, klText(row.klMean), klText(row.klP99), percentText(row.top1Agreement),
           bytesText(row.bytesSaved));
}

/// "29, 11, 18": the most sensitive layers.
QString layersText(const engine::SensitivityReport& report, int count) {
  constexpr int kNamed = 12;
  QStringList names;
  for (int i = 0; i < std::min({count, kNamed, int(report.layers.size())}); ++i) {
    names << toQString(report.layers[std::size_t(i)].name);
  }
  if (count > kNamed) names << QStringLiteral("…");
  return names.join(QStringLiteral(", "));
}

/// "25 v, 12 down": how many of each kind.
QString kindsText(const engine::MatrixSet& matrices) {
  std::map<engine::MatrixPart, int> counts;
  for (const auto& item : matrices.items()) ++counts[item.part];
  QStringList kinds;
  for (const auto& [part, count] : counts) {
    kinds << QStringLiteral("%1 %2").arg(count).arg(toQString(engine::nameOf(part)));
  }
  return kinds.join(QStringLiteral(", "));
}

}  // namespace

SensitivitySection::SensitivitySection(StudioState& state, QWidget* parent)
    : QWidget(parent), m_state(state) {
  const Theme& theme = Theme::instance();
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(12);
  auto* row = new QHBoxLayout;
  row->setSpacing(10);
  m_mode = new SegmentedSwitch(
      tr("Quantize"),
      {{tr("W8A16"), tr("INT8 weights, FP16 activations")},
       {tr("W8A8"), tr("INT8 weights and activations, with the wanted scales and groups")}},
      this);
  m_mode->setObjectName("sensitivityMode");
  m_mode->setCurrent(1);
  connect(m_mode, &SegmentedSwitch::chosen, m_mode, &SegmentedSwitch::setCurrent);
  row->addWidget(m_mode);
  row->addWidget(new PlainLabel(tr("on"), LabelStyle::kMuted, this));
  m_text = new TextPicker(m_state.chats(), this);
  m_text->setObjectName("sensitivityText");
  row->addWidget(m_text);
  m_tokens = new QSpinBox(this);
  m_tokens->setObjectName("sensitivityTokens");
  m_tokens->setRange(64, 16384);
  m_tokens->setSingleStep(512);
  m_tokens->setValue(1024);
  m_tokens->setSuffix(tr(" tokens"));
  m_tokens->setAccessibleName(tr("Most tokens of the text"));
  row->addWidget(m_tokens);
  row->addStretch(1);
  m_start = new QPushButton(tr("Measure sensitivity"), this);
  m_start->setProperty("kind", "primary");
  m_start->setObjectName("startSensitivity");
  row->addWidget(m_start);
  column->addLayout(row);
  m_summary = new PlainLabel(LabelStyle::kMuted, this);
  m_summary->setObjectName("sensitivitySummary");
  m_summary->setWordWrap(true);
  column->addWidget(m_summary);

  auto* card = new QFrame(this);
  card->setProperty("kind", "card");
  auto* inside = new QVBoxLayout(card);
  inside->setContentsMargins(16, 12, 16, 12);
  inside->setSpacing(8);
  auto* captions = new QHBoxLayout;
  captions->setSpacing(12);
  captions->addWidget(
      new PlainLabel(tr("KL by layer, each quantized alone"), LabelStyle::kHeading, card));
  m_order =
      new SegmentedSwitch(tr("Order"), {{tr("layers"), {}}, {tr("most lost first"), {}}}, card);
  m_order->setObjectName("sensitivityOrder");
  m_order->setCompact(true);
  m_order->setCurrent(0);
  m_pointed = new PlainLabel(LabelStyle::kFigureMuted, card);
  m_pointed->setElided(Qt::ElideRight);
  m_pointed->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  captions->addWidget(m_order);
  captions->addWidget(m_pointed, 1);
  inside->addLayout(captions);
  m_layers = new BarChart(170, card);
  m_layers->setObjectName("sensitivityLayers");
  m_layers->setAccessibleName(tr("KL by layer"));
  m_layers->setEmptyText(
      tr("Here: how far the model's predictions move when one layer alone is in "
         "INT8, for each layer."));
  inside->addWidget(m_layers);
  inside->addWidget(
      new PlainLabel(tr("KL by kind of matrix, in all layers"), LabelStyle::kHeading, card));
  m_parts = new BarChart(120, card);
  m_parts->setObjectName("sensitivityParts");
  m_parts->setAccessibleName(tr("KL by kind of matrix"));
  m_parts->setEmptyText(tr("Here: the same for q, k, v, o, gate, up, down and the output."));
  inside->addWidget(m_parts);
  column->addWidget(card);

  auto* keepColumn = makeCard(this);
  QWidget* keepCard = keepColumn->parentWidget();
  auto* keepRow = new QHBoxLayout;
  keepRow->setSpacing(10);
  keepRow->addWidget(new PlainLabel(tr("For the memory of"), LabelStyle::kBody, keepCard));
  m_count = new QSpinBox(keepCard);
  m_count->setObjectName("keepCount");
  m_count->setRange(1, 1);
  m_count->setAccessibleName(tr("How many layers' memory is spent on FP16"));
  m_count->setMinimumWidth(theme.px(64));
  keepRow->addWidget(m_count);
  keepRow->addWidget(new PlainLabel(tr("layers, keep"), LabelStyle::kBody, keepCard));
  m_keepBy = new SegmentedSwitch(
      tr("What stays FP16"),
      {{tr("whole layers"), tr("The most sensitive layers")},
       {tr("single matrices"),
        tr("Those that lose most a byte; often twice the gain for the same memory")}},
      keepCard);
  m_keepBy->setObjectName("keepBy");
  m_keepBy->setCompact(true);
  m_keepBy->setCurrent(0);
  keepRow->addWidget(m_keepBy);
  keepRow->addStretch(1);
  m_keep = new QPushButton(tr("Keep in FP16"), keepCard);
  m_keep->setObjectName("keepLayers");
  m_keep->setToolTip(tr("Switches the loaded model, and measures what it brings back"));
  keepRow->addWidget(m_keep);
  keepColumn->addLayout(keepRow);
  m_keepText = new PlainLabel(LabelStyle::kMuted, keepCard);
  m_keepText->setObjectName("keepText");
  m_keepText->setWordWrap(true);
  keepColumn->addWidget(m_keepText);
  m_gainText = new PlainLabel(LabelStyle::kBody, keepCard);
  m_gainText->setObjectName("keepGain");
  m_gainText->setWordWrap(true);
  m_gainText->hide();
  keepColumn->addWidget(m_gainText);
  column->addWidget(keepCard);
  column->addStretch(1);

  connect(m_start, &QPushButton::clicked, this, &SensitivitySection::start);
  connect(m_keep, &QPushButton::clicked, this, &SensitivitySection::keep);
  connect(m_order, &SegmentedSwitch::chosen, this, [this](int index) {
    m_order->setCurrent(index);
    showBars();
  });
  const auto chooseAgain = [this] {
    m_gainText->hide();
    showBars();
    updateKeep();
  };
  connect(m_count, &QSpinBox::valueChanged, this, chooseAgain);
  connect(m_keepBy, &SegmentedSwitch::chosen, this, [this, chooseAgain](int index) {
    m_keepBy->setCurrent(index);
    chooseAgain();
  });
  for (BarChart* chart : {m_layers, m_parts}) {
    connect(chart, &BarChart::pointed, m_pointed, &QLabel::setText);
  }
  connect(&m_state, &StudioState::modelChanged, this, &SensitivitySection::clear);
  connect(&m_state, &StudioState::readinessChanged, this, &SensitivitySection::updateButtons);
  clear();
}

void SensitivitySection::clear() {
  m_hasReport = false;
  m_report = {};
  m_gainText->hide();
  showBars();
  updateKeep();
  m_summary->setText(
      m_state.model()
          ? tr("Quantizes each layer and each kind of matrix alone and measures how far the next "
               "token's probabilities move from FP16 (KL divergence). Takes one pass over the text "
               "for each; the chat goes on meanwhile.")
          : tr("Open a model: which of its layers bear INT8 and which do not is measured here."));
  updateButtons();
}

engine::WeightPrecision SensitivitySection::measuredPrecision() const {
  engine::WeightPrecision precision = m_state.config().precision;
  if (precision.weights != engine::WeightMode::kInt8) {
    precision = {};
    precision.weights = engine::WeightMode::kInt8;
  }
  precision.keep = {};
  precision.activations =
      m_mode->current() == 1 ? engine::ActivationMode::kInt8 : engine::ActivationMode::kFp16;
  if (m_mode->current() == 0) {
    precision.activationScales = engine::ActivationScales::kDynamic;
    precision.outliers = engine::OutlierMode::kNone;
  }
  return precision;
}

void SensitivitySection::start() {
  if (!m_state.canStart()) return;
  auto text = m_text->read();
  if (!text) {
    emit faultHappened(sentenceText(text.error().message));
    return;
  }
  app::studio::SensitivityJob job;
  job.model = m_state.model();
  job.config = m_state.config();
  job.config.precision = measuredPrecision();
  job.config.cache.type = engine::KvType::kFp16;
  job.text = *text;
  job.mostTokens = m_tokens->value();
  m_measured = job.config;
  m_readText = std::move(*text);
  m_gainText->hide();
  m_state.begin(StudioState::Job::kSensitivity);
  m_state.session().measureSensitivity(std::move(job));
}

void SensitivitySection::takeReport(const engine::SensitivityReport& report) {
  m_report = report;
  m_hasReport = true;
  const int layers = int(report.layers.size());
  m_count->setRange(1, std::max(1, layers));
  m_count->setValue(std::clamp(layers / 10, 1, 3));
  showBars();
  updateKeep();
  const SensitivityRow& worst = report.layers.front();
  m_summary->setText(
      tr("Everything in INT8: KL %1, top-1 %2, on %3 scored tokens. Layer %4 loses most alone (KL "
         "%5), %6 most of the kinds.")
          .arg(klText(report.all.klMean), percentText(report.all.top1Agreement),
               countText(report.tokens), toQString(worst.name), klText(worst.klMean),
               report.parts.empty()
                   ? QStringLiteral("–")
                   : toQString(report.parts.front().name).remove(QLatin1String("*."))));
  updateButtons();
}

void SensitivitySection::showBars() {
  QVector<BarChart::Bar> layers, parts;
  if (m_hasReport) {
    const int kept = keepsMatrices() ? 0 : m_count->value();
    for (std::size_t i = 0; i < m_report.layers.size(); ++i) {
      const SensitivityRow& row = m_report.layers[i];
      const QString name = toQString(row.name);
      layers << BarChart::Bar{name, row.klMean, int(i) < kept,
                              rowText(row, tr("layer %1").arg(name))};
    }
    if (m_order->current() == 0) {
      std::stable_sort(layers.begin(), layers.end(), [](const auto& a, const auto& b) {
        return a.name.toInt() < b.name.toInt();
      });
    }
    for (const SensitivityRow& row : m_report.parts) {
      const QString name = toQString(row.name).remove(QLatin1String("*."));
      parts << BarChart::Bar{name, row.klMean, false, rowText(row, name)};
    }
  }
  m_layers->setBars(std::move(layers));
  m_parts->setBars(std::move(parts));
}

bool SensitivitySection::keepsMatrices() const {
  return m_keepBy->current() == 1;
}

engine::KeepChoice SensitivitySection::kept() const {
  const engine::KeepChoice layers = engine::mostSensitiveLayers(m_report, m_count->value());
  return keepsMatrices() ? engine::mostLossPerByte(m_report, layers.bytes) : layers;
}

void SensitivitySection::updateKeep() {
  if (!m_hasReport) {
    m_keepText->setText(
        tr("Measure first: then what loses most can stay FP16 with one click, with what that "
           "brings and takes."));
    return;
  }
  const engine::KeepChoice choice = kept();
  const QString what =
      keepsMatrices()
          ? tr("%1 matrices (%2): about %3 of what all lose alone, as far as layers and kinds "
               "tell; takes %4 more.")
                .arg(QString::number(choice.matrices.size()), kindsText(choice.matrices),
                     percentText(choice.share), bytesText(choice.bytes))
          : tr("Layers %1 (hatched): %2 of what the layers lose alone; takes %3 more.")
                .arg(layersText(m_report, m_count->value()), percentText(choice.share),
                     bytesText(choice.bytes));
  m_keepText->setText(
      what + QLatin1Char(' ') +
      tr("Keeping them switches the model and measures the gain on the same text."));
}

void SensitivitySection::updateButtons() {
  const bool ready = m_state.canStart();
  m_start->setEnabled(ready && m_text->count() > 1);
  m_count->setEnabled(m_hasReport);
  m_keep->setEnabled(ready && m_hasReport);
}

void SensitivitySection::keep() {
  engine::WeightPrecision precision = m_measured.precision;
  precision.keep = kept().matrices;
  app::studio::LossJob job;
  job.model = m_state.model();
  job.reference = m_state.referenceConfig();
  engine::EngineConfig config = m_measured;
  job.modes.push_back({tr("Everything in INT8"), config});
  config.precision.keep = precision.keep;
  job.modes.push_back({tr("With what is kept"), config});
  job.text = m_readText;
  job.mostTokens = m_tokens->value();
  m_state.begin(StudioState::Job::kGain);
  m_state.session().measureLoss(std::move(job));
  m_state.use(precision);
  Toast::of(this)->showMessage(tr("The next turn runs with these in FP16."));
}

void SensitivitySection::takeGain(const std::vector<app::studio::LossRow>& rows) {
  if (rows.size() != 2) return;
  const auto& all = rows[0];
  const auto& kept = rows[1];
  const qint64 more = qint64(kept.weightBytes) - qint64(all.weightBytes);
  m_gainText->setText(tr("Measured: KL %1 → %2, top-1 %3 → %4, for %5 more (%6 → %7).")
                          .arg(klText(all.report.klMean), klText(kept.report.klMean),
                               percentText(all.report.top1Agreement),
                               percentText(kept.report.top1Agreement),
                               bytesText(quint64(std::max<qint64>(more, 0))),
                               bytesText(all.weightBytes), bytesText(kept.weightBytes)));
  m_gainText->show();
}

QString SensitivitySection::keepText() const {
  return m_keepText->text();
}

QString SensitivitySection::gainText() const {
  return m_gainText->isHidden() ? QString() : m_gainText->text();
}

}  // namespace vitrine::ui

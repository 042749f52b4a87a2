#include "ui/inspector/precision/precision_loss.h"

#include <QHBoxLayout>
#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>

#include "app/measure/mode_comparison.h"
#include "app/measure/page_text.h"
#include "app/text.h"
#include "engine/measure/machine.h"
#include "engine/model/model.h"
#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/precision/precision_choices.h"
#include "ui/precision/weight_sizes.h"

namespace vitrine::ui {

using engine::EngineConfig;

EngineConfig PrecisionLoss::referenceOf(EngineConfig config) {
  config.precision = {};
  config.precision.weights = engine::WeightMode::kFp16;
  config.cache.type = engine::KvType::kFp16;
  return config;
}

std::uint64_t PrecisionLoss::memoryFor(const engine::Weights& weights, const EngineConfig& config) {
  return computedWeightBytes(weights, config.precision) +
         computedWeightBytes(weights, referenceOf(config).precision);
}

PrecisionLoss::PrecisionLoss(QWidget* parent)
    : QWidget(parent), m_comparison(new app::ModeComparison(this)) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(8);
  m_text = new SegmentedSwitch(
      tr("Over"),
      {{tr("this chat"), tr("The chat on screen, its first %1 tokens")
                             .arg(countText(app::ModeComparison::kMostTokens))},
       {tr("a page of English"), tr("About a thousand words that come with the program")}},
      this);
  m_text->setObjectName("precisionLossText");
  m_text->setAccessibleName(tr("Text to measure over"));
  m_text->setCurrent(0);
  column->addWidget(m_text);
  m_figures = new FigureGrid(this);
  m_figures->setObjectName("precisionLoss");
  column->addWidget(m_figures);
  auto* row = new QHBoxLayout;
  m_measure = new QPushButton(this);
  m_measure->setObjectName("measurePrecision");
  m_progress = new QProgressBar(this);
  m_progress->setRange(0, 1000);
  m_progress->setTextVisible(false);
  m_progress->setAccessibleName(tr("Progress of the measurement"));
  row->addWidget(m_measure);
  row->addWidget(m_progress, 1);
  row->addStretch();
  column->addLayout(row);
  m_note = new PlainLabel(LabelStyle::kMuted, this);
  m_note->setObjectName("precisionLossNote");
  m_note->setWordWrap(true);
  column->addWidget(m_note);

  connect(m_text, &SegmentedSwitch::chosen, this, [this](int index) {
    m_text->setCurrent(index);
    m_fault.clear();
    showLoss();
  });
  connect(m_measure, &QPushButton::clicked, this,
          [this] { m_comparison->isRunning() ? m_comparison->cancel() : measure(); });
  connect(m_comparison, &app::ModeComparison::progressed, this,
          [this](double fraction) { m_progress->setValue(int(fraction * 1000)); });
  connect(m_comparison, &app::ModeComparison::finished, this,
          [this](const engine::EvaluationReport& report) {
            m_losses[m_measuring] = report;
            m_measuring.clear();
            showLoss();
            emit stateWanted();
          });
  connect(m_comparison, &app::ModeComparison::failed, this, [this](const engine::Error& error) {
    m_measuring.clear();
    if (error.code != engine::ErrorCode::kCancelled) m_fault = app::toQString(error.message);
    showLoss();
    emit stateWanted();
  });
}

PrecisionLoss::~PrecisionLoss() {
  m_comparison->disconnect(this);
}

bool PrecisionLoss::usesChat() const {
  return m_text->current() == 0 && m_state.chatMessages && !m_state.turns.empty();
}

std::string PrecisionLoss::key() const {
  const EngineConfig& config = m_state.info->running;
  std::string key = m_state.info->fingerprint + '/' + engine::precisionKey(config.precision) + '/' +
                    engine::nameOf(config.cache.type) + '/' +
                    std::to_string(m_state.info->config.nKvHeads) + '/';
  if (!usesChat()) return key + "page";
  return key + app::toUtf8(m_state.conversation) + '/' + app::toUtf8(m_state.branch) + '/' +
         std::to_string(m_state.turns.size());
}

void PrecisionLoss::measure() {
  m_fault.clear();
  if (!m_state.info || !m_state.model) return;
  const EngineConfig& config = m_state.info->running;
  const std::uint64_t needed = memoryFor(m_state.model->weights(), config);
  const std::uint64_t available = engine::availableMemoryBytes();
  if (m_state.info->backend.kind != engine::BackendKind::kCuda && needed > available) {
    m_fault = tr("Measuring needs the model twice more, about %1, and %2 are free.")
                  .arg(bytesText(needed), bytesText(available));
    return showLoss();
  }
  app::ComparisonRequest request;
  request.model = m_state.model;
  request.config = config;
  request.reference = referenceOf(config);
  if (usesChat()) {
    request.messages = m_state.chatMessages();
  } else {
    request.text = app::kPageText;
  }
  m_measuring = key();
  m_progress->setValue(0);
  m_comparison->start(std::move(request));
  showLoss();
}

void PrecisionLoss::showState(const InspectorState& state) {
  m_state = state;
  showLoss();
}

void PrecisionLoss::showLoss() {
  if (!m_state.info) return;
  const bool hasChat = m_state.chatMessages && !m_state.turns.empty();
  m_text->setEnabled(hasChat);
  m_text->setToolTip(hasChat ? QString() : tr("The chat has no answers yet: the page is used."));
  const bool running = m_comparison->isRunning();
  m_progress->setVisible(running);
  m_measure->setText(running ? tr("Stop") : tr("Measure"));
  m_measure->setToolTip(running ? tr("Stop the measurement")
                                : tr("Reads the text with this precision and with FP16, beside the "
                                     "chat, and compares every token"));
  m_measure->setEnabled(running || !m_state.loading);
  QVector<FigureGrid::Row> rows;
  const auto found = m_losses.find(key());
  if (found != m_losses.end()) {
    const engine::EvaluationReport& report = found->second;
    rows = {{tr("KL mean"), QString::number(report.klMean, 'g', 3),
             tr("KL(FP16 ‖ this), nats a token, over %1 tokens").arg(countText(report.tokens))},
            {tr("KL p99"), QString::number(report.klP99, 'g', 3),
             tr("One token in a hundred is further away than this")},
            {tr("Same best token"), percentText(report.top1Agreement),
             tr("Share of tokens where both would choose the same")},
            {tr("Perplexity"),
             tr("%1 (FP16 %2)")
                 .arg(report.perplexity, 0, 'f', 3)
                 .arg(report.referencePerplexity, 0, 'f', 3),
             {}}};
  }
  m_figures->setRows(rows);
  m_figures->setVisible(!rows.isEmpty());
  QString note = m_fault;
  if (note.isEmpty() && running) {
    note = tr("Runs beside the chat, which is slower meanwhile.");
  } else if (note.isEmpty() && rows.isEmpty()) {
    note = usesChat() ? tr("Not measured on this chat yet.") : tr("Not measured on the page yet.");
  }
  m_note->setStyle(m_fault.isEmpty() ? LabelStyle::kMuted : LabelStyle::kFault);
  m_note->setText(note);
  m_note->setVisible(!note.isEmpty());
}

}  // namespace vitrine::ui

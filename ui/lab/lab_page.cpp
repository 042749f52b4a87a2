#include "ui/lab/lab_page.h"

#include <QFileDialog>
#include <QFrame>
#include <QHBoxLayout>
#include <QMenu>
#include <QPushButton>
#include <QScrollArea>
#include <QVBoxLayout>
#include <algorithm>

#include "app/chat/engine_client.h"
#include "app/lab/experiment.h"
#include "app/lab/lab_session.h"
#include "app/lab/recommendations.h"
#include "app/settings.h"
#include "app/text.h"
#include "ui/common/engine_switching.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/progress_card.h"
#include "ui/common/toast.h"
#include "ui/lab/lab_chart.h"
#include "ui/lab/lab_table.h"
#include "ui/lab/load_form.h"
#include "ui/lab/recommendation_card.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

using app::toQString;
using app::lab::Effort;
using app::lab::LabReport;
using app::lab::LabRow;
using app::lab::LabSession;
using app::lab::ReportFormat;

namespace {

QPushButton* makeButton(const QString& text, const char* kind, const char* name, QWidget* parent) {
  auto* button = new QPushButton(text, parent);
  if (*kind) button->setProperty("kind", kind);
  button->setObjectName(name);
  return button;
}

/// "40 s", "1 min 20 s": what is left, not more exact than it is known.
QString remainingText(double seconds) {
  const int rounded = std::max(5, int(seconds / 5 + 0.5) * 5);
  if (rounded < 60) return LabPage::tr("about %1 s left").arg(rounded);
  return LabPage::tr("about %1 min %2 s left").arg(rounded / 60).arg(rounded % 60);
}

app::lab::Chart chartOf(const LabReport& report, const char* row, const char* id) {
  if (const LabRow* found = report.row(row)) {
    for (const auto& chart : found->charts) {
      if (chart.id == id) return chart;
    }
  }
  return {};
}

}  // namespace

LabPage::LabPage(app::EngineClient& engine, app::Settings& settings, const QString& folder,
                 QWidget* parent)
    : QWidget(parent),
      m_engine(engine),
      m_settings(settings),
      m_folder(app::toPath(folder)),
      m_session(new LabSession(this)) {
  setAccessibleName(tr("Lab"));
  setProperty("wide", true);  // it needs the inspector's room
  auto* outer = new QVBoxLayout(this);
  outer->setContentsMargins(0, 0, 0, 0);
  auto* scroll = new QScrollArea(this);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  outer->addWidget(scroll);
  auto* content = new QWidget(scroll);
  content->setProperty("kind", "chat");
  scroll->setWidget(content);
  auto* column = new QVBoxLayout(content);
  column->setContentsMargins(34, 26, 34, 30);
  column->setSpacing(16);

  column->addWidget(makeHead());
  m_progress = new ProgressCard(tr("Progress of the lab"), QStringLiteral("stopLab"), this);
  connect(m_progress, &ProgressCard::stopWanted, this, &LabPage::stop);
  column->addWidget(m_progress);
  m_notice = new PlainLabel(LabelStyle::kFault, this);
  m_notice->setObjectName("labNotice");
  m_notice->setWordWrap(true);
  m_notice->hide();
  column->addWidget(m_notice);
  m_table = new LabTable(this);
  column->addWidget(m_table);
  auto* cardsPlace = new QWidget(this);
  cardsPlace->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Maximum);
  auto* cards = new QHBoxLayout(cardsPlace);
  cards->setContentsMargins(0, 0, 0, 0);
  cards->setSpacing(16);
  for (auto& card : m_cards) {
    card = new RecommendationCard(this);
    cards->addWidget(card, 1);
    connect(card, &RecommendationCard::applyWanted, this, &LabPage::apply);
  }
  column->addWidget(cardsPlace);
  column->addWidget(makeCharts());
  m_load = new LoadForm(this);
  column->addWidget(m_load);
  column->addStretch();

  connect(m_table, &LabTable::rowWanted, this,
          [this](const QString& id) { start(Effort::kQuick, {id}, true); });
  connect(m_load, &LoadForm::startWanted, this, &LabPage::startLoad);
  connect(m_load, &LoadForm::stopWanted, this, &LabPage::stop);
  connect(m_session, &LabSession::progressed, this, &LabPage::showProgress);
  connect(m_session, &LabSession::rowFinished, this, [this](const LabRow& row) {
    m_table->setRow(row);
    std::erase_if(m_report.rows, [&](const LabRow& each) { return each.id == row.id; });
    m_report.rows.push_back(row);
    m_report.recommendations = app::lab::recommend(m_report.rows, m_engine.config());
    updateCards();
    updateCharts();
  });
  connect(m_session, &LabSession::rowFailed, this, [this](const QString& id, const QString& text) {
    m_table->setFault(app::toUtf8(id), text);
  });
  connect(m_session, &LabSession::failed, this, [this](const QString& message) {
    if (m_loadRuns && !message.isEmpty()) return m_load->showFault(message);
    m_notice->setText(message);
    m_notice->setVisible(!message.isEmpty());
  });
  connect(m_session, &LabSession::loadProgressed, m_load, &LoadForm::setProgress);
  connect(m_session, &LabSession::loadMeasured, m_load, &LoadForm::showCurve);
  connect(m_session, &LabSession::runningChanged, this, [this](bool running) {
    if (running && !m_loadRuns) m_progress->begin();
    if (!running) {
      m_table->setRunning({}, 0);
      const bool hadFocus = m_progress->end();
      m_loadRuns = false;
      refresh();
      if (hadFocus) m_run->setFocus();
    }
    updateButtons();
    emit runningChanged(running);
  });
  connect(&m_engine, &app::EngineClient::modelLoaded, this, &LabPage::takeModel);
  connect(&m_engine, &app::EngineClient::modelUnloaded, this, &LabPage::takeModel);
  connect(&m_engine, &app::EngineClient::loadStarted, this, &LabPage::updateButtons);
  connect(&m_engine, &app::EngineClient::loadFailed, this, &LabPage::updateButtons);
  takeModel();
}

LabPage::~LabPage() {
  m_session->disconnect(this);  // its last words come to nobody
}

QWidget* LabPage::makeHead() {
  auto* head = new QWidget(this);
  auto* row = new QHBoxLayout(head);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(8);
  auto* titles = new QVBoxLayout;
  titles->setSpacing(2);
  titles->addWidget(
      new PlainLabel(tr("What each method gains and costs here"), LabelStyle::kTitle, head));
  m_subtitle = new PlainLabel(LabelStyle::kMuted, head);
  m_subtitle->setElided(Qt::ElideRight);
  titles->addWidget(m_subtitle);
  row->addLayout(titles, 1);
  auto* back = makeButton(tr("Back to the chat"), "quiet", "labBack", head);
  connect(back, &QPushButton::clicked, this, &LabPage::closeWanted);
  m_export = makeButton(tr("Export report"), "", "exportReport", head);
  auto* menu = new QMenu(m_export);
  for (const auto& [text, format] :
       {std::pair(tr("HTML…"), ReportFormat::kHtml), std::pair(tr("PDF…"), ReportFormat::kPdf),
        std::pair(tr("Markdown…"), ReportFormat::kMarkdown),
        std::pair(tr("JSON…"), ReportFormat::kJson)}) {
    const ReportFormat chosen = format;
    connect(menu->addAction(text), &QAction::triggered, this,
            [this, chosen] { chooseExport(chosen); });
  }
  m_export->setMenu(menu);
  m_full = makeButton(tr("Full · 10 min"), "", "runFull", head);
  m_full->setToolTip(tr("Longer sequences and more repeats for every row"));
  connect(m_full, &QPushButton::clicked, this,
          [this] { start(Effort::kFull, {}, missingRows(Effort::kFull) == 0); });
  m_run = makeButton({}, "primary", "runQuick", head);
  connect(m_run, &QPushButton::clicked, this, &LabPage::startOrGoOn);
  for (QPushButton* button : {back, m_export, m_full, m_run}) {
    row->addWidget(button, 0, Qt::AlignTop);
  }
  return head;
}

QWidget* LabPage::makeCharts() {
  auto* card = new QFrame(this);
  card->setProperty("kind", "card");
  auto* column = new QVBoxLayout(card);
  column->setContentsMargins(16, 14, 16, 14);
  column->setSpacing(18);
  m_throughput = new LabChart(tr("Throughput by chats at once, static against continuous, with the "
                                 "knee: from the row Dynamic batching."),
                              210, card);
  m_tpot = new LabChart(tr("Time per token by chats at once."), 210, card);
  m_ttft = new LabChart(tr("Time to the first token by chats at once."), 210, card);
  m_cacheTime = new LabChart(
      tr("Time of each token with and without cache: from the row KV cache."), 210, card);
  m_cacheTotal = new LabChart(tr("Time of the whole answer with and without cache."), 210, card);
  m_chartsHint =
      new PlainLabel(tr("Charts will be here: throughput, time per token and time to the "
                        "first token by chats at once, static against continuous, with "
                        "the knee marked; each token's time with and without KV cache."),
                     LabelStyle::kMuted, card);
  m_chartsHint->setWordWrap(true);
  column->addWidget(m_chartsHint);
  column->addWidget(m_throughput);
  const auto addPair = [&](QWidget* left, QWidget* right) {
    auto* row = new QHBoxLayout;
    row->setSpacing(28);
    row->addWidget(left);
    row->addWidget(right);
    column->addLayout(row);
  };
  addPair(m_tpot, m_ttft);
  addPair(m_cacheTime, m_cacheTotal);
  return card;
}

void LabPage::updateCharts() {
  m_throughput->setChart(chartOf(m_report, "batching", "throughput"));
  m_tpot->setChart(chartOf(m_report, "batching", "tpot"));
  m_ttft->setChart(chartOf(m_report, "batching", "ttft"));
  m_cacheTime->setChart(chartOf(m_report, "kv-cache", "kv_time"));
  m_cacheTotal->setChart(chartOf(m_report, "kv-cache", "kv_total"));
  bool any = false;
  for (LabChart* chart : {m_throughput, m_tpot, m_ttft, m_cacheTime, m_cacheTotal}) {
    chart->setVisible(!chart->isEmpty());
    any = any || !chart->isEmpty();
  }
  m_chartsHint->setVisible(!any);
}

// ---------------------------------------------------------------- what is shown

app::lab::LabPlan LabPage::plan() const {
  app::lab::LabPlan plan;
  plan.folder = m_folder;
  plan.config = m_engine.config();
  // Measured on the file's own weights, whichever are switched on: the table stays when a
  // recommendation is applied.
  plan.config.precision = {};
  if (const auto info = m_engine.info()) {
    plan.model = info->path;
    plan.backend = info->backend;
  }
  return plan;
}

void LabPage::takeModel() {
  const auto model = m_engine.model();
  m_table->setModel(model ? &model->config() : nullptr);
  if (!isRunning()) refresh();
  updateButtons();
}

/// What is kept for the loaded model, this machine and the present configuration.
void LabPage::refresh() {
  const auto model = m_engine.model();
  const auto info = m_engine.info();
  if (model && info) {
    const auto wanted = plan();
    m_report = app::lab::keptReport(wanted, app::lab::describeSubject(wanted, *model));
    m_subtitle->setText(
        QStringLiteral("%1 · %2 · %3 · %4")
            .arg(toQString(m_report.subject.model), toQString(info->backend.name).toUpper(),
                 toQString(info->backend.instructionSet),
                 pluralText(info->backend.threads, tr("%1 thread"), tr("%1 threads"))));
  } else {
    m_report = {};
    m_report.recommendations = app::lab::recommend({}, {});
    m_subtitle->setText(
        tr("Open a model: what KV cache, attention groups, INT8, paging and "
           "batching gain and cost on this machine is measured on it."));
  }
  m_table->setRows(m_report.rows);
  updateCards();
  updateCharts();
  updateButtons();
}

void LabPage::updateCards() {
  const auto info = m_engine.info();
  for (std::size_t i = 0; i < 3 && i < m_report.recommendations.size(); ++i) {
    m_cards[i]->setRecommendation(m_report.recommendations[i]);
    m_cards[i]->setState(m_engine.config(), info != nullptr && !m_engine.isLoading());
  }
}

int LabPage::missingRows(Effort effort) const {
  int missing = int(app::lab::experiments().size());
  for (const LabRow& row : m_report.rows) missing -= row.effort >= effort ? 1 : 0;
  return missing;
}

void LabPage::updateButtons() {
  const bool running = isRunning();
  const bool ready = m_engine.info() && !m_engine.isLoading() && !running;
  const int missing = missingRows(Effort::kQuick);
  const int all = int(app::lab::experiments().size());
  m_run->setText(missing == 0 ? tr("Run again · 2 min")
                 : missing == all
                     ? tr("Run all · 2 min")
                     : pluralText(missing, tr("Go on · %1 row left"), tr("Go on · %1 rows left")));
  m_run->setEnabled(ready);
  m_full->setEnabled(ready);
  m_export->setEnabled(!m_report.rows.empty());
  m_table->setBusy(!ready);
  m_load->setRunning(running && m_loadRuns, ready);
  for (RecommendationCard* card : m_cards) {
    card->setState(m_engine.config(), m_engine.info() && !m_engine.isLoading());
  }
}

void LabPage::showProgress(const app::lab::LabProgress& progress) {
  m_progress->setFraction(progress.fraction);
  if (progress.done >= progress.total) return;
  m_progress->setStage(tr("%1 · row %2 of %3 · %4")
                           .arg(toQString(progress.method))
                           .arg(progress.done + 1)
                           .arg(progress.total)
                           .arg(remainingText(progress.remainingSeconds)));
  m_table->setRunning(progress.row, progress.rowFraction);
}

// ---------------------------------------------------------------- what the person does

bool LabPage::isRunning() const {
  return m_session->isRunning();
}

void LabPage::startOrGoOn() {
  start(Effort::kQuick, {}, missingRows(Effort::kQuick) == 0);
}

void LabPage::start(Effort effort, const QStringList& rows, bool again) {
  if (isRunning() || !m_engine.info()) return;
  m_notice->hide();
  auto wanted = plan();
  wanted.effort = effort;
  wanted.resume = !again;
  for (const QString& row : rows) wanted.only.push_back(app::toUtf8(row));
  m_session->start(std::move(wanted));
}

void LabPage::stop() {
  m_session->stop();
}

void LabPage::startLoad() {
  const auto info = m_engine.info();
  if (isRunning() || !info) return;
  const auto spec = m_load->spec();
  if (const auto checked = spec.check(); !checked) {
    m_load->showFault(toQString(checked.error().message));
    return;
  }
  m_loadRuns = true;
  m_session->startLoad(info->path, m_engine.config(), spec, m_load->levels());
}

void LabPage::apply(const engine::EngineConfig& config) {
  m_run->setFocus();  // the card's button is disabled now; the focus stays up here
  engine::EngineConfig wanted = config;
  wanted.archive = wantedConfig(m_engine, m_settings).archive;  // the lab keeps nothing on disk
  switchEngine(m_engine, m_settings, wanted);
  updateButtons();
  Toast::of(this)->showMessage(tr("The next turn runs with this configuration."));
}

void LabPage::chooseExport(ReportFormat format) {
  const QString suffix = QString::fromLatin1(suffixOf(format));
  const QString file = QFileDialog::getSaveFileName(
      this, tr("Export report"), QStringLiteral("lab-report.") + suffix,
      tr("%1 files (*.%2);;All files (*)").arg(suffix.toUpper(), suffix));
  if (!file.isEmpty()) exportReport(format, file);
}

bool LabPage::exportReport(ReportFormat format, const QString& file) {
  const auto saved = app::lab::saveReportAs(m_report, format, app::toPath(file));
  Toast::of(this)->showMessage(saved ? tr("Wrote %1").arg(oneLine(file, 80))
                                     : toQString(saved.error().message));
  return saved.has_value();
}

void LabPage::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (!isRunning()) refresh();
}

}  // namespace vitrine::ui

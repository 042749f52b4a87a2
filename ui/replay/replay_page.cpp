#include "ui/replay/replay_page.h"

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QProgressBar>
#include <QPushButton>
#include <QSaveFile>
#include <QScrollArea>
#include <QStandardPaths>
#include <QVBoxLayout>

#include "app/chat/chat_session.h"
#include "app/chat/prompt_messages.h"
#include "app/compare/replay_report.h"
#include "app/export/exporter.h"
#include "app/store/conversation_store.h"
#include "app/studio/profile_list.h"
#include "app/text.h"
#include "engine/measure/machine.h"
#include "engine/model/model.h"
#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/common/toast.h"
#include "ui/precision/precision_choices.h"
#include "ui/precision/precision_form.h"
#include "ui/compare/compare_kinds.h"
#include "ui/precision/weight_sizes.h"
#include "ui/replay/divergence_strip.h"
#include "ui/replay/replay_text.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kLongestTitle = 48;

const QString& letter(int side) {
  static const QString letters[] = {QStringLiteral("A"), QStringLiteral("B")};
  return letters[side];
}

QPushButton* makeButton(const QString& text, const char* kind, const char* name, QWidget* parent) {
  auto* button = new QPushButton(text, parent);
  button->setProperty("kind", kind);
  button->setObjectName(QString::fromLatin1(name));
  return button;
}

engine::EngineConfig fp16Of(engine::EngineConfig config) {
  config.precision = {};
  config.precision.weights = engine::WeightMode::kFp16;
  config.cache.type = engine::KvType::kFp16;
  return config;
}

}  // namespace

ReplayPage::ReplayPage(app::EngineClient& engine, app::ConversationStore& store,
                       app::studio::ProfileList& profiles, QWidget* parent)
    : QWidget(parent),
      m_engine(engine),
      m_store(store),
      m_profiles(profiles),
      m_studio(new app::studio::StudioSession(this)) {
  const Theme& theme = Theme::instance();
  setAccessibleName(tr("Precision A/B"));
  auto* outer = new QVBoxLayout(this);
  outer->setContentsMargins(theme.px(32), theme.px(20), theme.px(32), theme.px(12));
  outer->setSpacing(theme.px(10));
  outer->addWidget(makeHead());
  auto* scroll = new QScrollArea(this);
  scroll->setWidgetResizable(true);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->viewport()->setAutoFillBackground(false);
  auto* body = new QWidget(scroll);
  body->setAutoFillBackground(false);
  auto* column = new QVBoxLayout(body);
  column->setContentsMargins(0, 0, theme.px(8), 0);
  column->setSpacing(theme.px(12));
  m_plan = new PlainLabel(LabelStyle::kMuted, body);
  m_plan->setObjectName("replayPlan");
  m_plan->setWordWrap(true);
  column->addWidget(m_plan);
  m_fault = new PlainLabel(LabelStyle::kFault, body);
  m_fault->setObjectName("replayFault");
  m_fault->setWordWrap(true);
  m_fault->hide();
  column->addWidget(m_fault);
  column->addWidget(makeProgress());
  column->addWidget(makeSides());
  column->addWidget(makeResult(), 1);
  scroll->setWidget(body);
  outer->addWidget(scroll, 1);

  connect(m_studio, &app::studio::StudioSession::progressed, this,
          [this](const QString& stage, double fraction) {
            m_stage->setText(stage);
            m_progress->setValue(int(fraction * 1000));
          });
  connect(m_studio, &app::studio::StudioSession::runningChanged, this, &ReplayPage::showPlan);
  connect(m_studio, &app::studio::StudioSession::replayed, this,
          [this](const app::studio::ReplayResult& result) {
            m_result = result;
            showResult();
          });
  connect(m_studio, &app::studio::StudioSession::failed, this, [this](const engine::Error& error) {
    if (error.code == engine::ErrorCode::kCancelled) return;
    QString words = app::toQString(error.message);
    if (!words.isEmpty()) words[0] = words[0].toUpper();
    m_fault->setText(words);
    m_fault->show();
  });
  connect(&engine, &app::EngineClient::modelLoaded, this, &ReplayPage::takeModel);
  connect(&engine, &app::EngineClient::modelUnloaded, this, &ReplayPage::takeModel);
  connect(&profiles, &app::studio::ProfileList::changed, this, &ReplayPage::takeModel);
  takeModel();
  showResult();
}

ReplayPage::~ReplayPage() {
  m_studio->disconnect(this);
}

QWidget* ReplayPage::makeHead() {
  auto* place = new QWidget(this);
  auto* column = new QVBoxLayout(place);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(Theme::instance().px(10));
  auto* head = new QHBoxLayout;
  head->addWidget(new PlainLabel(tr("Compare"), LabelStyle::kTitle, place));
  head->addSpacing(12);
  auto* kind = makeCompareKinds(1, "replayKind", place);
  connect(kind, &SegmentedSwitch::chosen, this, &ReplayPage::compareWanted);
  head->addWidget(kind);
  head->addStretch(1);
  auto* back = makeButton(tr("Back to the chat"), "quiet", "replayBack", place);
  connect(back, &QPushButton::clicked, this, &ReplayPage::closeWanted);
  m_copy = makeButton(tr("Copy"), "quiet", "copyReplay", place);
  m_copy->setToolTip(tr("Copy the report as Markdown"));
  connect(m_copy, &QPushButton::clicked, this, [this] {
    QApplication::clipboard()->setText(markdown());
    Toast::of(this)->showMessage(tr("Copied"), 1500);
  });
  m_export = makeButton(tr("Export…"), "quiet", "exportReplay", place);
  connect(m_export, &QPushButton::clicked, this, &ReplayPage::exportMarkdown);
  m_start = makeButton(tr("Replay"), "primary", "startReplay", place);
  connect(m_start, &QPushButton::clicked, this, &ReplayPage::start);
  m_stop = makeButton(tr("Stop"), "", "stopReplay", place);
  connect(m_stop, &QPushButton::clicked, this, &ReplayPage::stop);
  for (QPushButton* button : {back, m_copy, m_export, m_start, m_stop}) head->addWidget(button);
  column->addLayout(head);
  auto* row = new QHBoxLayout;
  row->addWidget(new PlainLabel(tr("Conversation"), LabelStyle::kMuted, place));
  m_conversation = new QComboBox(place);
  m_conversation->setObjectName("replayConversation");
  m_conversation->setAccessibleName(tr("Conversation to replay"));
  m_conversation->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  m_conversation->setMinimumContentsLength(36);
  connect(m_conversation, &QComboBox::activated, this, [this] {
    m_chosen = true;
    showPlan();
  });
  row->addWidget(m_conversation);
  row->addStretch(1);
  column->addLayout(row);
  return place;
}

QWidget* ReplayPage::makeSides() {
  const Theme& theme = Theme::instance();
  m_sidesBox = new QWidget(this);
  auto* row = new QHBoxLayout(m_sidesBox);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(theme.px(12));
  for (int side = 0; side < 2; ++side) {
    auto* card = new QFrame(m_sidesBox);
    card->setProperty("kind", "card");
    card->setAccessibleName(tr("Side %1").arg(letter(side)));
    auto* column = new QVBoxLayout(card);
    column->setContentsMargins(theme.px(14), theme.px(10), theme.px(14), theme.px(12));
    column->setSpacing(theme.px(8));
    column->addWidget(new PlainLabel(letter(side), LabelStyle::kTitle, card));
    auto* form = new PrecisionForm(card);
    m_forms[std::size_t(side)] = form;
    connect(form, &PrecisionForm::configWanted, this,
            [this, side](const engine::EngineConfig& config) { setConfig(side, config); });
    connect(form, &PrecisionForm::studioWanted, this, &ReplayPage::studioWanted);
    column->addWidget(form);
    m_figures[std::size_t(side)] = new FigureGrid(card);
    m_figures[std::size_t(side)]->setObjectName(QStringLiteral("replayFigures") + letter(side));
    column->addWidget(m_figures[std::size_t(side)]);
    column->addStretch(1);
    row->addWidget(card, 1);
  }
  return m_sidesBox;
}

QWidget* ReplayPage::makeProgress() {
  m_progressBox = new QWidget(this);
  auto* row = new QHBoxLayout(m_progressBox);
  row->setContentsMargins(0, 0, 0, 0);
  m_stage = new PlainLabel(LabelStyle::kMuted, m_progressBox);
  m_progress = new QProgressBar(m_progressBox);
  m_progress->setObjectName("replayProgress");
  m_progress->setRange(0, 1000);
  m_progress->setTextVisible(false);
  m_progress->setAccessibleName(tr("Progress of the replay"));
  row->addWidget(m_stage);
  row->addWidget(m_progress, 1);
  m_progressBox->hide();
  return m_progressBox;
}

QWidget* ReplayPage::makeResult() {
  const Theme& theme = Theme::instance();
  auto* card = new QFrame(this);
  card->setProperty("kind", "card");
  m_resultBox = card;
  auto* column = new QVBoxLayout(card);
  column->setContentsMargins(theme.px(14), theme.px(12), theme.px(14), theme.px(12));
  column->setSpacing(theme.px(8));
  m_summary = new PlainLabel(LabelStyle::kBody, card);
  m_summary->setObjectName("replaySummary");
  m_summary->setWordWrap(true);
  column->addWidget(m_summary);
  m_strip = new DivergenceStrip(card);
  m_strip->setWords([this](int token) { return tokenWords(token); });
  column->addWidget(m_strip);
  m_pointed = new PlainLabel(LabelStyle::kFigureMuted, card);
  m_pointed->setObjectName("replayPointed");
  m_pointed->setWordWrap(true);
  column->addWidget(m_pointed);
  m_text = new ReplayText(card);
  m_text->setObjectName("replayText");
  m_text->setMinimumHeight(theme.px(220));
  column->addWidget(m_text, 1);
  const QString hint =
      tr("A cell a token of the answers: the taller and redder, the larger KL; a "
         "dot where the best tokens differ. Point to read, click to find it.");
  m_pointed->setText(hint);
  connect(m_strip, &DivergenceStrip::pointed, this, [this, hint](const QString& words) {
    m_pointed->setText(words.isEmpty() ? hint : words);
  });
  connect(m_strip, &DivergenceStrip::chosen, m_text, &ReplayText::showToken);
  return card;
}

void ReplayPage::setSession(app::ChatSession* session) {
  m_session = session;
  m_chosen = false;
  if (isVisible()) fillConversations();
}

void ReplayPage::setConfig(int side, const engine::EngineConfig& config) {
  m_configs[std::size_t(side)] = config;
  showForms();
  showPlan();
}

// A new model: FP16 against what is in use, or against INT8 where that is FP16.
void ReplayPage::takeModel() {
  const app::ModelInfoPtr info = m_engine.info();
  if (info && info->fingerprint != m_fingerprint) {
    m_fingerprint = info->fingerprint;
    m_configs[0] = fp16Of(info->running);
    m_configs[1] = info->running;
    const engine::WeightMode weights = info->running.precision.weights;
    if (weights != engine::WeightMode::kInt8 && info->running.cache.type == engine::KvType::kFp16) {
      m_configs[1].precision.weights = engine::WeightMode::kInt8;
    }
  }
  showForms();
  showPlan();
}

void ReplayPage::showForms() {
  const app::ModelInfoPtr info = m_engine.info();
  for (std::size_t side = 0; side < 2; ++side) {
    m_forms[side]->setModel(info, m_engine.model(), m_profiles.profiles());
    m_forms[side]->setConfig(m_configs[side], m_configs[side], false);
  }
}

void ReplayPage::fillConversations() {
  const QVariant before = m_conversation->currentData();
  m_conversation->clear();
  for (const app::Conversation& conversation : m_store.conversations()) {
    const QString title = conversation.title.isEmpty() ? tr("Untitled") : conversation.title;
    m_conversation->addItem(oneLine(title, kLongestTitle), conversation.id);
  }
  QVariant wanted = before;
  if (!m_chosen && m_session) wanted = qint64(m_session->conversation().id);
  const int index = m_conversation->findData(wanted);
  m_conversation->setCurrentIndex(index >= 0 ? index : (m_conversation->count() > 0 ? 0 : -1));
  showPlan();
}

void ReplayPage::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  fillConversations();
}

std::uint64_t ReplayPage::memoryNeeded() const {
  const auto model = m_engine.model();
  if (!model) return 0;
  std::uint64_t bytes = 0;
  for (const engine::EngineConfig& config : m_configs) {
    bytes += computedWeightBytes(model->weights(), config.precision);
  }
  return bytes;
}

void ReplayPage::showPlan() {
  const bool running = m_studio->isRunning();
  const app::ModelInfoPtr info = m_engine.info();
  m_start->setVisible(!running);
  m_start->setEnabled(info && m_conversation->count() > 0);
  m_stop->setVisible(running);
  m_progressBox->setVisible(running);
  m_sidesBox->setEnabled(!running);
  m_conversation->setEnabled(!running);
  m_copy->setEnabled(m_result && !running);
  m_export->setEnabled(m_result && !running);
  if (!info) {
    m_plan->setText(m_engine.isLoading()
                        ? tr("The model is loading.")
                        : tr("No model is loaded: choose one on the Models page."));
  } else if (m_conversation->count() == 0) {
    m_plan->setText(tr("There is no conversation yet: ask something first."));
  } else {
    m_plan->setText(tr("Both read the conversation's own tokens, so every token can be compared. "
                       "Two engines of their own take about %1 meanwhile; the chat keeps its own.")
                        .arg(bytesText(memoryNeeded())));
  }
}

void ReplayPage::start() {
  m_fault->hide();
  const auto refuse = [this](const QString& words) {
    m_fault->setText(words);
    m_fault->show();
  };
  const app::ModelInfoPtr info = m_engine.info();
  const auto model = m_engine.model();
  if (!info || !model) return refuse(tr("No model is loaded."));
  if (m_studio->isRunning()) return;
  const app::ConversationId id = m_conversation->currentData().toLongLong();
  const auto document = app::loadForExport(m_store, id);
  if (!document) return refuse(tr("Choose a conversation."));
  if (m_configs[0].precision == m_configs[1].precision &&
      m_configs[0].cache.type == m_configs[1].cache.type) {
    return refuse(tr("Both sides are the same: choose another mode for one of them."));
  }
  const std::uint64_t available = engine::availableMemoryBytes();
  if (info->backend.kind != engine::BackendKind::kCuda && memoryNeeded() > available) {
    return refuse(tr("Both engines need about %1 and %2 are free: choose smaller modes or close "
                     "other programs.")
                      .arg(bytesText(memoryNeeded()), bytesText(available)));
  }
  std::vector<app::Message> path = document->path;
  path.emplace_back().role = app::Role::kAssistant;  // an answer to come, which is left out
  app::studio::ReplayJob job;
  job.model = model;
  job.configs = m_configs;
  job.messages = app::promptMessages(document->conversation, path, [&](const app::Message& m) {
                   return app::idsMatchText(m, model->tokenizer(), info->fingerprint);
                 }).messages;
  m_title = document->conversation.title.isEmpty() ? tr("Untitled") : document->conversation.title;
  m_result.reset();
  m_model = model;
  showResult();
  m_progress->setValue(0);
  m_stage->setText(tr("Preparing"));
  m_studio->replay(std::move(job));
}

void ReplayPage::stop() {
  m_studio->stop();
}

QString ReplayPage::tokenWords(int token) const {
  if (!m_result || !m_model || std::size_t(token) >= m_result->report.tokens.size()) return {};
  return app::replayTokenText(*m_result, token, m_model->tokenizer());
}

void ReplayPage::showResult() {
  m_resultBox->setVisible(m_result.has_value());
  showPlan();
  if (!m_result) {
    for (FigureGrid* grid : m_figures) grid->setRows({});
    return;
  }
  const engine::ReplayReport& report = m_result->report;
  for (std::size_t side = 0; side < 2; ++side) {
    const engine::ReplayReport::Side& of = report.sides[side];
    m_figures[side]->setRows(
        {{tr("Perplexity"), QString::number(of.perplexity, 'f', 3), tr("Of the answers' tokens")},
         {tr("Prefill"), millisecondsText(of.prefillMs),
          tr("Of the whole conversation, %1 tokens").arg(countText(qint64(report.tokens.size())))},
         {tr("Decode"), rateText(of.decodeTps), tr("One token a step, at the conversation's end")},
         {tr("Weights"), bytesText(of.weightBytes), exactBytesText(of.weightBytes)},
         {tr("KV cache"), bytesText(of.kvBytes), exactBytesText(of.kvBytes)}});
  }
  int nth = 0;  // of the answers' tokens
  for (int i = 0; i <= report.firstDivergence; ++i) {
    nth += report.tokens[std::size_t(i)].scored ? 1 : 0;
  }
  const QString agreement = tr("Same best token %1 · KL mean %2, p99 %3 nats a token")
                                .arg(percentText(report.top1Agreement))
                                .arg(report.klMean, 0, 'g', 3)
                                .arg(report.klP99, 0, 'g', 3);
  m_summary->setText(
      agreement + QStringLiteral(" · ") +
      (report.firstDivergence < 0
           ? tr("both would choose the same %1 tokens").arg(countText(report.scoredTokens))
           : tr("first difference at token %1 of %2")
                 .arg(countText(nth), countText(report.scoredTokens))));
  m_strip->setReport(report);
  m_text->showResult(*m_result);
}

QString ReplayPage::markdown() const {
  if (!m_result || !m_model) return {};
  app::ReplayTitle title;
  title.conversation = m_title;
  title.model =
      QStringLiteral("%1 (%2), fingerprint %3")
          .arg(app::toQString(m_model->config().name), app::toQString(m_model->quantizationName()),
               app::toQString(m_model->fingerprint()));
  for (std::size_t side = 0; side < 2; ++side) {
    title.configs[side] = precisionText(m_result->configs[side]);
  }
  return app::replayMarkdown(*m_result, title, m_model->tokenizer());
}

void ReplayPage::exportMarkdown() {
  const QString folder = QStandardPaths::writableLocation(QStandardPaths::DocumentsLocation);
  const QString file = QFileDialog::getSaveFileName(
      this, tr("Export the replay"), QDir(folder).filePath(QStringLiteral("precision-ab.md")),
      tr("Markdown (*.md)"));
  if (file.isEmpty()) return;
  QSaveFile out(file);
  const bool written =
      out.open(QIODevice::WriteOnly) && out.write(markdown().toUtf8()) >= 0 && out.commit();
  Toast::of(this)->showMessage(
      written ? tr("Exported to %1").arg(oneLine(QFileInfo(file).fileName(), 60))
              : tr("%1 could not be written: %2").arg(file, out.errorString()),
      8000);
}

}  // namespace vitrine::ui

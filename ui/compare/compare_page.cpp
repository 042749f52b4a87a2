#include "ui/compare/compare_page.h"

#include <QApplication>
#include <QClipboard>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QRegularExpressionValidator>
#include <QSaveFile>
#include <QShortcut>
#include <QSpinBox>
#include <QStandardPaths>
#include <QVBoxLayout>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/chat/turn_request.h"
#include "app/settings.h"
#include "app/text.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/common/toast.h"
#include "ui/common/toggle_switch.h"
#include "ui/compare/compare_column.h"
#include "ui/compare/compare_kinds.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kShowMs = 100;
constexpr int kShownQuestion = 300;

QPushButton* makeButton(const QString& text, const char* kind, QWidget* parent) {
  auto* button = new QPushButton(text, parent);
  button->setProperty("kind", kind);
  return button;
}

}  // namespace

ComparePage::ComparePage(app::EngineClient& engine, app::Settings& settings, QWidget* parent)
    : QWidget(parent), m_engine(engine), m_settings(settings), m_run(engine) {
  const Theme& theme = Theme::instance();
  setAccessibleName(tr("Compare"));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(theme.px(32), theme.px(20), theme.px(32), theme.px(20));
  column->setSpacing(theme.px(10));
  column->addWidget(makeHead());
  column->addWidget(makePrompt());
  m_plan = new PlainLabel(LabelStyle::kMuted, this);
  m_plan->setObjectName("comparePlan");
  m_plan->setWordWrap(true);
  column->addWidget(m_plan);
  m_fault = new PlainLabel(LabelStyle::kFault, this);
  m_fault->setObjectName("compareFault");
  m_fault->setWordWrap(true);
  m_fault->hide();
  column->addWidget(m_fault);
  auto* sides = new QHBoxLayout;
  sides->setSpacing(theme.px(12));
  for (std::size_t side = 0; side < 2; ++side) {
    m_columns[side] = new CompareColumn(side == 0 ? tr("A") : tr("B"), this);
    sides->addWidget(m_columns[side], 1);
    connect(m_columns[side], &CompareColumn::edited, this, &ComparePage::showPlan);
  }
  column->addLayout(sides, 1);

  m_showSoon.setSingleShot(true);
  m_showSoon.setInterval(kShowMs);
  connect(&m_showSoon, &QTimer::timeout, this, &ComparePage::showRun);
  connect(&m_run, &app::CompareRun::changed, this, [this] {
    if (!m_showSoon.isActive()) m_showSoon.start();
  });
  connect(&m_run, &app::CompareRun::finished, this, &ComparePage::showRun);
  connect(&engine, &app::EngineClient::modelLoaded, this, &ComparePage::takeModel);
  connect(&engine, &app::EngineClient::modelUnloaded, this, &ComparePage::takeModel);
  connect(&Theme::instance(), &Theme::changed, this, &ComparePage::showRun, Qt::QueuedConnection);
  auto* go = new QShortcut(Qt::CTRL | Qt::Key_Return, this);
  go->setContext(Qt::WidgetWithChildrenShortcut);
  connect(go, &QShortcut::activated, this, &ComparePage::start);
  takeModel();
  showRun();
}

QWidget* ComparePage::makeHead() {
  auto* place = new QWidget(this);
  auto* head = new QHBoxLayout(place);
  head->setContentsMargins(0, 0, 0, 0);
  head->addWidget(new PlainLabel(tr("Compare"), LabelStyle::kTitle, place));
  head->addSpacing(12);
  auto* kind = makeCompareKinds(0, "compareKind", place);
  connect(kind, &SegmentedSwitch::chosen, this, &ComparePage::replayWanted);
  head->addWidget(kind);
  head->addStretch(1);
  auto* back = makeButton(tr("Back to the chat"), "quiet", place);
  back->setObjectName("backToChat");
  connect(back, &QPushButton::clicked, this, &ComparePage::closeWanted);
  m_copy = makeButton(tr("Copy"), "quiet", place);
  m_copy->setObjectName("copyComparison");
  m_copy->setToolTip(tr("Copy both answers and all figures as Markdown"));
  connect(m_copy, &QPushButton::clicked, this, [this] {
    QApplication::clipboard()->setText(markdown());
    Toast::of(this)->showMessage(tr("Copied"), 1500);
  });
  m_export = makeButton(tr("Export…"), "quiet", place);
  connect(m_export, &QPushButton::clicked, this, &ComparePage::exportMarkdown);
  m_start = makeButton(tr("Compare"), "primary", place);
  m_start->setObjectName("startComparison");
  m_start->setToolTip(tr("Ask both sides (Ctrl+Enter)"));
  connect(m_start, &QPushButton::clicked, this, &ComparePage::start);
  m_stop = makeButton(tr("Stop"), "", place);
  m_stop->setObjectName("stopComparison");
  connect(m_stop, &QPushButton::clicked, this, &ComparePage::stop);
  for (QPushButton* button : {back, m_copy, m_export, m_start, m_stop}) head->addWidget(button);
  return place;
}

QWidget* ComparePage::makePrompt() {
  const Theme& theme = Theme::instance();
  auto* place = new QWidget(this);
  auto* column = new QVBoxLayout(place);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(theme.px(8));
  m_prompt = new QPlainTextEdit(place);
  m_prompt->setObjectName("comparePrompt");
  m_prompt->setAccessibleName(tr("Prompt for both sides"));
  m_prompt->setPlaceholderText(tr("What both sides are asked"));
  m_prompt->setTabChangesFocus(true);
  setFocusProxy(m_prompt);
  m_prompt->setFixedHeight(theme.px(64));
  column->addWidget(m_prompt);
  auto* row = new QHBoxLayout;
  row->setSpacing(theme.px(10));
  m_source = new SegmentedSwitch(
      tr("Ask"),
      {{tr("This prompt"), tr("As a new chat with the default system prompt")},
       {tr("This chat's question"), tr("The last question of the open chat, with its history")}},
      place);
  m_source->setObjectName("compareSource");
  m_source->setCurrent(0);
  connect(m_source, &SegmentedSwitch::chosen, this, [this](int index) {
    m_source->setCurrent(index);
    showPlan();
  });
  row->addWidget(m_source);
  row->addWidget(new PlainLabel(tr("Longest answer"), LabelStyle::kMuted, place));
  m_longest = new QSpinBox(place);
  m_longest->setRange(1, 4096);
  m_longest->setValue(128);
  m_longest->setAccessibleName(tr("Longest answer in tokens"));
  row->addWidget(m_longest);
  row->addStretch(1);
  column->addLayout(row);

  row = new QHBoxLayout;
  row->setSpacing(theme.px(10));
  m_sameSeed = new ToggleSwitch(tr("Same seed"), place);
  m_sameSeed->setObjectName("sameSeed");
  m_sameSeed->setChecked(true);
  m_sameSeed->setToolTip(tr("Both draw with the same random numbers"));
  row->addWidget(m_sameSeed);
  m_seed = new QLineEdit(QStringLiteral("1"), place);
  m_seed->setAccessibleName(tr("Seed"));
  m_seed->setValidator(new QRegularExpressionValidator(QRegularExpression("[0-9]{1,18}"), m_seed));
  m_seed->setFixedWidth(theme.px(80));
  connect(m_sameSeed, &ToggleSwitch::toggled, m_seed, &QWidget::setEnabled);
  row->addWidget(m_seed);
  m_atOnce = new ToggleSwitch(tr("Two engines at once"), place);
  m_atOnce->setObjectName("twoAtOnce");
  m_atOnce->setToolTip(tr(
      "Where the sides need an engine each: at the same time, though they slow each other down"));
  connect(m_atOnce, &ToggleSwitch::toggled, this, &ComparePage::showPlan);
  row->addWidget(m_atOnce);
  row->addStretch(1);
  column->addLayout(row);
  return place;
}

void ComparePage::setSession(app::ChatSession* session) {
  m_session = session;
  showPlan();
}

bool ComparePage::asksChat() const {
  return m_source->current() == 1 && m_session && !m_session->rows().empty();
}

void ComparePage::takeModel() {
  const app::ModelInfoPtr info = m_engine.info();
  engine::SamplingParams usual;
  if (info) usual = app::overlaySampling(usual, info->defaults);
  usual = app::overlaySampling(usual, m_settings.samplingDefaults());
  for (CompareColumn* column : m_columns) {
    const app::CompareSide before = column->side();
    column->setModel(info.get(), usual);
    if (!info || info->fingerprint != m_shownModel) continue;
    // The same model in another mode: what a side had of its own stays.
    app::CompareSide side = column->side();
    side.sampling = before.sampling;
    const engine::EngineConfig& was = m_shownConfig;
    const engine::EngineConfig& own = before.config;
    if (own.precision != was.precision) side.config.precision = own.precision;
    if (own.cache.type != was.cache.type) side.config.cache.type = own.cache.type;
    if (own.kvHeads != was.kvHeads) side.config.kvHeads = own.kvHeads;
    column->setSide(side);
  }
  m_shownModel = info ? info->fingerprint : std::string();
  m_shownConfig = info ? info->running : engine::EngineConfig{};
  showPlan();
}

void ComparePage::showPlan() {
  const app::ModelInfoPtr info = m_engine.info();
  const auto model = m_engine.model();
  const bool hasChat = m_session && !m_session->rows().empty();
  if (!hasChat && m_source->current() == 1) m_source->setCurrent(0);
  m_source->setEnabled(hasChat);
  m_prompt->setReadOnly(asksChat());
  m_prompt->setEnabled(!asksChat());
  if (!info || !model) {
    m_plan->setText(m_engine.isLoading()
                        ? tr("The model is loading.")
                        : tr("No model is loaded: choose one on the Models page."));
    return;
  }
  if (m_run.isRunning()) return;
  const engine::EngineConfig a = m_columns[0]->side().config;
  const engine::EngineConfig b = m_columns[1]->side().config;
  const bool same = app::computesTheSame(a, b);
  const bool aLoaded = app::computesTheSame(a, info->running);
  const bool bLoaded = app::computesTheSame(b, info->running);
  const std::uint64_t second = app::memoryForSecondEngine(*model, *info, aLoaded ? b : a, 1);
  const QString memory = tr("about %1 more memory until this page is left").arg(bytesText(second));
  m_atOnce->setVisible(!same && (aLoaded || bLoaded));
  if (same && aLoaded) {
    m_plan->setText(
        tr("Both sides run on the loaded engine at once, in one batch: the Batch tab "
           "shows them as two lanes."));
  } else if (same) {
    m_plan->setText(
        tr("Both sides run at once in one batch, on a second engine (%1).").arg(memory));
  } else if (!aLoaded && !bLoaded) {
    m_plan->setText(
        tr("Each side needs a second engine; they run one after the other (%1).").arg(memory));
  } else if (m_atOnce->isChecked()) {
    m_plan->setText(tr("%1 runs on the loaded engine, %2 on a second one at the same time (%3). "
                       "They share the processor: compare texts, not times.")
                        .arg(aLoaded ? tr("A") : tr("B"), aLoaded ? tr("B") : tr("A"), memory));
  } else {
    m_plan->setText(tr("%1 runs on the loaded engine, then %2 on a second one (%3).")
                        .arg(aLoaded ? tr("A") : tr("B"), aLoaded ? tr("B") : tr("A"), memory));
  }
}

void ComparePage::start() {
  m_fault->hide();
  app::CompareSetup setup;
  if (asksChat()) {
    app::TurnRequest turn = m_session->repeatedTurn();
    setup.messages = std::move(std::get<engine::ChatPrompt>(turn.request.prompt).messages);
  } else if (const QString prompt = m_prompt->toPlainText(); !prompt.trimmed().isEmpty()) {
    const app::ModelInfoPtr info = m_engine.info();
    const QString system = m_settings.systemPromptDefault();
    if (!system.isEmpty() && info && info->acceptsSystemMessage) {
      setup.messages.push_back({"system", app::toUtf8(system), {}});
    }
    setup.messages.push_back({"user", app::toUtf8(prompt), {}});
  }
  if (!setup.messages.empty()) {
    setup.question = app::toQString(setup.messages.back().content);
  }
  for (std::size_t side = 0; side < 2; ++side) setup.sides[side] = m_columns[side]->side();
  setup.maxTokens = m_longest->value();
  if (m_sameSeed->isChecked()) setup.seed = m_seed->text().toULongLong();
  setup.atOnce = m_atOnce->isChecked();
  if (const auto started = m_run.start(std::move(setup)); !started) {
    QString message = app::toQString(started.error().message);
    if (!message.isEmpty()) message[0] = message[0].toUpper();
    m_fault->setText(message);
    m_fault->show();
  }
  showRun();
}

void ComparePage::stop() {
  m_run.stop();
}

void ComparePage::showRun() {
  const bool running = m_run.isRunning();
  const app::FirstDifference difference = m_run.difference();
  for (int side = 0; side < 2; ++side) {
    m_columns[std::size_t(side)]->showAnswer(m_run.answer(side), difference, side);
    m_columns[std::size_t(side)]->setEditable(!running);
  }
  m_start->setVisible(!running);
  m_stop->setVisible(running);
  const bool any = m_run.answer(0).ended || m_run.answer(1).ended;
  m_copy->setEnabled(any && !running);
  m_export->setEnabled(any && !running);
  if (running) {
    const QString loading = m_run.loadingText();
    m_plan->setText(!loading.isEmpty() ? loading : tr("Both sides are being answered."));
    return;
  }
  if (!any) return showPlan();
  QStringList words;
  if (m_run.order() == app::CompareOrder::kOneBatch && m_run.allSteps() > 0) {
    words << tr("%1 of %2 steps computed both answers in one batch.")
                 .arg(m_run.sharedSteps())
                 .arg(m_run.allSteps());
  }
  const bool both = m_run.answer(0).ended && m_run.answer(1).ended &&
                    m_run.answer(0).error.isEmpty() && m_run.answer(1).error.isEmpty();
  if (both) {
    words << (difference.token >= 0
                  ? tr("The first different token is number %1, marked in both texts.")
                        .arg(difference.token + 1)
                  : tr("Both answers are the same, token for token."));
  }
  m_plan->setText(words.join(QLatin1Char(' ')));
}

QString ComparePage::markdown() const {
  return app::compareMarkdown(m_run.setup(), m_run.answers(), m_run.order(), m_run.difference(),
                              m_engine.info().get());
}

void ComparePage::exportMarkdown() {
  const QString folder = QStandardPaths::writableLocation(QStandardPaths::DocumentsLocation);
  const QString file = QFileDialog::getSaveFileName(
      this, tr("Export the comparison"), QDir(folder).filePath(QStringLiteral("comparison.md")),
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

void ComparePage::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (!m_run.isRunning()) showPlan();
  m_prompt->setFocus();
}

void ComparePage::hideEvent(QHideEvent* event) {
  QWidget::hideEvent(event);
  // A minimized window is not left.
  if (!event->spontaneous()) m_run.leave();
}

}  // namespace vitrine::ui

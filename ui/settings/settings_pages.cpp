#include "ui/settings/settings_pages.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDir>
#include <QFileDialog>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QRegularExpressionValidator>
#include <QSpinBox>
#include <QVBoxLayout>
#include <algorithm>
#include <thread>

#include "app/chat/engine_client.h"
#include "app/server/local_server.h"
#include "app/settings.h"
#include "engine/measure/machine.h"
#include "ui/common/engine_switching.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/settings/sampling_form.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr std::uint64_t kMegabyte = 1024 * 1024;
constexpr int kSmallestContext = 256;
constexpr int kLargestContext = 1 << 20;  // where no model says less

QComboBox* makeSizes(std::initializer_list<int> values, const QString& format, QWidget* parent) {
  auto* box = new QComboBox(parent);
  for (const int value : values) box->addItem(format.arg(value), value);
  box->setFixedWidth(140);
  return box;
}

// Shows a value that is set elsewhere (the settings file, the command line), too.
void select(QComboBox* box, int value, const QString& format) {
  int index = box->findData(value);
  if (index < 0) {
    box->addItem(format.arg(value), value);
    index = box->count() - 1;
  }
  box->setCurrentIndex(index);
}

}  // namespace

// --------------------------------------------------------------------------------------- page

SettingsPage::SettingsPage(const QString& title, QWidget* parent)
    : QWidget(parent), m_column(new QVBoxLayout(this)) {
  setAccessibleName(title);
  m_column->setContentsMargins(24, 20, 24, 20);
  m_column->setSpacing(6);
  m_column->addWidget(new PlainLabel(title, LabelStyle::kTitle, this));
  m_column->addSpacing(8);
}

void SettingsPage::addField(const QString& name, QWidget* field, const QString& explanation) {
  auto* row = new QHBoxLayout;
  row->setSpacing(16);
  auto* label = new PlainLabel(name, LabelStyle::kBody, this);
  label->setBuddy(field);
  label->setMinimumWidth(Theme::instance().px(150));
  row->addWidget(label, 0, Qt::AlignVCenter);
  row->addWidget(field, 0, Qt::AlignLeft | Qt::AlignVCenter);
  row->addStretch(1);
  m_column->addLayout(row);
  if (field->accessibleName().isEmpty()) field->setAccessibleName(name);
  if (!explanation.isEmpty()) {
    auto* words = new PlainLabel(explanation, LabelStyle::kMuted, this);
    words->setWordWrap(true);
    m_column->addWidget(words);
    field->setAccessibleDescription(explanation);
  }
  m_column->addSpacing(8);
}

void SettingsPage::addWide(QWidget* widget) {
  m_column->addWidget(widget);
  m_column->addSpacing(8);
}

void SettingsPage::endFields() {
  m_column->addStretch(1);
}

// ------------------------------------------------------------------------------------ general

GeneralPage::GeneralPage(app::Settings& settings, const QString& standardModelFolder,
                         QWidget* parent)
    : SettingsPage(tr("General"), parent) {
  auto* look = new SegmentedSwitch(
      {}, {{tr("As the system"), {}}, {tr("Light"), {}}, {tr("Dark"), {}}}, this);
  look->setAccessibleName(tr("Appearance"));
  look->setObjectName("themeSwitch");
  look->setCurrent(int(settings.theme()));
  connect(look, &SegmentedSwitch::chosen, this, [&settings, look](int index) {
    look->setCurrent(index);
    settings.setTheme(app::Theme(index));
    Theme::instance().setMode(ThemeMode(index));
  });
  addField(tr("Appearance"), look);

  auto* zoom = new QSpinBox(this);
  zoom->setObjectName("zoom");
  zoom->setRange(70, 200);
  zoom->setSingleStep(10);
  zoom->setSuffix(QStringLiteral(" %"));
  zoom->setFixedWidth(110);
  zoom->setValue(settings.zoomPercent());
  zoom->setKeyboardTracking(false);
  connect(zoom, &QSpinBox::valueChanged, this, [&settings](int percent) {
    settings.setZoomPercent(percent);
    Theme::instance().setZoom(percent / 100.0);
  });
  addField(tr("Size of everything"), zoom, tr("Also Ctrl and plus, minus or 0."));

  auto* atStart = new QCheckBox(tr("Load the last model"), this);
  atStart->setChecked(settings.loadLastModelAtStart());
  connect(atStart, &QCheckBox::toggled, this,
          [&settings](bool on) { settings.setLoadLastModelAtStart(on); });
  addField(tr("At the start"), atStart);

  auto* folderRow = new QWidget(this);
  auto* row = new QHBoxLayout(folderRow);
  row->setContentsMargins(0, 0, 0, 0);
  auto* folder = new PlainLabel(LabelStyle::kFigure, folderRow);
  folder->setElided(Qt::ElideMiddle);
  folder->setMinimumWidth(Theme::instance().px(240));
  const auto showFolder = [&settings, folder, standardModelFolder] {
    const QString chosen = settings.modelFolder();
    folder->setText(QDir::toNativeSeparators(chosen.isEmpty() ? standardModelFolder : chosen));
    folder->setToolTip(literalToolTip(folder->text()));
  };
  showFolder();
  connect(&settings, &app::Settings::changed, folder, showFolder);
  auto* change = new QPushButton(tr("Change…"), folderRow);
  auto* reset = new QPushButton(tr("Standard"), folderRow);
  reset->setProperty("kind", "quiet");
  connect(change, &QPushButton::clicked, this, [this, &settings, folder] {
    const QString chosen =
        QFileDialog::getExistingDirectory(this, tr("Model folder"), folder->text());
    if (!chosen.isEmpty()) settings.setModelFolder(chosen);
  });
  connect(reset, &QPushButton::clicked, this, [&settings] { settings.setModelFolder({}); });
  row->addWidget(folder, 1);
  row->addWidget(change);
  row->addWidget(reset);
  addWide(new PlainLabel(tr("Model folder"), LabelStyle::kBody, this));
  addWide(folderRow);
  endFields();
}

// ------------------------------------------------------------------------------------- engine

EnginePage::EnginePage(app::EngineClient& engine, app::Settings& settings, QWidget* parent)
    : SettingsPage(tr("Engine"), parent), m_engine(engine), m_settings(settings) {
  const auto makeSpin = [this](const char* name, int least, int most, int step,
                               const QString& special) {
    auto* box = new QSpinBox(this);
    box->setObjectName(name);
    box->setRange(least, most);
    box->setSingleStep(step);
    box->setSpecialValueText(special);
    box->setFixedWidth(140);
    box->setGroupSeparatorShown(true);
    connect(box, &QSpinBox::valueChanged, this, &EnginePage::changed);
    return box;
  };
  const int processors = std::max(1, int(std::thread::hardware_concurrency()));
  m_threads = makeSpin("threads", 0, processors, 1, tr("automatic"));
  addField(tr("Threads"), m_threads,
           tr("Automatic is one a physical core; this machine has %1.")
               .arg(pluralText(processors, tr("%1 processor"), tr("%1 processors"))));
  m_context = makeSpin("context", 0, kLargestContext, 256, tr("the model's"));
  connect(m_context, &QSpinBox::editingFinished, this, [this] {  // between "the model's" and 256
    if (m_context->value() > 0 && m_context->value() < kSmallestContext) {
      m_context->setValue(kSmallestContext);
    }
  });
  addField(tr("Context"), m_context,
           tr("Tokens that a chat may hold; at most what the model was trained for."));
  const int totalMegabytes =
      int(std::min<std::uint64_t>(engine::totalMemoryBytes() / kMegabyte, std::uint64_t(1) << 24));
  m_budgetMegabytes = makeSpin("budget", 0, totalMegabytes, 64, tr("automatic"));
  m_budgetMegabytes->setSuffix(QStringLiteral(" MB"));
  addField(tr("KV cache budget"), m_budgetMegabytes,
           tr("Memory for keys and values of all chats; automatic is a share of what is free."));
  m_blockSize = makeSizes({16, 32, 64, 128}, tr("%1 tokens"), this);
  m_blockSize->setObjectName("blockSize");
  addField(tr("Block size"), m_blockSize,
           tr("Small blocks waste less and share more; large ones make a shorter table."));
  m_prefillChunk = makeSizes({32, 64, 128, 256, 512, 1024}, tr("%1 tokens"), this);
  m_prefillChunk->setObjectName("prefillChunk");
  addField(tr("Prefill chunk"), m_prefillChunk,
           tr("Most prompt tokens of one step; other chats go on between chunks, and Stop acts."));
  m_groupSize = makeSizes({32, 64, 128}, tr("%1 weights"), this);
  m_groupSize->setObjectName("groupSize");
  addField(tr("INT8 group"), m_groupSize, tr("Weights of a row that share a scale."));
  for (QComboBox* box : {m_blockSize, m_prefillChunk, m_groupSize}) {
    connect(box, &QComboBox::currentIndexChanged, this, &EnginePage::changed);
  }

  m_note = new PlainLabel(LabelStyle::kMuted, this);
  m_note->setWordWrap(true);
  addWide(m_note);
  auto* buttons = new QWidget(this);
  auto* row = new QHBoxLayout(buttons);
  row->setContentsMargins(0, 0, 0, 0);
  m_apply = new QPushButton(tr("Apply"), buttons);
  m_apply->setObjectName("applyEngine");
  m_apply->setProperty("kind", "primary");
  m_reset = new QPushButton(tr("Take back"), buttons);
  row->addWidget(m_apply);
  row->addWidget(m_reset);
  row->addStretch();
  addWide(buttons);
  endFields();
  connect(m_apply, &QPushButton::clicked, this, &EnginePage::apply);
  connect(m_reset, &QPushButton::clicked, this, &EnginePage::fill);
  connect(&engine, &app::EngineClient::modelLoaded, this, &EnginePage::fill);
  connect(&engine, &app::EngineClient::loadFailed, this, &EnginePage::fill);
  fill();
}

void EnginePage::fill() {
  m_filling = true;
  const engine::EngineConfig config = wantedConfig(m_engine, m_settings);
  const app::ModelInfoPtr info = m_engine.info();
  m_context->setMaximum(info ? info->config.contextLength : kLargestContext);
  m_threads->setValue(config.threads);
  m_context->setValue(config.contextTokens);
  m_budgetMegabytes->setValue(int(config.cache.budgetBytes / kMegabyte));
  select(m_blockSize, config.cache.blockSize, tr("%1 tokens"));
  select(m_prefillChunk, config.prefillChunk, tr("%1 tokens"));
  select(m_groupSize, config.precision.groupSize, tr("%1 weights"));
  m_filling = false;
  changed();
}

engine::EngineConfig EnginePage::entered() const {
  engine::EngineConfig config = wantedConfig(m_engine, m_settings);
  config.threads = m_threads->value();
  const int context = m_context->value();
  config.contextTokens = context == 0 ? 0 : std::max(context, kSmallestContext);
  // Bytes below a whole MB (set elsewhere) stay while the field is not touched.
  const int budget = m_budgetMegabytes->value();
  if (budget != int(config.cache.budgetBytes / kMegabyte)) {
    config.cache.budgetBytes = std::uint64_t(budget) * kMegabyte;
  }
  config.cache.blockSize = m_blockSize->currentData().toInt();
  config.prefillChunk = m_prefillChunk->currentData().toInt();
  config.precision.groupSize = m_groupSize->currentData().toInt();
  return config;
}

void EnginePage::changed() {
  if (m_filling) return;
  const bool differs = !(entered() == wantedConfig(m_engine, m_settings));
  m_apply->setEnabled(differs);
  m_reset->setEnabled(differs);
  m_note->setText(!differs ? QString()
                  : m_engine.info()
                      ? tr("Applying prepares the loaded model again; cached chats may have to be "
                           "computed once more.")
                      : tr("Used for the next model that is loaded."));
}

void EnginePage::apply() {
  switchEngine(m_engine, m_settings, entered());
  fill();
}

// -------------------------------------------------------------------------------------- chats

ChatsPage::ChatsPage(app::Settings& settings, QWidget* parent) : SettingsPage(tr("Chats"), parent) {
  auto* policy = new SegmentedSwitch(
      {},
      {{tr("Stop"), tr("The answer ends, or the message is not sent; nothing is lost")},
       {tr("Leave out oldest turns"),
        tr("The system prompt and the last question stay; the chat shows what was left out")},
       {tr("Keep pinned"),
        tr("The same, but messages that you pinned stay in the prompt")}},
      this);
  policy->setObjectName("contextPolicy");
  policy->setAccessibleName(tr("When the context is full"));
  policy->setCurrent(static_cast<int>(settings.contextPolicy()));
  connect(policy, &SegmentedSwitch::chosen, this, [&settings, policy](int index) {
    policy->setCurrent(index);
    settings.setContextPolicy(static_cast<engine::ContextPolicy>(index));
  });
  addWide(new PlainLabel(tr("When the context is full"), LabelStyle::kBody, this));
  addWide(policy);
  auto* explanation = new PlainLabel(
      tr("Never silently: the context bar shows it coming, and a full context is always told."),
      LabelStyle::kMuted, this);
  explanation->setWordWrap(true);
  addWide(explanation);

  addWide(new PlainLabel(tr("System prompt of new chats"), LabelStyle::kBody, this));
  auto* prompt = new QPlainTextEdit(this);
  prompt->setObjectName("systemPrompt");
  prompt->setAccessibleName(tr("System prompt of new chats"));
  prompt->setPlaceholderText(tr("None"));
  prompt->setTabChangesFocus(true);
  prompt->setFixedHeight(Theme::instance().px(110));
  prompt->setPlainText(settings.systemPromptDefault());
  connect(prompt, &QPlainTextEdit::textChanged, this,
          [&settings, prompt] { settings.setSystemPromptDefault(prompt->toPlainText()); });
  addWide(prompt);
  endFields();
}

// ----------------------------------------------------------------------------------- sampling

SamplingPage::SamplingPage(app::EngineClient& engine, app::Settings& settings, QWidget* parent)
    : SettingsPage(tr("Sampling"), parent) {
  auto* words = new PlainLabel(
      tr("For all chats that have no values of their own. Without a value here, the model's own "
         "recommendation is used, else the program's."),
      LabelStyle::kMuted, this);
  words->setWordWrap(true);
  addWide(words);
  auto* form = new SamplingForm(this);
  const auto fill = [&engine, &settings, form] {
    engine::SamplingParams inForce;
    if (engine.info()) inForce = app::overlaySampling(inForce, engine.info()->defaults);
    form->setValues(inForce, settings.samplingDefaults());
  };
  fill();
  connect(&engine, &app::EngineClient::modelLoaded, form, fill);
  connect(form, &SamplingForm::edited, this,
          [&settings](const QJsonObject& own) { settings.setSamplingDefaults(own); });
  addWide(form);
  auto* reset = new QPushButton(tr("Forget my values"), this);
  connect(reset, &QPushButton::clicked, this, [&settings, fill] {
    settings.setSamplingDefaults({});
    fill();
  });
  auto* row = new QWidget(this);
  auto* rowLayout = new QHBoxLayout(row);
  rowLayout->setContentsMargins(0, 0, 0, 0);
  rowLayout->addWidget(reset);
  rowLayout->addStretch();
  addWide(row);
  endFields();
}

// ------------------------------------------------------------------------------------- server

ServerPage::ServerPage(app::LocalServer& server, app::Settings& settings, QWidget* parent)
    : SettingsPage(tr("Local API server"), parent) {
  auto* words = new PlainLabel(
      tr("Lets other programs on this machine use the loaded model through the OpenAI API. It "
         "listens on the loopback address alone; nothing from outside reaches it."),
      LabelStyle::kMuted, this);
  words->setWordWrap(true);
  addWide(words);
  auto* on = new QCheckBox(tr("On"), this);
  on->setObjectName("serverOn");
  on->setChecked(settings.serverEnabled());
  connect(on, &QCheckBox::toggled, this,
          [&settings](bool checked) { settings.setServerEnabled(checked); });
  addField(tr("Server"), on);

  auto* port = new QSpinBox(this);
  port->setObjectName("serverPort");
  port->setRange(1024, 65535);
  port->setFixedWidth(140);
  port->setKeyboardTracking(false);  // not at every digit
  port->setValue(settings.serverPort());
  connect(port, &QSpinBox::valueChanged, this,
          [&settings](int value) { settings.setServerPort(value); });
  addField(tr("Port"), port);

  auto* key = new QLineEdit(settings.serverKey(), this);
  key->setObjectName("serverKey");
  key->setPlaceholderText(tr("none"));
  key->setFixedWidth(Theme::instance().px(280));
  // What fits into an HTTP header.
  key->setValidator(new QRegularExpressionValidator(
      QRegularExpression(QStringLiteral("[\\x21-\\x7e]{0,200}")), key));
  connect(key, &QLineEdit::editingFinished, this,
          [&settings, key] { settings.setServerKey(key->text()); });
  addField(tr("Key"), key, tr("If set, programs must send it as a bearer token."));

  auto* status = new PlainLabel(LabelStyle::kFigure, this);
  status->setObjectName("serverStatus");
  status->setWordWrap(true);
  status->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  const auto show = [&server, status] {
    const bool failed = !server.problem().isEmpty();
    status->setStyle(failed ? LabelStyle::kFault : LabelStyle::kFigure);
    status->setText(failed               ? server.problem()
                    : server.isRunning() ? tr("listening on %1/v1").arg(server.url())
                                         : tr("off"));
  };
  show();
  connect(&server, &app::LocalServer::changed, status, show);
  addWide(status);
  endFields();
}

// --------------------------------------------------------------------------------------- keys

KeysPage::KeysPage(QWidget* parent) : SettingsPage(tr("Keys"), parent) {
  const std::pair<QString, QString> keys[] = {
      {tr("Enter"), tr("Send")},
      {tr("Shift+Enter"), tr("New line")},
      {tr("Esc"), tr("Stop the answer")},
      {tr("Ctrl+N"), tr("New chat")},
      {tr("Ctrl+K"), tr("Search the chats")},
      {tr("Ctrl+F"), tr("Find in this chat")},
      {tr("Ctrl+R"), tr("Regenerate the last answer")},
      {tr("Ctrl+Shift+E"), tr("Edit the last question")},
      {tr("Ctrl+Shift+C"), tr("Copy the last answer")},
      {tr("Ctrl+Shift+P"), tr("Pin a message, or take its pin away")},
      {tr("Ctrl+Shift+K"), tr("Compare two configurations")},
      {tr("Alt+Up, Alt+Down"), tr("Previous and next message")},
      {tr("Ctrl+B"), tr("Show or hide the side bar")},
      {tr("Ctrl+I"), tr("Show or hide the inspector")},
      {tr("Ctrl+L"), tr("Choose a model")},
      {tr("Ctrl+Shift+L"), tr("The Lab: measure the trade-offs")},
      {tr("Ctrl+Shift+S"), tr("The Studio: calibrate INT8")},
      {tr("Ctrl+plus, minus, 0"), tr("Larger, smaller, normal size")},
      {tr("Ctrl+,"), tr("Settings")},
      {tr("Ctrl+/"), tr("This list")},
      {tr("Tab, Shift+Tab"), tr("Next and previous control")},
      {tr("Arrow keys"), tr("Inside switches, lists, charts and the block map")},
  };
  auto* table = new QWidget(this);
  auto* grid = new QGridLayout(table);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(24);
  grid->setVerticalSpacing(9);
  grid->setColumnStretch(1, 1);
  int line = 0;
  for (const auto& [key, meaning] : keys) {
    grid->addWidget(new PlainLabel(key, LabelStyle::kFigure, table), line, 0);
    grid->addWidget(new PlainLabel(meaning, LabelStyle::kBody, table), line, 1);
    ++line;
  }
  addWide(table);
  endFields();
}

}  // namespace vitrine::ui

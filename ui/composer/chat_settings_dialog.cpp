#include "ui/composer/chat_settings_dialog.h"

#include <QDialogButtonBox>
#include <QGridLayout>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QRegularExpressionValidator>
#include <QSlider>
#include <QStyle>
#include <QVBoxLayout>
#include <cmath>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/settings.h"
#include "ui/common/plain_label.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

ChatSettingsDialog::ChatSettingsDialog(app::ChatSession* session, app::EngineClient& engine,
                                       app::Settings& settings, QWidget* parent)
    : QDialog(parent),
      m_session(session),
      m_engine(engine),
      m_settings(settings),
      m_forChat(session != nullptr) {
  const Theme& theme = Theme::instance();
  setWindowTitle(m_forChat ? tr("Settings of this chat") : tr("Settings of new chats"));
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(theme.px(20), theme.px(18), theme.px(20), theme.px(16));
  layout->setSpacing(theme.px(10));
  layout->addWidget(new PlainLabel(tr("System prompt"), LabelStyle::kHeading, this));
  m_prompt = new QPlainTextEdit(this);
  m_prompt->setAccessibleName(tr("System prompt"));
  m_prompt->setPlaceholderText(tr("How the model should behave, for the whole chat"));
  m_prompt->setTabChangesFocus(true);
  m_prompt->setFixedHeight(theme.px(96));
  m_prompt->setPlainText(session ? session->conversation().systemPrompt
                                 : settings.systemPromptDefault());
  layout->addWidget(m_prompt);
  if (session && !session->rows().empty()) {
    layout->addWidget(new PlainLabel(
        tr("A change is at the very front: the next message is computed from the beginning."),
        LabelStyle::kMuted, this));
  }

  layout->addSpacing(theme.px(6));
  layout->addWidget(new PlainLabel(tr("Sampling"), LabelStyle::kHeading, this));
  auto* grid = new QGridLayout;
  grid->setHorizontalSpacing(theme.px(14));
  grid->setVerticalSpacing(theme.px(8));
  grid->setColumnStretch(1, 1);
  layout->addLayout(grid);
  addField(grid, tr("Temperature"), tr("0 always takes the best token; higher is more varied"),
           {"temperature", 0, 2, 0.05, 2, tr("best token"), 0});
  addField(grid, tr("Top-k"), tr("Choose among the k best tokens"),
           {"top_k", 0, 200, 1, 0, tr("off"), 0});
  addField(grid, tr("Top-p"), tr("Choose among the tokens that make up this share"),
           {"top_p", 0.05, 1, 0.01, 2, tr("off"), 1});
  addField(grid, tr("Min-p"), tr("Leave out tokens below this share of the best one"),
           {"min_p", 0, 0.5, 0.01, 2, tr("off"), 0});
  addField(grid, tr("Repeat penalty"), tr("Make tokens less likely that came lately"),
           {"repeat_penalty", 1, 1.5, 0.01, 2, tr("off"), 1});
  addField(grid, tr("Presence penalty"), tr("Make tokens less likely that came at all"),
           {"presence_penalty", 0, 2, 0.05, 2, tr("off"), 0});
  addField(grid, tr("Frequency penalty"), tr("Make tokens less likely the more often they came"),
           {"frequency_penalty", 0, 2, 0.05, 2, tr("off"), 0});
  addField(grid, tr("Longest answer"), tr("Tokens after which an answer ends"),
           {"max_tokens", 0, 4096, 64, 0, tr("no limit"), 0});
  const int row = grid->rowCount();
  auto* seedLabel = new PlainLabel(tr("Seed"), LabelStyle::kBody, this);
  grid->addWidget(seedLabel, row, 0);
  m_seed = new QLineEdit(this);
  m_seed->setPlaceholderText(tr("random"));
  m_seed->setAccessibleName(tr("Seed"));
  m_seed->setToolTip(tr("The same seed gives the same text"));
  m_seed->setValidator(new QRegularExpressionValidator(QRegularExpression("[0-9]{0,19}"), m_seed));
  grid->addWidget(m_seed, row, 1, 1, 2);

  auto* buttons = new QDialogButtonBox(this);
  auto* reset = buttons->addButton(tr("Back to defaults"), QDialogButtonBox::ResetRole);
  buttons->addButton(QDialogButtonBox::Cancel);
  auto* save = buttons->addButton(tr("Save"), QDialogButtonBox::AcceptRole);
  save->setProperty("kind", "primary");
  save->style()->unpolish(save);  // the box has polished it already
  save->style()->polish(save);
  save->setDefault(true);
  connect(reset, &QPushButton::clicked, this, [this] { show(defaults()); });
  connect(buttons, &QDialogButtonBox::accepted, this, &ChatSettingsDialog::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  layout->addSpacing(theme.px(6));
  layout->addWidget(buttons);

  QJsonObject values = defaults();
  const QJsonObject own = session ? session->conversation().sampling : settings.samplingDefaults();
  for (auto it = own.begin(); it != own.end(); ++it) values[it.key()] = it.value();
  show(values);
  resize(theme.px(520), sizeHint().height());
}

void ChatSettingsDialog::addField(QGridLayout* grid, const QString& label,
                                  const QString& explanation, Field field) {
  const int row = grid->rowCount();
  auto* name = new PlainLabel(label, LabelStyle::kBody, this);
  field.slider = new QSlider(Qt::Horizontal, this);
  field.slider->setRange(0, int(std::lround((field.high - field.low) / field.step)));
  field.slider->setAccessibleName(label);
  field.slider->setAccessibleDescription(explanation);
  field.slider->setToolTip(explanation);
  name->setToolTip(explanation);
  name->setBuddy(field.slider);
  field.value = new PlainLabel(LabelStyle::kFigure, this);
  field.value->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  field.value->setMinimumWidth(Theme::instance().px(76));
  grid->addWidget(name, row, 0);
  grid->addWidget(field.slider, row, 1);
  grid->addWidget(field.value, row, 2);
  const std::size_t index = m_fields.size();
  connect(field.slider, &QSlider::valueChanged, this,
          [this, index] { showValue(m_fields[index]); });
  m_fields.push_back(std::move(field));
}

double ChatSettingsDialog::valueOf(const Field& field) const {
  return field.low + field.slider->value() * field.step;
}

void ChatSettingsDialog::showValue(const Field& field) {
  const double value = valueOf(field);
  const bool off = !field.offText.isEmpty() && std::abs(value - field.offValue) < field.step / 2;
  field.value->setText(off ? field.offText : locale().toString(value, 'f', field.decimals));
}

QJsonObject ChatSettingsDialog::defaults() const {
  engine::SamplingParams params;
  if (const app::ModelInfoPtr info = m_engine.info()) {
    params = app::overlaySampling(params, info->defaults);
  }
  if (m_forChat) params = app::overlaySampling(params, m_settings.samplingDefaults());
  QJsonObject values = app::toJson(params);
  if (m_forChat && m_settings.samplingDefaults().contains("max_tokens")) {
    values["max_tokens"] = m_settings.samplingDefaults()["max_tokens"];
  }
  return values;
}

void ChatSettingsDialog::show(const QJsonObject& values) {
  for (const Field& field : m_fields) {
    const double value = values[field.key].toDouble(field.offValue);
    field.slider->setValue(int(std::lround((value - field.low) / field.step)));
    showValue(field);
  }
  const QJsonValue seed = values["seed"];
  m_seed->setText(seed.isString()   ? seed.toString()
                  : seed.isDouble() ? QString::number(seed.toDouble(), 'f', 0)
                                    : QString());
}

QJsonObject ChatSettingsDialog::sampling() const {
  const QJsonObject base = defaults();
  QJsonObject result;
  for (const Field& field : m_fields) {
    const double value = valueOf(field);
    const double usual = base[field.key].toDouble(field.offValue);
    if (std::abs(value - usual) < field.step / 2) continue;
    // Rounded to what is shown: 0.7, not 0.7000000000000001.
    const double scale = std::pow(10.0, field.decimals);
    result[field.key] = std::round(value * scale) / scale;
  }
  if (!m_seed->text().isEmpty()) result["seed"] = m_seed->text();  // 64 bits: as text
  return result;
}

void ChatSettingsDialog::accept() {
  if (m_forChat && m_session) {
    if (m_prompt->toPlainText() != m_session->conversation().systemPrompt) {
      m_session->setSystemPrompt(m_prompt->toPlainText());
    }
    m_session->setSampling(sampling());
  } else if (!m_forChat) {
    m_settings.setSystemPromptDefault(m_prompt->toPlainText());
    m_settings.setSamplingDefaults(sampling());
  }
  QDialog::accept();
}

}  // namespace vitrine::ui

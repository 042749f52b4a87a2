#include "ui/context/context_dialog.h"

#include <QFrame>
#include <QHBoxLayout>
#include <QListWidget>
#include <QPushButton>
#include <QStyle>
#include <QVBoxLayout>
#include <algorithm>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/settings.h"
#include "app/text.h"
#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/toast.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

using engine::ContextPolicy;

constexpr int kLookDelayMs = 60;
constexpr int kShownCharacters = 70;

}  // namespace

QString contextPolicyText(ContextPolicy policy) {
  switch (policy) {
    case ContextPolicy::kStop:
      return ContextDialog::tr("Stop");
    case ContextPolicy::kDropOldest:
      return ContextDialog::tr("Leave out oldest turns");
    case ContextPolicy::kKeepPinned:
      return ContextDialog::tr("Keep pinned");
  }
  return {};
}

ContextDialog::ContextDialog(app::ChatSession* session, QString draft, app::EngineClient& engine,
                             app::Settings& settings, QWidget* parent)
    : QDialog(parent),
      m_session(session),
      m_draft(std::move(draft)),
      m_settings(settings),
      m_preview(engine) {
  const Theme& theme = Theme::instance();
  setWindowTitle(tr("When the context is full"));
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(theme.px(20), theme.px(18), theme.px(20), theme.px(16));
  layout->setSpacing(theme.px(12));
  m_headline = new PlainLabel(LabelStyle::kBody, this);
  m_headline->setObjectName("contextHeadline");
  m_headline->setWordWrap(true);
  layout->addWidget(m_headline);

  auto* columns = new QHBoxLayout;
  columns->setSpacing(theme.px(12));
  m_columns = {makeColumn(ContextPolicy::kStop,
                          tr("Nothing leaves. A message that does not fit is not sent, an answer "
                             "ends at the limit.")),
               makeColumn(ContextPolicy::kDropOldest,
                          tr("The oldest turns leave the prompt. The system prompt and your last "
                             "question stay.")),
               makeColumn(ContextPolicy::kKeepPinned,
                          tr("The same, but messages that you pinned stay, with their turn where "
                             "the model wants that."))};
  for (const Column& column : m_columns) columns->addWidget(column.card, 1);
  layout->addLayout(columns, 1);

  auto* below = new QHBoxLayout;
  m_asSettings = new QPushButton(this);
  m_asSettings->setObjectName("policyAsSettings");
  m_asSettings->setProperty("kind", "link");
  connect(m_asSettings, &QPushButton::clicked, this, [this] { choose(std::nullopt); });
  below->addWidget(m_asSettings);
  below->addStretch(1);
  auto* close = new QPushButton(tr("Close"), this);
  close->setDefault(true);
  connect(close, &QPushButton::clicked, this, &QDialog::accept);
  below->addWidget(close);
  layout->addLayout(below);
  resize(theme.px(920), theme.px(520));

  m_lookSoon.setSingleShot(true);
  m_lookSoon.setInterval(kLookDelayMs);
  connect(&m_lookSoon, &QTimer::timeout, this, &ContextDialog::look);
  connect(&m_preview, &app::ContextPreview::changed, this, &ContextDialog::showOutlook);
  if (session) {
    const auto soon = [this] { m_lookSoon.start(); };
    connect(session, &app::ChatSession::conversationChanged, this, &ContextDialog::showOutlook);
    connect(session, &app::ChatSession::messageChanged, this, [this](int row) {
      if (m_session && row != m_session->streamingRow()) m_lookSoon.start();
    });
    connect(session, &app::ChatSession::pathReset, this, soon);
    connect(session, &app::ChatSession::turnFinished, this, soon);
    connect(&engine, &app::EngineClient::modelLoaded, this, soon);
  }
  connect(&settings, &app::Settings::changed, this, &ContextDialog::showOutlook);
  look();
  showOutlook();
}

ContextDialog::Column ContextDialog::makeColumn(ContextPolicy policy, const QString& explanation) {
  const Theme& theme = Theme::instance();
  const QString name = contextPolicyText(policy);
  Column column;
  column.policy = policy;
  column.card = new QFrame(this);
  column.card->setProperty("kind", "card");
  column.card->setObjectName(QStringLiteral("policy-%1").arg(QLatin1String(nameOf(policy))));
  column.card->setAccessibleName(name);
  auto* layout = new QVBoxLayout(column.card);
  layout->setContentsMargins(theme.px(14), theme.px(12), theme.px(14), theme.px(12));
  layout->setSpacing(theme.px(8));
  auto* head = new QHBoxLayout;
  head->addWidget(new PlainLabel(name, LabelStyle::kBody, column.card));
  head->addStretch(1);
  column.state = new PlainLabel(LabelStyle::kMuted, column.card);
  column.state->setObjectName("policyState");
  head->addWidget(column.state);
  layout->addLayout(head);
  auto* words = new PlainLabel(explanation, LabelStyle::kMuted, column.card);
  words->setWordWrap(true);
  words->setAlignment(Qt::AlignTop);
  words->setMinimumHeight(theme.px(54));  // three lines: the figures of all stand level
  layout->addWidget(words);
  column.figures = new FigureGrid(column.card);
  column.figures->setObjectName("policyFigures");
  layout->addWidget(column.figures);
  column.leaves = new PlainLabel(LabelStyle::kHeading, column.card);
  layout->addWidget(column.leaves);
  column.list = new QListWidget(column.card);
  column.list->setObjectName("policyMessages");
  column.list->setAccessibleName(tr("Messages that would leave"));
  column.list->setFrameShape(QFrame::NoFrame);
  column.list->setTextElideMode(Qt::ElideRight);
  column.list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  column.list->setUniformItemSizes(true);
  connect(column.list, &QListWidget::itemActivated, this, [this](const QListWidgetItem* item) {
    emit rowChosen(item->data(Qt::UserRole).toInt());
  });
  layout->addWidget(column.list, 100);
  layout->addStretch(1);  // in place of the list while there is none
  column.use = new QPushButton(tr("Use for this chat"), column.card);
  column.use->setObjectName("usePolicy");
  column.use->setAccessibleName(tr("%1: use for this chat").arg(name));
  connect(column.use, &QPushButton::clicked, this, [this, policy] { choose(policy); });
  layout->addWidget(column.use);
  return column;
}

void ContextDialog::look() {
  if (m_session) m_preview.look(*m_session, m_draft);
}

QString ContextDialog::headline() const {
  const app::ContextOutlook& outlook = m_preview.outlook();
  if (!m_session) return tr("Once a chat is open, this tells what leaves its prompt, and when.");
  if (!outlook.problem.isEmpty()) {
    return tr("The next prompt could not be looked at: %1").arg(outlook.problem);
  }
  if (outlook.options.empty()) return tr("Counting …");
  const QString whole = countText(quint64(outlook.wholeTokens));
  const QString limit = countText(quint64(outlook.limitTokens));
  const QString next =
      m_draft.isEmpty()
          ? tr("The chat with an empty question has %1 of %2 tokens.").arg(whole, limit)
          : tr("With what you wrote, the next prompt has %1 of %2 tokens.").arg(whole, limit);
  if (!outlook.ahead) {
    return tr("%1 That leaves too little room for an answer: this is what would leave at the next "
              "turn.")
        .arg(next);
  }
  return tr("%1 It fits: nothing leaves at the next turn. Beyond %2 more tokens, this would leave.")
      .arg(next, countText(quint64(outlook.tokensUntilThen)));
}

void ContextDialog::showOutlook() {
  m_headline->setText(headline());
  for (const Column& column : m_columns) {
    showColumn(column, m_preview.outlook().option(column.policy));
  }
  m_asSettings->setVisible(m_session && m_session->conversation().contextPolicy.has_value());
  m_asSettings->setText(
      tr("As in the settings (%1)").arg(contextPolicyText(m_settings.contextPolicy())));
}

void ContextDialog::showColumn(const Column& column, const app::ContextOption* option) {
  const bool inForce = m_session && m_session->contextPolicy() == column.policy;
  const bool own = m_session && m_session->conversation().contextPolicy.has_value();
  column.state->setText(!inForce ? QString() : own ? tr("in force") : tr("in force (settings)"));
  column.use->setEnabled(m_session && !(inForce && own));
  column.card->setProperty("chosen", inForce);
  column.card->style()->unpolish(column.card);
  column.card->style()->polish(column.card);
  const bool known = m_session && option != nullptr;
  column.figures->setVisible(known);
  column.list->setVisible(known);
  column.leaves->setVisible(known);
  column.list->clear();
  if (!known) return;

  const app::ContextOutlook& outlook = m_preview.outlook();
  const int freed = outlook.wholeTokens - option->promptTokens;
  const auto& forecast = option->forecast;
  const QString counting = QStringLiteral("…");
  QVector<FigureGrid::Row> rows{
      {tr("Frees"), tr("%1 tokens").arg(countText(quint64(std::max(0, freed)))),
       tr("Tokens of the prompt that leave")},
      {tr("Prompt then"),
       tr("%1 of %2")
           .arg(countText(quint64(option->promptTokens)), countText(quint64(outlook.limitTokens))),
       tr("Tokens of the prompt that stay, of those that the context holds")}};
  if (!option->fits) {
    rows.append({tr("Next turn"), tr("does not fit"),
                 tr("The message would not be sent; it stays in the input")});
  } else {
    rows.append({tr("To compute"),
                 forecast ? tr("%1 tokens").arg(countText(quint64(forecast->newTokens))) : counting,
                 tr("What leaves at the front changes the prompt's beginning: what was cached "
                    "after it has to be computed again")});
    rows.append({tr("First token in"),
                 !forecast              ? counting
                 : forecast->ttftMs < 0 ? tr("not measured yet")
                                        : tr("≈ %1").arg(millisecondsText(forecast->ttftMs)),
                 tr("By this machine's measured speed")});
  }
  column.figures->setRows(rows);

  column.leaves->setText(option->rows.empty()
                             ? tr("No message leaves")
                             : pluralText(qint64(option->rows.size()), tr("%1 message leaves"),
                                          tr("%1 messages leave")));
  for (const int row : option->rows) {
    if (row >= int(m_session->rows().size())) continue;
    const app::Message& message = m_session->rows()[std::size_t(row)].message;
    const QString who = message.role == app::Role::kAssistant ? tr("Answer") : tr("You");
    const QString text = oneLine(message.text.left(400), kShownCharacters);
    auto* item = new QListWidgetItem(
        message.pinned ? tr("%1 (pinned): %2").arg(who, text) : tr("%1: %2").arg(who, text),
        column.list);
    item->setData(Qt::UserRole, row);
  }
}

void ContextDialog::choose(std::optional<ContextPolicy> policy) {
  if (!m_session) return;
  if (const auto done = m_session->setContextPolicy(policy); !done) {
    Toast::of(this)->showMessage(app::toQString(done.error().message), 8000);
  }
}

}  // namespace vitrine::ui

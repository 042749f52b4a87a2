#include "ui/composer/composer.h"

#include <QFrame>
#include <QHBoxLayout>
#include <QJsonDocument>
#include <QJsonObject>
#include <QPainter>
#include <QPushButton>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "app/chat/engine_client.h"
#include "app/settings.h"
#include "app/text.h"
#include "ui/chat/text_dialog.h"
#include "ui/common/drawn_icon.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/composer/chat_settings_dialog.h"
#include "ui/composer/forecast_line.h"
#include "ui/composer/input_box.h"
#include "ui/composer/token_counter.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {

constexpr int kColumn = 680;
constexpr int kSideMargin = 44;
/// From this length on a message is sent only once its tokens are counted.
constexpr int kCountFirst = 20000;
/// After the last key; building and tokenizing a long prompt takes longer.
constexpr int kForecastDelayMs = 150;
constexpr int kLongForecastDelayMs = 400;
constexpr int kLongDraft = 8000;

/// Three sliders, drawn: the sign for this chat's settings.
QIcon tuneIcon() {
  return drawnIcon([](QPainter& painter, int side) {
    const Tokens& tokens = Theme::instance().tokens();
    const double unit = side / 16.0;
    painter.setPen(QPen(tokens.muted, 1.4 * unit, Qt::SolidLine, Qt::RoundCap));
    const double knobs[] = {10.5, 5, 11.5};
    for (int i = 0; i < 3; ++i) {
      const double y = (3.5 + 4.5 * i) * unit;
      painter.drawLine(QPointF(1.5 * unit, y), QPointF(14.5 * unit, y));
      painter.setBrush(tokens.panel);
      painter.drawEllipse(QPointF(knobs[i] * unit, y), 1.9 * unit, 1.9 * unit);
    }
  });
}

}  // namespace

Composer::Composer(app::EngineClient& engine, app::Settings& settings, QWidget* parent)
    : QWidget(parent), m_engine(engine), m_settings(settings) {
  auto* outer = new QVBoxLayout(this);
  outer->setContentsMargins(0, 0, 0, 0);
  outer->setSpacing(0);
  auto* line = new QFrame(this);
  line->setProperty("kind", "line");
  line->setFixedHeight(1);
  outer->addWidget(line);
  auto* row = new QHBoxLayout;
  row->setContentsMargins(kSideMargin, 12, kSideMargin, 14);
  outer->addLayout(row);
  row->addStretch(1);
  m_column = new QWidget(this);
  row->addWidget(m_column, 1000);
  row->addStretch(1);
  auto* column = new QVBoxLayout(m_column);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(8);

  m_noticeCard = new QFrame(m_column);
  m_noticeCard->setProperty("kind", "card");
  auto* notice = new QHBoxLayout(m_noticeCard);
  notice->setContentsMargins(12, 8, 8, 8);
  m_notice = new PlainLabel(LabelStyle::kBody, m_noticeCard);
  m_notice->setWordWrap(true);
  notice->addWidget(m_notice, 1);
  m_noticeContext = new QPushButton(tr("What would leave…"), m_noticeCard);
  m_noticeContext->setObjectName("noticeContext");
  m_noticeNewChat = new QPushButton(tr("New chat with this text"), m_noticeCard);
  notice->addWidget(m_noticeContext);
  notice->addWidget(m_noticeNewChat);
  auto* dismiss = new QPushButton(QStringLiteral("✕"), m_noticeCard);
  dismiss->setProperty("kind", "quiet");
  dismiss->setAccessibleName(tr("Close this message"));
  notice->addWidget(dismiss);
  m_noticeCard->hide();
  column->addWidget(m_noticeCard);

  m_card = new QFrame(m_column);
  m_card->setProperty("kind", "composer");
  column->addWidget(m_card);
  auto* card = new QVBoxLayout(m_card);
  card->setContentsMargins(13, 11, 12, 10);
  card->setSpacing(8);
  m_chips = new QWidget(m_card);
  m_chipsLayout = new QHBoxLayout(m_chips);
  m_chipsLayout->setContentsMargins(0, 0, 0, 0);
  m_chipsLayout->setSpacing(8);
  m_chips->hide();
  card->addWidget(m_chips);
  m_input = new InputBox(m_card);
  m_input->setAccessibleName(tr("Message"));
  m_input->setPlaceholderText(tr("Write a message"));
  card->addWidget(m_input);
  auto* below = new QHBoxLayout;
  below->setSpacing(8);
  m_forecast = new ForecastLine(m_card);
  below->addWidget(m_forecast, 1);
  m_hint = new PlainLabel(tr("Enter to send"), LabelStyle::kMuted, m_card);
  below->addWidget(m_hint);
  m_tune = new QToolButton(m_card);
  m_tune->setToolTip(tr("System prompt and sampling of this chat"));
  m_tune->setAccessibleName(tr("Chat settings"));
  m_tune->setFocusPolicy(Qt::StrongFocus);
  below->addWidget(m_tune);
  m_send = new QPushButton(tr("Send"), m_card);
  m_send->setProperty("kind", "primary");
  m_stop = new QPushButton(tr("Stop"), m_card);
  m_stop->setAccessibleName(tr("Stop the answer"));
  m_stop->setToolTip(tr("Stop the answer (Esc)"));
  m_stop->hide();
  below->addWidget(m_send);
  below->addWidget(m_stop);
  card->addLayout(below);
  setFocusProxy(m_input);

  m_counter = new TokenCounter(this);
  connect(m_counter, &TokenCounter::counted, this, [this](int tokens) {
    m_draftTokens = tokens;
    updateForecast();
    if (std::exchange(m_sendWhenCounted, false)) submit();
  });
  m_forecastDelay.setSingleShot(true);
  connect(&m_forecastDelay, &QTimer::timeout, this, &Composer::askForecast);
  connect(&engine, &app::EngineClient::forecastReady, this,
          [this](quint64 id, const engine::Forecast& forecast) {
            if (m_chatlessRequest == 0 || id != m_chatlessRequest) return;
            m_chatlessRequest = 0;
            m_answer = forecast;
            m_refusal.clear();
            updateForecast();
          });
  connect(m_input, &QPlainTextEdit::textChanged, this, &Composer::onTextChanged);
  connect(m_input, &InputBox::heightChanged, this, &Composer::layoutInput);
  connect(m_input, &InputBox::sendRequested, this, &Composer::submit);
  connect(m_input, &InputBox::cancelRequested, this, [this] {
    if (m_session && m_session->isRunning()) emit stopRequested();
  });
  connect(m_input, &InputBox::largePaste, this, &Composer::addAttachment);
  connect(m_send, &QPushButton::clicked, this, &Composer::submit);
  connect(m_stop, &QPushButton::clicked, this, &Composer::stopRequested);
  connect(m_tune, &QToolButton::clicked, this, &Composer::openChatSettings);
  connect(dismiss, &QPushButton::clicked, this, [this] { showNotice({}); });
  connect(m_noticeContext, &QPushButton::clicked, this, &Composer::contextWanted);
  connect(m_noticeNewChat, &QPushButton::clicked, this, [this] { emit newChatWanted(draft()); });
  connect(&engine, &app::EngineClient::modelLoaded, this, &Composer::countDraft);
  connect(&engine, &app::EngineClient::modelUnloaded, this, &Composer::countDraft);
  connect(&Theme::instance(), &Theme::changed, this, &Composer::applyTheme);
  applyTheme();
  updateForecast();
}

Composer::~Composer() = default;

void Composer::applyTheme() {
  const Theme& theme = Theme::instance();
  m_column->setMaximumWidth(theme.px(kColumn));
  m_tune->setIcon(tuneIcon());
  m_tune->setIconSize(QSize(theme.px(16), theme.px(16)));
  m_tune->setFixedSize(theme.px(30), theme.px(30));
  layoutInput();
}

void Composer::layoutInput() {
  const int width = m_input->viewport()->width();
  m_input->setFixedHeight(m_input->heightAt(std::max(100, width)));
}

void Composer::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  m_hint->setVisible(width() > Theme::instance().px(520));
  // The column's layout has not run yet.
  QMetaObject::invokeMethod(this, &Composer::layoutInput, Qt::QueuedConnection);
}

void Composer::setSession(app::ChatSession* session) {
  const app::ConversationId id = session ? session->conversation().id : 0;
  if (m_session) disconnect(m_session, nullptr, this, nullptr);
  m_session = session;
  if (id != m_conversation) {
    const Draft left{m_input->toPlainText(), m_attachments};
    if (left.text.isEmpty() && left.attachments.isEmpty()) {
      m_drafts.remove(m_conversation);
    } else {
      m_drafts[m_conversation] = left;
    }
    m_conversation = id;
    const Draft kept = m_drafts.value(id);
    m_attachments = kept.attachments;
    m_input->setPlainText(kept.text);
    m_input->moveCursor(QTextCursor::End);
    rebuildChips();
    showNotice({});
    dropForecast();
  }
  if (session) {
    connect(session, &app::ChatSession::forecastReady, this,
            [this](const engine::Forecast& forecast) {
              m_answer = forecast;
              m_refusal.clear();
              updateForecast();
            });
    connect(session, &app::ChatSession::forecastFailed, this, [this](const engine::Error& error) {
      if (error.code == engine::ErrorCode::kCancelled) return;
      m_answer.reset();
      m_refusal = app::toQString(error.message);
      updateForecast();
    });
    connect(session, &app::ChatSession::phaseChanged, this, &Composer::refresh);
    connect(session, &app::ChatSession::contextUsage, this, &Composer::updateForecast);
    connect(session, &app::ChatSession::pathReset, this, &Composer::countDraft);
    connect(session, &app::ChatSession::conversationChanged, this, &Composer::countDraft);
  }
  countDraft();
  refresh();
}

void Composer::adoptDraftBy(app::ChatSession* session) {
  m_drafts.remove(m_conversation);
  m_conversation = session->conversation().id;
}

QString Composer::draft() const {
  QStringList parts = m_attachments;
  const QString text = m_input->toPlainText();
  if (!text.trimmed().isEmpty()) parts << text;
  return parts.join(QStringLiteral("\n\n"));
}

int Composer::draftSize() const {
  qsizetype size = m_input->document()->characterCount() - 1;
  for (const QString& text : m_attachments) size += text.size();
  return int(size);
}

void Composer::setDraft(const QString& text) {
  m_attachments.clear();
  if (text.size() > InputBox::kMostCharacters) {
    m_input->clear();
    m_attachments << text;
  } else {
    m_input->setPlainText(text);
    m_input->moveCursor(QTextCursor::End);
  }
  rebuildChips();
  countDraft();
}

void Composer::clearDraft() {
  m_attachments.clear();
  m_input->clear();
  m_drafts.remove(m_conversation);
  rebuildChips();
  showNotice({});
  countDraft();
}

QByteArray Composer::saveDrafts() const {
  QJsonObject all;
  for (auto it = m_drafts.begin(); it != m_drafts.end(); ++it) {
    if (it.key() == m_conversation) continue;
    QStringList parts = it->attachments;
    if (!it->text.trimmed().isEmpty()) parts << it->text;
    all[QString::number(it.key())] = parts.join(QStringLiteral("\n\n"));
  }
  if (draftSize() > 0) all[QString::number(m_conversation)] = draft();
  return QJsonDocument(all).toJson(QJsonDocument::Compact);
}

void Composer::restoreDrafts(const QByteArray& saved) {
  const QJsonObject all = QJsonDocument::fromJson(saved).object();
  for (auto it = all.begin(); it != all.end(); ++it) {
    const app::ConversationId id = it.key().toLongLong();
    const QString text = it.value().toString();
    if (id == m_conversation) {
      setDraft(text);
    } else if (text.size() > InputBox::kMostCharacters) {
      m_drafts[id] = {QString(), {text}};
    } else {
      m_drafts[id] = {text, {}};
    }
  }
}

void Composer::focusInput() {
  m_input->setFocus();
}

void Composer::onTextChanged() {
  countDraft();
}

void Composer::addAttachment(const QString& text) {
  m_attachments << text;
  rebuildChips();
  countDraft();
}

void Composer::rebuildChips() {
  while (QLayoutItem* item = m_chipsLayout->takeAt(0)) {
    if (QWidget* widget = item->widget()) {
      widget->hide();
      widget->deleteLater();
    }
    delete item;
  }
  for (int i = 0; i < m_attachments.size(); ++i) {
    auto* chip = new QFrame(m_chips);
    chip->setProperty("kind", "chip");
    auto* layout = new QHBoxLayout(chip);
    layout->setContentsMargins(10, 0, 2, 0);
    layout->setSpacing(2);
    auto* show = new QPushButton(
        tr("Pasted text · %1 characters").arg(countText(m_attachments[i].size())), chip);
    show->setProperty("kind", "quiet");
    show->setToolTip(tr("Show this text"));
    connect(show, &QPushButton::clicked, this,
            [this, i] { showTextDialog(window(), tr("Pasted text"), m_attachments.value(i)); });
    layout->addWidget(show);
    auto* remove = new QPushButton(QStringLiteral("✕"), chip);
    remove->setProperty("kind", "quiet");
    remove->setAccessibleName(tr("Remove pasted text"));
    connect(remove, &QPushButton::clicked, this, [this, i] {
      m_attachments.removeAt(i);
      rebuildChips();
      countDraft();
    });
    layout->addWidget(remove);
    m_chipsLayout->addWidget(chip);
  }
  m_chipsLayout->addStretch(1);
  m_chips->setVisible(!m_attachments.isEmpty());
}

void Composer::countDraft() {
  m_draftTokens = -1;
  if (draftSize() == 0) {
    m_draftTokens = 0;
    m_sendWhenCounted = false;
    m_counter->count(nullptr, {});
    dropForecast();
  } else {
    m_counter->count(m_engine.model(), draft());
    m_forecastDelay.start(draftSize() > kLongDraft ? kLongForecastDelayMs : kForecastDelayMs);
  }
  updateForecast();
}

void Composer::refresh() {
  const bool running = m_session && m_session->isRunning();
  m_stop->setVisible(running);
  m_send->setVisible(!running);
  m_hint->setText(running ? tr("Esc to stop") : tr("Enter to send"));
  if (running) {
    dropForecast();  // the history is still being written
  } else if (draftSize() > 0) {
    m_forecastDelay.start(kForecastDelayMs);
  }
  updateForecast();
}

void Composer::showNotice(const QString& text) {
  m_noticeIsForecast = false;
  m_notice->setText(text);
  m_noticeContext->hide();
  m_noticeNewChat->hide();
  m_noticeCard->setVisible(!text.isEmpty());
}

QString Composer::notice() const {
  return m_noticeCard->isHidden() ? QString() : m_notice->text();
}

void Composer::submit() {
  if (m_session && m_session->isRunning()) return;
  if (draftSize() == 0) return;
  const app::ModelInfoPtr info = m_engine.info();
  if (info && m_draftTokens < 0 && draftSize() > kCountFirst) {
    m_sendWhenCounted = true;
    showNotice(tr("Counting the tokens of this message before it is sent …"));
    return;
  }
  if (info && m_draftTokens >= info->contextTokens) {
    updateForecast();
    return;  // the notice says why; the text stays
  }
  const QString text = draft();
  if (text.trimmed().isEmpty()) return;
  emit sendRequested(text);
}

void Composer::openChatSettings() {
  auto* dialog = new ChatSettingsDialog(m_session, m_engine, m_settings, window());
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->open();
}

}  // namespace vitrine::ui

#include "ui/chat/chat_view.h"

#include <QApplication>
#include <QClipboard>
#include <QStackedWidget>
#include <QVBoxLayout>
#include <utility>

#include "app/chat/engine_client.h"
#include "app/chat/session_pool.h"
#include "app/settings.h"
#include "app/store/conversation_store.h"
#include "app/text.h"
#include "ui/chat/empty_state.h"
#include "ui/chat/find_bar.h"
#include "ui/chat/message_item.h"
#include "ui/chat/transcript.h"
#include "ui/common/cache_words.h"
#include "ui/common/toast.h"
#include "ui/composer/composer.h"
#include "ui/markdown/text_view.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

ChatView::ChatView(Services services, QWidget* parent)
    : QWidget(parent),
      m_store(services.store),
      m_pool(services.pool),
      m_engine(services.engine),
      m_settings(services.settings) {
  setProperty("kind", "chat");
  setAttribute(Qt::WA_StyledBackground);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  m_pages = new QStackedWidget(this);
  m_transcript = new Transcript(m_pages);
  m_empty = new EmptyState(m_pages);
  m_pages->addWidget(m_empty);
  m_pages->addWidget(m_transcript);
  layout->addWidget(m_pages, 1);
  m_composer = new Composer(m_engine, m_settings, this);
  layout->addWidget(m_composer);
  m_find = new FindBar(this);

  connect(m_composer, &Composer::sendRequested, this, &ChatView::send);
  connect(m_composer, &Composer::stopRequested, this, &ChatView::stop);
  connect(m_composer, &Composer::newChatWanted, this, [this](const QString& text) {
    app::ChatSession* fresh = m_pool.createConversation();
    if (!fresh) return;
    m_composer->clearDraft();
    emit sessionStarted(fresh);
    m_composer->setDraft(text);
  });
  connect(m_composer, &Composer::contextWanted, this, &ChatView::contextWanted);
  connect(m_empty, &EmptyState::starterChosen, this, [this](const QString& text) {
    m_composer->setDraft(text);
    m_composer->focusInput();
  });
  connect(m_empty, &EmptyState::modelWanted, this, &ChatView::modelWanted);

  connect(m_transcript, &Transcript::linkChosen, this,
          [this](const QString& target) { askAndOpenLink(window(), target); });
  connect(m_transcript, &Transcript::copied, this,
          [this] { Toast::of(this)->showMessage(tr("Copied"), 1500); });
  connect(m_transcript, &Transcript::regenerateRequested, this, [this](app::MessageId id) {
    if (m_session) report(m_session->regenerate(id));
  });
  connect(m_transcript, &Transcript::pinRequested, this, [this](app::MessageId id, bool pinned) {
    if (m_session) report(m_session->setPinned(id, pinned));
  });
  connect(m_transcript, &Transcript::editAccepted, this,
          [this](app::MessageId id, const QString& text) {
            m_composer->focusInput();
            if (m_session) report(m_session->edit(id, text));
          });
  connect(m_transcript, &Transcript::branchRequested, this, [this](app::MessageId id, int step) {
    if (m_session) report(m_session->selectBranch(id, step));
  });
  connect(m_transcript, &Transcript::wayOutChosen, this, &ChatView::resolve);
  connect(m_transcript, &Transcript::cacheProofRequested, this, [this] {
    if (!m_session) return;
    const engine::Result<void> asked = m_session->verifyCache();
    report(asked);
    m_tellProof = bool(asked);
    if (asked) emit cacheProofStarted();
  });
  connect(m_transcript, &Transcript::firstTextPainted, this, [this] {
    if (m_session && m_session->lastRequest() != 0) {
      m_engine.reportFirstPaint(m_session->lastRequest());
    }
  });

  connect(m_find, &FindBar::textChanged, this, &ChatView::find);
  connect(m_find, &FindBar::stepRequested, this, &ChatView::stepFind);
  connect(m_find, &FindBar::closed, this, [this] {
    m_transcript->setHighlight({}, -1, -1);
    m_composer->focusInput();
  });

  connect(&m_engine, &app::EngineClient::loadStarted, this, [this] {
    m_loadStage.clear();
    m_loadFraction = 0;
    updatePages();
  });
  connect(&m_engine, &app::EngineClient::loadProgressed, this,
          [this](quint64, const QString& stage, double fraction) {
            m_loadStage = stage;
            m_loadFraction = fraction;
            updatePages();
          });
  connect(&m_engine, &app::EngineClient::modelUnloaded, this, &ChatView::updatePages);
  connect(&m_engine, &app::EngineClient::modelLoaded, this, &ChatView::updatePages);
  connect(&m_engine, &app::EngineClient::loadFailed, this, &ChatView::updatePages);
  setFocusProxy(m_composer);
  updatePages();
}

void ChatView::setSession(app::ChatSession* session) {
  if (session == m_session && session) return;
  if (m_session) disconnect(m_session, nullptr, this, nullptr);
  m_session = session;
  m_transcript->setSession(session);
  m_composer->setSession(session);
  if (session) {
    connect(session, &app::ChatSession::pathReset, this, &ChatView::updatePages);
    connect(session, &app::ChatSession::messageAdded, this, &ChatView::updatePages);
    connect(session, &app::ChatSession::cacheProofChanged, this, &ChatView::showCacheProof);
    connect(session, &app::ChatSession::storeFailed, this,
            [this](const QString& message) { Toast::of(this)->showMessage(message, 10000); });
  }
  if (m_find->isVisible()) find(m_find->text());
  updatePages();
}

void ChatView::updatePages() {
  const app::ModelInfoPtr info = m_engine.info();
  m_empty->setModel(info ? app::toQString(info->name) : QString(), m_engine.isLoading(),
                    m_loadStage, m_loadFraction);
  const bool empty = !m_session || m_session->rows().empty();
  m_pages->setCurrentWidget(empty ? static_cast<QWidget*>(m_empty) : m_transcript);
}

void ChatView::report(const engine::Result<void>& result) {
  if (result) return;
  QString message = app::toQString(result.error().message);
  if (!message.isEmpty()) message[0] = message[0].toUpper();
  m_composer->showNotice(message);
}

// Asked for in the transcript, it is answered here, too; the panel may be hidden.
void ChatView::showCacheProof() {
  if (!m_session || m_session->cacheProof().running) return;
  const app::CacheProofState& proof = m_session->cacheProof();
  if (!std::exchange(m_tellProof, false) || proof.cancelled) return;
  QString words = proof.result ? proofText(*proof.result) : proof.error;
  if (words.isEmpty()) return;
  words[0] = words[0].toUpper();
  Toast::of(this)->showMessage(words, 8000);
}

void ChatView::send(const QString& text) {
  if (!m_engine.info() && !m_engine.isLoading()) {
    m_composer->showNotice(tr("No model is loaded. Your text stays here while you choose one."));
    emit modelWanted();
    return;
  }
  const bool starts = !m_session;
  app::ChatSession* session = starts ? m_pool.createConversation() : m_session.data();
  if (!session) {
    m_composer->showNotice(tr("The conversation could not be stored; your text stays here."));
    return;
  }
  if (starts) m_composer->adoptDraftBy(session);
  if (starts) emit sessionStarted(session);
  const engine::Result<void> result = session->send(text);
  if (result) {
    m_composer->clearDraft();
  } else {
    report(result);
  }
}

void ChatView::resolve(app::WayOut way, app::MessageId message) {
  if (!m_session) return;
  switch (way) {
    case app::WayOut::kNewConversation: {
      const QString text = m_session->failure() ? m_session->failure()->typedText : QString();
      app::ChatSession* fresh = m_pool.createConversation();
      if (!fresh) return;
      emit sessionStarted(fresh);
      m_composer->setDraft(text);
      m_composer->focusInput();
      return;
    }
    case app::WayOut::kEditMessage:
      editLast();
      return;
    case app::WayOut::kLoadModel:
      emit modelWanted();
      return;
    case app::WayOut::kRetry:
      // A failure from an earlier run of the program has no turn any more.
      report(m_session->failure() ? m_session->resolve(way) : m_session->regenerate(message));
      return;
    default:
      report(m_session->resolve(way));
  }
}

void ChatView::stop() {
  if (m_session) m_session->stop();
}

void ChatView::regenerateLast() {
  if (!m_session || m_session->rows().empty()) return;
  report(m_session->regenerate(m_session->rows().back().message.id));
}

void ChatView::editLast() {
  m_transcript->editLastQuestion();
}

void ChatView::copyLastAnswer() {
  if (!m_session) return;
  const auto& rows = m_session->rows();
  for (int row = int(rows.size()) - 1; row >= 0; --row) {
    if (rows[row].message.role == app::Role::kAssistant && !rows[row].message.text.isEmpty()) {
      m_transcript->copyRow(row);
      return;
    }
  }
}

// ---------------------------------------------------------------- find

void ChatView::openFind() {
  if (!m_session || m_session->rows().empty()) return;
  placeFindBar();
  m_find->open();
}

void ChatView::find(const QString& text) {
  m_occurrences.clear();
  m_occurrence = -1;
  if (m_session && !text.isEmpty()) {
    const auto& rows = m_session->rows();
    for (int row = 0; row < int(rows.size()) && m_occurrences.size() < 5000; ++row) {
      const qsizetype count = rows[row].message.text.count(text, Qt::CaseInsensitive);
      for (int i = 0; i < count; ++i) m_occurrences.push_back({row, i});
    }
    if (!m_occurrences.empty()) m_occurrence = int(m_occurrences.size()) - 1;
  }
  const Occurrence at = m_occurrence < 0 ? Occurrence{-1, -1} : m_occurrences[m_occurrence];
  m_transcript->setHighlight(text, at.row, at.index);
  m_find->setResult(m_occurrence, int(m_occurrences.size()));
}

void ChatView::stepFind(int step) {
  const int count = int(m_occurrences.size());
  if (count == 0) return;
  m_occurrence = (m_occurrence + step + count) % count;
  m_transcript->setHighlight(m_find->text(), m_occurrences[m_occurrence].row,
                             m_occurrences[m_occurrence].index);
  m_find->setResult(m_occurrence, count);
}

void ChatView::placeFindBar() {
  const Theme& theme = Theme::instance();
  const int barWidth = std::min(width() - 2 * theme.px(16), theme.px(380));
  m_find->setGeometry(width() - barWidth - theme.px(54), theme.px(8), barWidth,
                      m_find->sizeHint().height());
}

void ChatView::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  placeFindBar();
}

}  // namespace vitrine::ui

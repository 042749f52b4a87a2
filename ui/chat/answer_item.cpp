#include "ui/chat/answer_item.h"

#include <QFrame>
#include <QHBoxLayout>
#include <QMenu>
#include <QPainter>
#include <QPushButton>
#include <QVBoxLayout>

#include "ui/chat/action_button.h"
#include "ui/chat/why_popover.h"
#include "ui/common/cache_words.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/markdown/markdown_view.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {

constexpr int kStatusHeight = 22;
constexpr int kBarHeight = 18;
constexpr int kActionsHeight = 24;

}  // namespace

QString wayOutText(app::WayOut way) {
  switch (way) {
    case app::WayOut::kRetry:
      return AnswerItem::tr("Try again");
    case app::WayOut::kMergeSystemPrompt:
      return AnswerItem::tr("Put it before the first message");
    case app::WayOut::kDropSystemPrompt:
      return AnswerItem::tr("Leave the system prompt out");
    case app::WayOut::kDropOldestTurns:
      return AnswerItem::tr("Leave out the oldest turns");
    case app::WayOut::kNewConversation:
      return AnswerItem::tr("New chat with this text");
    case app::WayOut::kEditMessage:
      return AnswerItem::tr("Edit the message");
    case app::WayOut::kRunOnCpu:
      return AnswerItem::tr("Run on the CPU");
    case app::WayOut::kLoadModel:
      return AnswerItem::tr("Choose a model…");
  }
  return {};
}

AnswerItem::AnswerItem(QWidget* parent) : MessageItem(parent) {
  m_view = new MarkdownView(this);
  m_view->installEventFilter(this);
  m_bar = new TurnBar(this);
  m_previous = addAction(QStringLiteral("‹"), tr("Previous answer"));
  m_next = addAction(QStringLiteral("›"), tr("Next answer"));
  m_copy = addAction(tr("Copy"), tr("Copy this answer as it was written"));
  m_edit = addAction(tr("Edit"), tr("Edit the question of this answer"));
  m_regenerate = addAction(tr("Regenerate"), tr("Write another answer, as a branch"));
  addPinAction();
  m_why = addAction(QString(), tr("Why tokens had to be computed"));
  m_reason = new PlainLabel(LabelStyle::kMuted, this);
  m_reason->setWordWrap(true);
  m_reason->hide();
  m_previous->setAlwaysShown();
  m_next->setAlwaysShown();
  connect(m_previous, &QPushButton::clicked, this, [this] { emit branchRequested(-1); });
  connect(m_next, &QPushButton::clicked, this, [this] { emit branchRequested(1); });
  connect(m_copy, &QPushButton::clicked, this, &MessageItem::copyRequested);
  connect(m_edit, &QPushButton::clicked, this, &MessageItem::editRequested);
  connect(m_regenerate, &QPushButton::clicked, this, &MessageItem::regenerateRequested);
  connect(m_why, &QPushButton::clicked, this, [this] { showWhy(); });
  connect(m_view, &TextView::menuRequested, this, &AnswerItem::showMenu);
  connect(m_view, &TextView::linkChosen, this, &MessageItem::linkChosen);
  connect(m_view, &MarkdownView::firstTextPainted, this, &AnswerItem::firstTextPainted);
}

TextView* AnswerItem::textView() const {
  return m_view;
}

void AnswerItem::setRow(const app::MessageRow& row, bool running) {
  m_id = row.message.id;
  m_branchIndex = row.branchIndex;
  m_branchCount = row.branchCount;
  m_inContext = row.inContext;
  // The first text of a turn may come with its end.
  if (running && !m_running) m_paintDue = true;
  m_running = running;
  showInContext(m_inContext);
  showPinned(row.message.pinned);
  m_view->setSource(row.message.text);
  m_view->setStreaming(running && !row.message.text.isEmpty());
  m_view->setVisible(!row.message.text.isEmpty());
  if (m_paintDue && !row.message.text.isEmpty()) {
    m_paintDue = false;
    m_view->announceNextPaint();
  }
  if (!running) m_phase = app::TurnPhase::kIdle;

  const bool known = row.metrics.known();
  m_showsBar = known || running;
  m_bar->setVisible(m_showsBar);
  if (!running && known) {
    TurnBar::Figures figures = TurnBar::figuresOf(row.metrics);
    if (row.message.state == app::MessageState::kStopped && figures.note.isEmpty()) {
      figures.note = tr("stopped");
    }
    m_bar->setFigures(figures);
    const engine::TurnReport& report = row.metrics.report;
    m_report = {};
    m_report.reusedTokens = report.reusedTokens;
    m_report.prefilledTokens = report.prefilledTokens;
    m_report.reuse = report.reuse;
    m_report.restore = report.restore;
    m_why->setText(tr("Why %1 prefilled?").arg(countText(figures.prefilled)));
    // One line where something cached was lost or came back; the rest is behind the button.
    QString line = reuseText(report);
    if (const QString restore = restoreText(report.restore); !restore.isEmpty()) {
      line += QStringLiteral("; ") + restore;
    }
    m_reason->setText(line);
    m_reason->setVisible(isNews(report));
    m_why->setVisible(true);
  } else {
    m_why->hide();
    m_reason->hide();
  }
  m_copy->setVisible(!row.message.text.isEmpty());
  m_edit->setVisible(!running);
  m_pin->setVisible(!row.message.text.isEmpty());
  m_regenerate->setVisible(!running);
  m_previous->setVisible(m_branchCount > 1);
  m_next->setVisible(m_branchCount > 1);
  m_previous->setEnabled(m_branchIndex > 0 && !running);
  m_next->setEnabled(m_branchIndex + 1 < m_branchCount && !running);
  if (row.message.state != app::MessageState::kFailed) clearFailure();
  if (row.message.state == app::MessageState::kFailed && !running && !m_failure) {
    setFailure(row.message.error, {});
  }
  updateRevealed();
  update();
}

void AnswerItem::setLive(app::TurnPhase phase, const TurnBar::Figures& figures) {
  m_phase = phase;
  m_bar->setFigures(figures);
  update(m_status);
}

void AnswerItem::clearFailure() {
  if (!m_failure) return;
  m_failure->hide();
  m_failure->deleteLater();
  m_failure = nullptr;
}

void AnswerItem::setFailure(const QString& message, const std::vector<app::WayOut>& ways) {
  clearFailure();
  const Theme& theme = Theme::instance();
  m_failure = new QFrame(this);
  m_failure->setProperty("kind", "card");
  m_failure->setAccessibleName(tr("The answer failed"));
  auto* layout = new QVBoxLayout(m_failure);
  layout->setContentsMargins(theme.px(14), theme.px(12), theme.px(14), theme.px(12));
  layout->setSpacing(theme.px(8));
  layout->addWidget(new PlainLabel(tr("No answer this time"), LabelStyle::kFault, m_failure));
  auto* text = new PlainLabel(message, LabelStyle::kBody, m_failure);
  text->setWordWrap(true);
  text->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  layout->addWidget(text);
  auto* buttons = new QHBoxLayout;
  buttons->setSpacing(theme.px(8));
  std::vector<app::WayOut> offered = ways;
  if (offered.empty()) offered.push_back(app::WayOut::kRetry);
  for (const app::WayOut way : offered) {
    auto* button = new QPushButton(wayOutText(way), m_failure);
    connect(button, &QPushButton::clicked, this, [this, way] { emit wayOutChosen(way); });
    buttons->addWidget(button);
  }
  buttons->addStretch();
  layout->addLayout(buttons);
  m_failure->show();
}

QString AnswerItem::statusText() const {
  const TurnBar::Figures& figures = m_bar->figures();
  switch (m_phase) {
    case app::TurnPhase::kWaiting:
      return tr("Waiting for the engine …");
    case app::TurnPhase::kPrefilling: {
      if (figures.prefillTotal <= 0) return tr("Reading …");
      // Figures keep their width, so that nothing jumps.
      const int percent = 100 * figures.prefilled / figures.prefillTotal;
      QString text = tr("Reading %1 · %2 %")
                         .arg(pluralText(figures.prefillTotal, tr("%1 token"), tr("%1 tokens")))
                         .arg(percent, 2, 10, QChar(0x2007));
      if (figures.remainingMs >= 0) {
        text += tr(" · ≈ %1 s left").arg(figures.remainingMs / 1000.0, 0, 'f', 1);
      }
      return text;
    }
    case app::TurnPhase::kAnswering:
      return tr("Writing …");
    case app::TurnPhase::kIdle:
      break;
  }
  return {};
}

void AnswerItem::showWhy() {
  (new WhyPopover(m_report, this))->openBelow(m_why);
}

int AnswerItem::layoutFor(int width) {
  const Theme& theme = Theme::instance();
  int y = 0;
  m_status = {};
  if (!m_view->isHidden()) {
    const int height = m_view->heightAt(width);
    m_view->setGeometry(0, 0, width, height);
    y += height + theme.px(7);
  } else if (m_running) {
    m_status = QRect(0, 0, width, theme.px(kStatusHeight));
    y += m_status.height() + theme.px(7);
  }
  if (m_failure) {
    const int height = m_failure->layout()->hasHeightForWidth()
                           ? m_failure->layout()->heightForWidth(width)
                           : m_failure->sizeHint().height();
    m_failure->setGeometry(0, y, width, height);
    y += height + theme.px(7);
  }
  if (m_showsBar) {
    m_bar->setGeometry(0, y, width, theme.px(kBarHeight));
    y += theme.px(kBarHeight);
  }
  if (!m_reason->isHidden()) {
    const int height = m_reason->heightForWidth(width);
    m_reason->setGeometry(0, y + theme.px(2), width, height);
    y += height + theme.px(4);
  }
  // The first action's text stands flush with the column.
  int x = -theme.px(6);
  y += theme.px(2);
  for (ActionButton* action : m_actions) {
    if (action->isHidden()) continue;
    if (action == m_next) {
      const QString place = tr("%1 / %2").arg(m_branchIndex + 1).arg(m_branchCount);
      x += QFontMetrics(theme.textFont(12)).horizontalAdvance(place);
    }
    const int actionWidth = action->sizeHint().width();
    action->setGeometry(x, y, actionWidth, theme.px(22));
    x += actionWidth + (action == m_previous ? 0 : theme.px(4));
  }
  return placeLeftOutLine(width, y + theme.px(kActionsHeight));
}

void AnswerItem::paintEvent(QPaintEvent*) {
  const Theme& theme = Theme::instance();
  const Tokens& t = theme.tokens();
  QPainter painter(this);
  if (!m_status.isNull()) {
    painter.setFont(theme.textFont());
    painter.setPen(t.muted);
    painter.drawText(m_status, Qt::AlignVCenter | Qt::AlignLeft, statusText());
  }
  if (m_branchCount > 1) {
    painter.setFont(theme.textFont(12));
    painter.setPen(t.muted);
    const int left = m_previous->geometry().right();
    painter.drawText(QRect(left, m_previous->y(), m_next->x() - left, m_previous->height()),
                     Qt::AlignCenter, tr("%1 / %2").arg(m_branchIndex + 1).arg(m_branchCount));
  }
}

void AnswerItem::fillMenu(QMenu* menu) {
  menu->addAction(tr("Why was this prefilled?"), this, &AnswerItem::showWhy)
      ->setEnabled(!m_running && m_showsBar);
  menu->addAction(tr("Verify this chat's cache"), this, &MessageItem::cacheProofRequested)
      ->setEnabled(!m_running);
  menu->addAction(tr("Edit question"), this, &MessageItem::editRequested)->setEnabled(!m_running);
  menu->addAction(tr("Regenerate"), this, &MessageItem::regenerateRequested)
      ->setEnabled(!m_running);
}

}  // namespace vitrine::ui

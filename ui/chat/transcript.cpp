#include "ui/chat/transcript.h"

#include <QApplication>
#include <QClipboard>
#include <QFrame>
#include <QKeyEvent>
#include <QPainter>
#include <QPushButton>
#include <QScrollBar>
#include <algorithm>

#include "ui/chat/answer_item.h"
#include "ui/chat/user_item.h"
#include "ui/markdown/text_view.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {

constexpr int kColumn = 680;
constexpr int kSideMargin = 44;
constexpr int kTopMargin = 22;
constexpr int kBottomMargin = 20;
constexpr int kStreamShare = 4;  // drawing an answer may take a quarter of the thread's time

}  // namespace

Transcript::Transcript(QWidget* parent) : QAbstractScrollArea(parent) {
  setFrameShape(QFrame::NoFrame);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOn);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Conversation"));
  viewport()->setAutoFillBackground(false);
  m_toEnd = new QPushButton(tr("↓ Latest"), this);
  m_toEnd->setProperty("kind", "chip");
  m_toEnd->setAccessibleName(tr("Go to the latest message"));
  m_toEnd->hide();
  connect(m_toEnd, &QPushButton::clicked, this, &Transcript::scrollToEnd);
  m_liveTimer.setSingleShot(true);
  connect(&m_liveTimer, &QTimer::timeout, this, &Transcript::updateLive);
  m_streamTimer.setSingleShot(true);
  connect(&m_streamTimer, &QTimer::timeout, this, &Transcript::updateStreamingRow);
  // Queued: the items take their own fonts first.
  connect(&Theme::instance(), &Theme::changed, this, &Transcript::applyTheme, Qt::QueuedConnection);
  applyTheme();
}

Transcript::~Transcript() = default;

void Transcript::applyTheme() {
  verticalScrollBar()->setSingleStep(Theme::instance().px(40));
  for (Slot& slot : m_slots) slot.measured = false;
  relayout();
  viewport()->update();
}

void Transcript::resetSlots() {
  // A branch switch keeps the place of the messages that both paths share.
  const int scroll = verticalScrollBar()->value();
  const bool follow = m_follow || !m_session;
  // The keyboard stays where it was: on the same button of the same row, if it is there again.
  QWidget* focus = QApplication::focusWidget();
  int focusRow = -1;
  QString focusName;
  for (int row = 0; row < int(m_slots.size()); ++row) {
    if (m_slots[row].item && focus && m_slots[row].item->isAncestorOf(focus)) {
      focusRow = row;
      focusName = focus->accessibleName();
    }
  }
  if (focusRow >= 0) setFocus();
  for (Slot& slot : m_slots) {
    if (slot.item) {
      slot.item->hide();
      slot.item->deleteLater();
    }
  }
  const app::MessageId firstBefore = m_slots.empty() ? 0 : m_slots.front().id;
  m_slots.clear();
  if (m_session) {
    for (int row = 0; row < int(m_session->rows().size()); ++row) addSlot(row);
  }
  const bool samePath = !m_slots.empty() && m_slots.front().id == firstBefore;
  m_follow = samePath ? follow : true;
  relayout();
  if (samePath && !follow) {
    verticalScrollBar()->setValue(std::min(scroll, verticalScrollBar()->maximum()));
  }
  if (focusRow >= 0 && focusRow < int(m_slots.size()) && m_slots[focusRow].item) {
    for (auto* button : m_slots[focusRow].item->findChildren<QAbstractButton*>()) {
      if (button->accessibleName() == focusName && button->isEnabled()) button->setFocus();
    }
  }
}

void Transcript::addSlot(int row) {
  const app::MessageRow& message = m_session->rows()[row];
  Slot slot;
  slot.id = message.message.id;
  slot.isUser = message.message.role != app::Role::kAssistant;
  slot.height = estimate(message);
  m_slots.insert(m_slots.begin() + std::min<std::size_t>(row, m_slots.size()), slot);
}

int Transcript::columnWidth() const {
  const Theme& theme = Theme::instance();
  return std::max(theme.px(240),
                  std::min(theme.px(kColumn), viewport()->width() - 2 * theme.px(kSideMargin)));
}

int Transcript::estimate(const app::MessageRow& row) const {
  const Theme& theme = Theme::instance();
  const int width = columnWidth() - (row.message.role == app::Role::kUser ? theme.px(118) : 0);
  const int perLine = std::max(20, width / theme.px(7));
  const qsizetype length = row.message.role == app::Role::kUser
                               ? std::min<qsizetype>(row.message.text.size(), 4000)
                               : row.message.text.size();
  qsizetype lines = 1 + length / perLine;
  for (qsizetype i = 0; i < length; ++i) lines += row.message.text[i] == '\n' ? 1 : 0;
  return theme.px(21) * int(std::min<qsizetype>(lines, 100000)) +
         theme.px(row.message.role == app::Role::kUser ? 20 : 51);
}

int Transcript::gapBefore(int row) const {
  const Theme& theme = Theme::instance();
  if (row == 0) return theme.px(kTopMargin);
  return theme.px(m_slots[row].isUser ? 4 : 16);
}

MessageItem* Transcript::makeItem(int row) {
  Slot& slot = m_slots[row];
  const app::MessageId id = slot.id;
  if (slot.isUser) {
    auto* item = new UserItem(viewport());
    connect(item, &MessageItem::editAccepted, this,
            [this, id](const QString& text) { emit editAccepted(id, text); });
    slot.item = item;
  } else {
    auto* item = new AnswerItem(viewport());
    connect(item, &AnswerItem::firstTextPainted, this, &Transcript::firstTextPainted);
    slot.item = item;
  }
  MessageItem* item = slot.item;
  const auto rowOf = [this, id] {
    const auto found =
        std::find_if(m_slots.begin(), m_slots.end(), [id](const Slot& s) { return s.id == id; });
    return found == m_slots.end() ? -1 : int(found - m_slots.begin());
  };
  connect(item, &MessageItem::copyRequested, this, [this, rowOf] { copyRow(rowOf()); });
  connect(item, &MessageItem::editRequested, this, [this, rowOf] {
    const int question = rowOf() - 1;
    if (question < 0) return;
    showRow(question);
    if (auto* user = qobject_cast<UserItem*>(itemOf(question))) user->beginEdit();
  });
  connect(item, &MessageItem::regenerateRequested, this,
          [this, id] { emit regenerateRequested(id); });
  connect(item, &MessageItem::cacheProofRequested, this, &Transcript::cacheProofRequested);
  connect(item, &MessageItem::pinRequested, this,
          [this, id](bool pinned) { emit pinRequested(id, pinned); });
  connect(item, &MessageItem::branchRequested, this,
          [this, id](int step) { emit branchRequested(id, step); });
  connect(item, &MessageItem::wayOutChosen, this,
          [this, id](app::WayOut way) { emit wayOutChosen(way, id); });
  connect(item, &MessageItem::linkChosen, this, &Transcript::linkChosen);
  connect(item, &MessageItem::heightChanged, this, [this, rowOf] {
    const int changed = rowOf();
    if (changed < 0) return;
    m_slots[changed].measured = false;
    relayout();
  });
  item->hide();  // until it has its place
  fillItem(row);
  return item;
}

void Transcript::fillItem(int row) {
  if (!m_session || row < 0 || row >= int(m_slots.size())) return;
  Slot& slot = m_slots[row];
  slot.measured = false;
  if (!slot.item) return;
  const bool running = m_session->isRunning();
  const bool streams = running && m_session->streamingRow() == row;
  const app::MessageRow& message = m_session->rows()[row];
  slot.item->setRow(message, slot.isUser ? running : streams);
  const bool nextIsIn = row + 1 >= int(m_session->rows().size()) ||
                        m_session->rows()[std::size_t(row) + 1].inContext;
  slot.item->setEndsLeftOut(!message.inContext && nextIsIn);
  if (auto* answer = qobject_cast<AnswerItem*>(slot.item); answer && streams) {
    answer->setLive(m_session->phase(), m_live);
  } else if (answer && m_session->failure() && row + 1 == int(m_slots.size())) {
    const app::TurnFailure& failure = *m_session->failure();
    answer->setFailure(QString::fromStdString(failure.error.message), failure.waysOut);
  }
  slot.item->textView()->highlight(m_needle, row == m_needleRow ? m_needleOccurrence : -1);
}

void Transcript::onMessageChanged(int row) {
  if (!m_session || row < 0 || row >= int(m_slots.size())) return;
  if (row == m_session->streamingRow()) {
    if (m_streamTimer.isActive()) return;
    const qint64 wait =
        m_drawCostMs * kStreamShare -
        (m_sinceDrawn.isValid() ? m_sinceDrawn.elapsed() : m_drawCostMs * kStreamShare);
    if (wait > 0) {
      m_streamTimer.start(int(std::min<qint64>(wait, 2000)));
    } else {
      updateStreamingRow();
    }
    return;
  }
  m_slots[row].id = m_session->rows()[row].message.id;
  fillItem(row);
  if (row > 0) fillItem(row - 1);  // where what was left out ends
  relayout();
}

void Transcript::updateStreamingRow() {
  if (!m_session) return;
  const int row = m_session->streamingRow();
  if (row < 0 || row >= int(m_slots.size())) return;
  QElapsedTimer cost;
  cost.start();
  fillItem(row);
  relayout();
  m_drawCostMs = cost.elapsed();
  m_sinceDrawn.start();
}

void Transcript::updateLive() {
  if (!m_session || !m_session->isRunning()) return;
  const int row = m_session->streamingRow();
  if (row < 0 || row >= int(m_slots.size())) return;
  // Between two steps of the prefill the clock goes on.
  const bool reading = m_session->phase() == app::TurnPhase::kPrefilling && m_remainingMs >= 0;
  m_live.remainingMs = reading ? std::max(0.0, m_remainingMs - double(m_sinceStep.elapsed())) : -1;
  if (reading && m_live.remainingMs > 0 && !m_liveTimer.isActive()) {
    m_liveTimer.start(kLiveIntervalMs);
  }
  if (auto* answer = qobject_cast<AnswerItem*>(m_slots[row].item)) {
    answer->setLive(m_session->phase(), m_live);
  }
}

void Transcript::onFailure() {
  m_streamTimer.stop();
  for (int row = 0; row < int(m_slots.size()); ++row) fillItem(row);
  relayout();
}

void Transcript::relayout() {
  if (m_layingOut) return;
  m_layingOut = true;
  const Theme& theme = Theme::instance();
  const int width = columnWidth();
  const int visible = viewport()->height();
  QScrollBar* bar = verticalScrollBar();

  // What is at the top of the visible part stays there.
  int anchor = -1;
  int anchorOffset = 0;
  for (int row = 0; row < int(m_slots.size()); ++row) {
    if (m_slots[row].y + m_slots[row].height > bar->value()) {
      anchor = row;
      anchorOffset = bar->value() - m_slots[row].y;
      break;
    }
  }
  int scroll = bar->value();
  for (int pass = 0; pass < 6; ++pass) {
    int y = 0;
    for (int row = 0; row < int(m_slots.size()); ++row) {
      Slot& slot = m_slots[row];
      y += gapBefore(row);
      if (slot.item && !slot.measured) {
        slot.height = slot.item->layoutFor(width);
        slot.measured = true;
      }
      slot.y = y;
      y += slot.height;
    }
    m_contentHeight = y + theme.px(kBottomMargin);
    const int maximum = std::max(0, m_contentHeight - visible);
    scroll =
        m_follow || anchor < 0 ? maximum : std::clamp(m_slots[anchor].y + anchorOffset, 0, maximum);
    bool made = false;
    for (int row = 0; row < int(m_slots.size()); ++row) {
      Slot& slot = m_slots[row];
      const bool near =
          slot.y + slot.height > scroll - visible / 2 && slot.y < scroll + visible + visible / 2;
      if (near && !slot.item) {
        makeItem(row);
        made = true;
      }
    }
    if (!made) break;
  }
  bar->setRange(0, std::max(0, m_contentHeight - visible));
  bar->setPageStep(std::max(1, visible));
  bar->setEnabled(bar->maximum() > 0);
  bar->setValue(scroll);
  place(bar->value());
  m_layingOut = false;
}

void Transcript::place(int scroll) {
  const int width = columnWidth();
  const int x = (this->width() - width) / 2;  // in line with the composer's column
  const int visible = viewport()->height();
  for (Slot& slot : m_slots) {
    if (!slot.item) continue;
    const bool far = slot.y + slot.height < scroll - 2 * visible || slot.y > scroll + 3 * visible;
    if (far && !slot.item->isBusy()) {
      slot.item->hide();
      slot.item->deleteLater();
      slot.item = nullptr;
      continue;
    }
    slot.item->setGeometry(x, slot.y - scroll, width, slot.height);
    slot.item->show();
  }
  placeToEndButton();
}

void Transcript::placeToEndButton() {
  const bool away =
      verticalScrollBar()->maximum() - verticalScrollBar()->value() > Theme::instance().px(120);
  m_toEnd->setVisible(away);
  if (!away) return;
  const QSize size = m_toEnd->sizeHint();
  m_toEnd->setGeometry((viewport()->width() - size.width()) / 2,
                       viewport()->height() - size.height() - Theme::instance().px(10),
                       size.width(), size.height());
  m_toEnd->raise();
}

void Transcript::resizeEvent(QResizeEvent* event) {
  QAbstractScrollArea::resizeEvent(event);
  for (Slot& slot : m_slots) slot.measured = false;
  relayout();
}

void Transcript::scrollContentsBy(int, int) {
  if (m_layingOut) return;
  m_follow = isAtEnd();  // the person scrolled
  relayout();
}

bool Transcript::isAtEnd() const {
  return verticalScrollBar()->value() >= verticalScrollBar()->maximum() - Theme::instance().px(4);
}

void Transcript::scrollToEnd() {
  m_follow = true;
  relayout();
}

MessageItem* Transcript::itemOf(int row) {
  if (row < 0 || row >= int(m_slots.size())) return nullptr;
  if (!m_slots[row].item) makeItem(row);
  return m_slots[row].item;
}

int Transcript::liveItemCount() const {
  return int(std::count_if(m_slots.begin(), m_slots.end(),
                           [](const Slot& slot) { return slot.item != nullptr; }));
}

void Transcript::showRow(int row) {
  if (row < 0 || row >= int(m_slots.size())) return;
  const Slot& slot = m_slots[row];
  QScrollBar* bar = verticalScrollBar();
  const int visible = viewport()->height();
  if (slot.y >= bar->value() && slot.y + slot.height <= bar->value() + visible) return;
  m_follow = false;
  // Twice: the first move brings the real heights of what is there.
  for (int pass = 0; pass < 2; ++pass) {
    bar->setValue(m_slots[row].y - Theme::instance().px(kTopMargin));
    relayout();
  }
}

void Transcript::flashRow(int row) {
  constexpr int kFlashMs = 1500;
  MessageItem* item = itemOf(row);
  if (!item) return;
  auto* mark = new QFrame(item);
  mark->setObjectName("rowMark");
  QPalette palette = mark->palette();
  palette.setColor(QPalette::Window, Theme::instance().tokens().accent);
  mark->setPalette(palette);
  mark->setAutoFillBackground(true);
  mark->setGeometry(0, 0, Theme::instance().px(3), item->height());
  mark->setAttribute(Qt::WA_TransparentForMouseEvents);
  mark->show();
  QTimer::singleShot(kFlashMs, mark, &QObject::deleteLater);
}

void Transcript::copyRow(int row) {
  if (!m_session || row < 0 || row >= int(m_session->rows().size())) return;
  QApplication::clipboard()->setText(m_session->rows()[row].message.text);
  emit copied();
}

bool Transcript::editLastQuestion() {
  for (int row = int(m_slots.size()) - 1; row >= 0; --row) {
    if (!m_slots[row].isUser) continue;
    showRow(row);
    auto* user = qobject_cast<UserItem*>(itemOf(row));
    if (!user) return false;
    relayout();
    user->beginEdit();
    return user->isEditing();
  }
  return false;
}

void Transcript::setHighlight(const QString& needle, int row, int occurrence) {
  m_needle = needle;
  m_needleRow = row;
  m_needleOccurrence = occurrence;
  if (row >= 0) {
    showRow(row);
    itemOf(row);
    relayout();
  }
  for (int i = 0; i < int(m_slots.size()); ++i) {
    if (m_slots[i].item) m_slots[i].item->textView()->highlight(needle, i == row ? occurrence : -1);
  }
  if (row < 0 || needle.isEmpty()) return;
  // Within a long message the occurrence itself has to be visible.
  const Slot& slot = m_slots[row];
  const QRect mark = slot.item->textView()->currentHighlight();
  if (mark.isNull()) return;
  const int y = slot.y + slot.item->textView()->y() + mark.y();
  QScrollBar* bar = verticalScrollBar();
  if (y < bar->value() || y > bar->value() + viewport()->height() - Theme::instance().px(40)) {
    m_follow = false;
    bar->setValue(y - viewport()->height() / 3);
  }
}

int Transcript::focusedRow() const {
  const QWidget* focus = QApplication::focusWidget();
  for (int row = 0; row < int(m_slots.size()); ++row) {
    if (m_slots[row].item && focus && m_slots[row].item->isAncestorOf(focus)) return row;
  }
  return -1;
}

void Transcript::togglePin() {
  const int row = focusedRow() >= 0 ? focusedRow() : int(m_slots.size()) - 1;
  if (MessageItem* item = itemOf(row)) item->togglePin();
}

void Transcript::moveFocus(int step) {
  const int current = focusedRow();
  const int count = int(m_slots.size());
  if (count == 0) return;
  const int next = current < 0 ? count - 1 : std::clamp(current + step, 0, count - 1);
  showRow(next);
  MessageItem* item = itemOf(next);
  relayout();
  item->textView()->setFocus(Qt::TabFocusReason);
}

void Transcript::keyPressEvent(QKeyEvent* event) {
  QScrollBar* bar = verticalScrollBar();
  const bool alt = event->modifiers() & Qt::AltModifier;
  switch (event->key()) {
    case Qt::Key_Up:
      if (alt) return moveFocus(-1);
      return bar->triggerAction(QAbstractSlider::SliderSingleStepSub);
    case Qt::Key_Down:
      if (alt) return moveFocus(1);
      return bar->triggerAction(QAbstractSlider::SliderSingleStepAdd);
    case Qt::Key_PageUp:
      return bar->triggerAction(QAbstractSlider::SliderPageStepSub);
    case Qt::Key_PageDown:
      return bar->triggerAction(QAbstractSlider::SliderPageStepAdd);
    case Qt::Key_Home:
      return bar->triggerAction(QAbstractSlider::SliderToMinimum);
    case Qt::Key_End:
      return bar->triggerAction(QAbstractSlider::SliderToMaximum);
    default:
      QAbstractScrollArea::keyPressEvent(event);
  }
}

}  // namespace vitrine::ui

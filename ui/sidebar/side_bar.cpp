#include "ui/sidebar/side_bar.h"

#include <QFrame>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListView>
#include <QMenu>
#include <QPushButton>
#include <QVBoxLayout>

#include "app/chat/chat_session.h"
#include "app/chat/conversation_list_model.h"
#include "app/chat/engine_client.h"
#include "app/chat/session_pool.h"
#include "app/store/conversation_store.h"
#include "app/text.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/toast.h"
#include "ui/sidebar/conversation_delegate.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {

constexpr int kHeldIntervalMs = 500;

/// An entry at the bottom: a name, and at the right a word in muted ink.
class Entry final : public QPushButton {
 public:
  Entry(const QString& text, const QString& hint, QWidget* parent) : QPushButton(text, parent) {
    setProperty("kind", "entry");
    setAccessibleName(text);
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins(10, 0, 10, 0);
    layout->addStretch(1);
    auto* label = new PlainLabel(hint, LabelStyle::kMuted, this);
    label->setAttribute(Qt::WA_TransparentForMouseEvents);
    layout->addWidget(label);
  }
};

}  // namespace

SideBar::SideBar(app::ConversationStore& store, app::SessionPool& pool, app::EngineClient& engine,
                 QWidget* parent)
    : QWidget(parent), m_store(store), m_pool(pool), m_engine(engine) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(12, 12, 12, 12);
  layout->setSpacing(8);
  m_newChat = new QPushButton(tr("New chat"), this);
  m_newChat->setProperty("kind", "primary");
  m_newChat->setToolTip(tr("New chat (Ctrl+N)"));
  layout->addWidget(m_newChat);
  m_search = new QLineEdit(this);
  m_search->setPlaceholderText(tr("Search chats · Ctrl+K"));
  m_search->setAccessibleName(tr("Search chats"));
  m_search->setClearButtonEnabled(true);
  m_search->installEventFilter(this);
  layout->addWidget(m_search);

  m_model = new app::ConversationListModel(store, this);
  m_delegate = new ConversationDelegate(this);
  m_list = new QListView(this);
  m_list->setModel(m_model);
  m_list->setItemDelegate(m_delegate);
  m_list->setAccessibleName(tr("Chats"));
  m_list->setMouseTracking(true);
  m_list->setUniformItemSizes(false);
  m_list->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
  m_list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_list->setEditTriggers(QAbstractItemView::EditKeyPressed);
  m_list->setContextMenuPolicy(Qt::CustomContextMenu);
  m_list->installEventFilter(this);
  layout->addWidget(m_list, 1);
  m_empty = new PlainLabel(LabelStyle::kMuted, m_list);
  m_empty->setWordWrap(true);
  m_empty->hide();

  auto* line = new QFrame(this);
  line->setProperty("kind", "line");
  line->setFixedHeight(1);
  layout->addWidget(line);

  m_heldTimer.setSingleShot(true);
  m_heldTimer.setInterval(kHeldIntervalMs);
  m_searchTimer.setSingleShot(true);
  m_searchTimer.setInterval(150);
  connect(&m_heldTimer, &QTimer::timeout, this, &SideBar::refreshHeld);
  connect(&m_searchTimer, &QTimer::timeout, this, [this] {
    m_model->setFilter(m_search->text());
    setCurrent(m_currentChat);
    updateEmpty();
  });
  connect(m_newChat, &QPushButton::clicked, this, &SideBar::newChatRequested);
  connect(m_search, &QLineEdit::textChanged, this, [this] { m_searchTimer.start(); });
  connect(m_list, &QListView::customContextMenuRequested, this, &SideBar::showMenu);
  const auto choose = [this](const QModelIndex& index) {
    const qint64 id = index.data(app::ConversationListModel::kIdRole).toLongLong();
    if (id != 0) emit conversationChosen(id);
  };
  connect(m_list, &QListView::clicked, this, choose);
  connect(m_list, &QListView::activated, this, choose);
  connect(m_delegate, &ConversationDelegate::renamed, this, [this](qint64 id, const QString& to) {
    const auto result = m_store.rename(id, to);
    if (!result) Toast::of(this)->showMessage(app::toQString(result.error().message), 8000);
  });
  connect(m_model, &QAbstractItemModel::modelReset, this, [this] { setCurrent(m_currentChat); });
  connect(m_model, &QAbstractItemModel::rowsInserted, this, [this] { setCurrent(m_currentChat); });
  connect(m_model, &QAbstractItemModel::rowsRemoved, this, [this] { setCurrent(m_currentChat); });
  connect(m_model, &QAbstractItemModel::rowsMoved, this, [this] { setCurrent(m_currentChat); });

  const auto heldSoon = [this] {
    if (!m_heldTimer.isActive()) m_heldTimer.start();
  };
  connect(&engine, &app::EngineClient::busyChanged, this, heldSoon);
  connect(&engine, &app::EngineClient::turnStarted, this, heldSoon);
  connect(&engine, &app::EngineClient::turnFinished, this, heldSoon);
  connect(&engine, &app::EngineClient::modelLoaded, this, heldSoon);
  connect(&engine, &app::EngineClient::modelUnloaded, this, heldSoon);
  connect(&Theme::instance(), &Theme::changed, this, &SideBar::applyTheme);
  applyTheme();
  updateEmpty();
  refreshHeld();
}

void SideBar::applyTheme() {
  m_list->doItemsLayout();
  m_list->viewport()->update();
}

void SideBar::addEntry(const QString& name, const QString& hint, std::function<void()> open) {
  auto* entry = new Entry(name, hint, this);
  connect(entry, &QPushButton::clicked, this, std::move(open));
  layout()->addWidget(entry);
}

void SideBar::setCurrent(app::ConversationId id) {
  m_currentChat = id;
  const int row = m_model->rowOf(id);
  if (row < 0) {
    m_list->selectionModel()->clear();
  } else if (m_list->currentIndex().row() != row ||
             !m_list->selectionModel()->isSelected(m_model->index(row))) {
    m_list->setCurrentIndex(m_model->index(row));
  }
  updateEmpty();
}

void SideBar::focusSearch() {
  m_search->setFocus(Qt::ShortcutFocusReason);
  m_search->selectAll();
}

void SideBar::updateEmpty() {
  const bool empty = m_model->rowCount() == 0;
  m_empty->setText(m_search->text().isEmpty()
                       ? tr("Chats appear here with their first message.")
                       : tr("No chat holds “%1”.").arg(oneLine(m_search->text(), 40)));
  m_empty->setVisible(empty);
  const int width = m_list->viewport()->width() - 8;
  m_empty->setGeometry(4, Theme::instance().px(16), width, m_empty->heightForWidth(width));
}

qint64 SideBar::currentId() const {
  return m_list->currentIndex().data(app::ConversationListModel::kIdRole).toLongLong();
}

void SideBar::renameCurrent() {
  if (m_list->currentIndex().isValid()) m_list->edit(m_list->currentIndex());
}

void SideBar::deleteCurrent() {
  if (currentId() != 0) remove(currentId());
}

void SideBar::remove(qint64 id) {
  const auto conversation = m_store.conversation(id);
  if (!conversation) return;
  emit conversationAboutToBeDeleted(id);
  m_pool.close(id);
  const auto result = m_store.moveToTrash(id);
  if (!result) {
    Toast::of(this)->showMessage(app::toQString(result.error().message), 8000);
    return;
  }
  m_engine.release(conversation->uuid);  // on disk it stays as long as this can be undone
  const QString title = conversation->title.isEmpty() ? tr("New chat") : conversation->title;
  Toast::of(this)->showMessage(tr("Deleted “%1”").arg(oneLine(title, 40)), tr("Undo"), [this, id] {
    if (m_store.restore(id)) emit conversationChosen(id);
  });
}

void SideBar::showMenu(const QPoint& position) {
  const QModelIndex index = m_list->indexAt(position);
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  if (index.isValid()) {
    const qint64 id = index.data(app::ConversationListModel::kIdRole).toLongLong();
    const bool pinned = index.data(app::ConversationListModel::kPinnedRole).toBool();
    menu->addAction(tr("Rename"), QKeySequence(Qt::Key_F2), this,
                    [this, index = QPersistentModelIndex(index)] {
                      if (index.isValid()) m_list->edit(index);
                    });
    menu->addAction(pinned ? tr("Unpin") : tr("Pin to the top"), this,
                    [this, id, pinned] { m_store.setPinned(id, !pinned); });
    menu->addAction(tr("Export…"), this, [this, id] { emit exportRequested(id); });
    menu->addSeparator();
    menu->addAction(tr("Delete"), QKeySequence(Qt::Key_Delete), this, [this, id] { remove(id); });
    menu->addSeparator();
  }
  menu->addAction(tr("Import chats…"), this, &SideBar::importRequested);
  menu->popup(m_list->viewport()->mapToGlobal(position));
}

void SideBar::refreshHeld() {
  QHash<QString, quint64> inPool, onDisk;
  const auto snapshot = m_engine.snapshot();
  for (const engine::CacheOwner& owner : snapshot->owners) {
    inPool[app::toQString(owner.conversation)] += owner.bytes;
  }
  for (const engine::ArchivedConversation& archived : snapshot->archived) {
    onDisk[app::toQString(archived.conversation)] = archived.bytes;
  }
  QHash<qint64, quint64> held, archived;
  for (const app::Conversation& conversation : m_store.conversations()) {
    if (const quint64 bytes = inPool.value(conversation.uuid); bytes > 0) {
      held[conversation.id] = bytes;
    }
    if (const quint64 bytes = onDisk.value(conversation.uuid); bytes > 0) {
      archived[conversation.id] = bytes;
    }
  }
  m_delegate->setHeld(held);
  m_delegate->setArchived(archived);
  QHash<qint64, bool> running;
  if (const app::ChatSession* current = m_pool.current(); current && current->isRunning()) {
    running[current->conversation().id] = true;
  }
  m_delegate->setRunning(running);
  m_list->viewport()->update();
  if (m_engine.isBusy()) m_heldTimer.start();
}

bool SideBar::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::KeyPress) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    if (watched == m_list && key == Qt::Key_Delete) {
      deleteCurrent();
      return true;
    }
    if (watched == m_search && (key == Qt::Key_Down || key == Qt::Key_Return)) {
      m_searchTimer.stop();
      m_model->setFilter(m_search->text());
      if (m_model->rowCount() > 0) {
        m_list->setFocus(Qt::TabFocusReason);
        m_list->setCurrentIndex(m_model->index(0));
        if (key == Qt::Key_Return) emit conversationChosen(currentId());
      }
      return true;
    }
    if (watched == m_search && key == Qt::Key_Escape && !m_search->text().isEmpty()) {
      m_search->clear();
      return true;
    }
  }
  if (watched == m_list && event->type() == QEvent::Resize) {
    QMetaObject::invokeMethod(this, &SideBar::updateEmpty, Qt::QueuedConnection);
  }
  return QWidget::eventFilter(watched, event);
}

}  // namespace vitrine::ui

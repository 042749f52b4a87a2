#pragma once

#include <QTimer>
#include <QWidget>
#include <functional>

#include "app/store/conversation_types.h"

class QLineEdit;
class QListView;
class QPushButton;

namespace vitrine::app {
class ConversationListModel;
class ConversationStore;
class EngineClient;
class SessionPool;
}  // namespace vitrine::app

namespace vitrine::ui {

class ConversationDelegate;
class PlainLabel;

/// The left side (248 px): new chat, search, conversations by day with the memory they hold, and
/// below the other pages of the program. Deleting goes to the trash and can be undone.
class SideBar final : public QWidget {
  Q_OBJECT
 public:
  /// Requires: all outlive it.
  SideBar(app::ConversationStore& store, app::SessionPool& pool, app::EngineClient& engine,
          QWidget* parent = nullptr);

  /// Marks the open chat; 0: none.
  void setCurrent(app::ConversationId id);
  void focusSearch();
  /// One more entry at the bottom: a page of the program, with a word beside its name.
  void addEntry(const QString& name, const QString& hint, std::function<void()> open);
  QListView* list() const { return m_list; }

 public slots:
  void renameCurrent();
  void deleteCurrent();

 signals:
  void newChatRequested();
  void conversationChosen(qint64 id);
  /// It goes to the trash in a moment; whoever shows it lets go of it.
  void conversationAboutToBeDeleted(qint64 id);
  void exportRequested(qint64 id);
  void importRequested();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void applyTheme();
  void showMenu(const QPoint& position);
  void remove(qint64 id);
  void refreshHeld();
  void updateEmpty();
  qint64 currentId() const;

  app::ConversationStore& m_store;
  app::SessionPool& m_pool;
  app::EngineClient& m_engine;
  app::ConversationListModel* m_model;
  ConversationDelegate* m_delegate;
  QPushButton* m_newChat;
  QLineEdit* m_search;
  QListView* m_list;
  PlainLabel* m_empty;
  QTimer m_heldTimer;    ///< single shot: what is held, at most twice a second
  QTimer m_searchTimer;  ///< single shot: a moment after the last key
  app::ConversationId m_currentChat = 0;
};

}  // namespace vitrine::ui

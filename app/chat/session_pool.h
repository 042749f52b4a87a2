#pragma once

#include <QObject>
#include <map>
#include <memory>

#include "app/store/conversation_types.h"

namespace vitrine::app {

class ChatSession;
class ConversationStore;
class EngineClient;
class Settings;

/// The sessions that are open. A chat that is left while its answer streams goes on; idle ones
/// that were left longest are closed.
class SessionPool final : public QObject {
  Q_OBJECT
 public:
  SessionPool(ConversationStore& store, EngineClient& engine, Settings& settings,
              QObject* parent = nullptr);
  ~SessionPool() override;

  /// The session of a conversation, opened if need be; null where there is none. The pool owns
  /// it; a pointer to one that is neither current nor running must not be kept.
  ChatSession* open(ConversationId id);
  /// A new, empty conversation, with the default system prompt.
  ChatSession* createConversation();
  ChatSession* current() const { return m_current; }
  /// Stops its turn and closes it (before it goes to the trash).
  void close(ConversationId id);
  int runningCount() const;

 signals:
  void sessionOpened(vitrine::app::ChatSession* session);
  void sessionAboutToClose(vitrine::app::ChatSession* session);

 private:
  void trim();

  ConversationStore& m_store;
  EngineClient& m_engine;
  Settings& m_settings;
  struct Entry {
    std::unique_ptr<ChatSession> session;
    qint64 lastUse = 0;
  };
  std::map<ConversationId, Entry> m_sessions;
  ChatSession* m_current = nullptr;
  qint64 m_uses = 0;
};

}  // namespace vitrine::app

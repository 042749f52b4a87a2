#pragma once

#include <QObject>
#include <QSqlDatabase>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "app/store/conversation_types.h"
#include "engine/base/result.h"

namespace vitrine::app {

/// Conversations as message trees in one SQLite file (WAL, foreign keys, schema version).
///
/// What a call has written survives `kill -9`. Two programs may use one file at a time: each sees
/// what the other wrote (checkForChanges()), and writes are single short transactions. A damaged
/// file is moved aside at open, what can be read of it is copied over, and notice() says so.
/// Belongs to one thread; a call takes well under a millisecond for usual chats.
class ConversationStore final : public QObject {
  Q_OBJECT
 public:
  /// Fails only where no file can be made at all (a folder without permission, a full disk).
  static engine::Result<std::unique_ptr<ConversationStore>> open(const QString& file);
  ~ConversationStore() override;

  QString file() const { return m_file; }
  /// Not empty after a repair: a sentence for the person.
  QString notice() const { return m_notice; }

  // Conversations.
  /// Not in the trash: pinned first, then the newest change first.
  std::vector<Conversation> conversations() const;
  std::vector<Conversation> trash() const;
  engine::Result<Conversation> conversation(ConversationId id) const;
  engine::Result<Conversation> conversationByUuid(const QString& uuid) const;
  /// The colour is the next of eight; `id`, `uuid` and times of `draft` are filled in if unset.
  engine::Result<Conversation> create(Conversation draft = {});
  engine::Result<void> rename(ConversationId id, const QString& title);
  engine::Result<void> setSystemPrompt(ConversationId id, const QString& text);
  engine::Result<void> setSystemPromptUse(ConversationId id, SystemPromptUse use);
  /// None: as the settings say.
  engine::Result<void> setContextPolicy(ConversationId id,
                                        std::optional<engine::ContextPolicy> policy);
  engine::Result<void> setSampling(ConversationId id, const QJsonObject& sampling);
  engine::Result<void> setPinned(ConversationId id, bool pinned);
  engine::Result<void> setColour(ConversationId id, int colour);
  engine::Result<void> setAutomaticTitle(ConversationId id, const QString& title);
  /// To the trash, from where restore() brings it back (undo); purge() is for good.
  engine::Result<void> moveToTrash(ConversationId id);
  engine::Result<void> restore(ConversationId id);
  engine::Result<void> purge(ConversationId id);
  engine::Result<void> purgeTrashOlderThan(const QDateTime& time);
  /// Conversations whose title or messages hold the text, letter case ignored; newest first.
  std::vector<ConversationId> search(const QString& text) const;

  /// Tokens of the context after the last turn of each conversation that is not in the trash;
  /// those whose last turn left no figures are not in the list.
  std::vector<int> chatLengths() const;

  // Messages.
  /// All nodes of the tree, oldest first.
  std::vector<Message> messages(ConversationId id) const;
  engine::Result<Message> message(MessageId id) const;
  /// Adds a node and makes it the active leaf.
  engine::Result<Message> append(Message draft);
  /// A question and the empty, streaming answer below it in one transaction; the answer becomes
  /// the active leaf. Call it before the engine starts.
  engine::Result<std::pair<Message, Message>> appendTurn(Message question, Message answer);
  /// An answer that came to nothing starts over in place: empty, streaming, the active leaf.
  engine::Result<Message> restart(Message answer);
  /// Text and ids so far of a streaming answer.
  engine::Result<void> saveProgress(const Message& message);
  /// Text, ids, state, error, metrics and model of an answer that ended.
  engine::Result<void> finish(const Message& message);
  engine::Result<void> setMetrics(MessageId id, const QJsonObject& metrics);
  /// Whether it stays in the prompt by ContextPolicy::kKeepPinned.
  engine::Result<void> setMessagePinned(MessageId id, bool pinned);
  engine::Result<void> setActiveLeaf(ConversationId id, MessageId leaf);
  /// A whole conversation from elsewhere. `messages[i].parent` is 1 + the index of its parent in
  /// the list (which stands before it), 0 for a root.
  engine::Result<Conversation> importConversation(Conversation draft,
                                                  const std::vector<Message>& messages);

  /// Emits changedElsewhere() if another program wrote since the last look. Cheap; call it when
  /// the window gets the focus.
  bool checkForChanges();

 signals:
  void conversationAdded(qint64 id);
  void conversationChanged(qint64 id);  ///< title, pin, colour, times, settings
  void conversationRemoved(qint64 id);  ///< to the trash, or for good
  void changedElsewhere();

 private:
  ConversationStore(QString file, QString connection);
  engine::Result<void> update(ConversationId id, const char* column, const QVariant& value,
                              bool touch);
  qint64 dataVersion() const;
  engine::Result<void> closeInterrupted();
  void checkpointIfLarge();

  QString m_file;
  QString m_connection;
  QString m_writer;  // see live_writers.h
  QString m_notice;
  qint64 m_dataVersion = 0;
  std::atomic<bool> m_checkpointRuns = false;
  std::jthread m_checkpoint;  // last: joined first
};

}  // namespace vitrine::app

// The store's messages.
#include <QVariant>
#include <unordered_set>

#include "app/store/conversation_store.h"
#include "app/store/row_writer.h"
#include "app/store/schema.h"
#include "app/store/sqlite.h"

namespace vitrine::app {

using engine::ErrorCode;
using engine::Result;

std::vector<Message> ConversationStore::messages(ConversationId id) const {
  std::vector<Message> result;
  auto query = sqlite::run(m_connection,
                           QStringLiteral("SELECT %1 FROM messages WHERE conversation = ? "
                                          "ORDER BY id")
                               .arg(QLatin1String(kMessageColumns)),
                           {id});
  std::unordered_set<MessageId> known;
  while (query && query->next()) {
    Message message = readMessage(*query);
    // A parent always has the lower number. One that does not, or is of another conversation, is
    // damage: the message becomes a root, so that no loop can be walked for ever.
    if (message.parent != 0 && !known.contains(message.parent)) message.parent = 0;
    known.insert(message.id);
    result.push_back(std::move(message));
  }
  return result;
}

Result<Message> ConversationStore::message(MessageId id) const {
  VITRINE_ASSIGN(auto query, sqlite::run(m_connection,
                                         QStringLiteral("SELECT %1 FROM messages WHERE id = ?")
                                             .arg(QLatin1String(kMessageColumns)),
                                         {id}));
  if (query.next()) return readMessage(query);
  return engine::fail(ErrorCode::kNotFound, "there is no message {}", id);
}

Result<Message> ConversationStore::append(Message draft) {
  Message made;
  VITRINE_TRY(sqlite::transaction(m_connection, [&]() -> Result<void> {
    VITRINE_ASSIGN(made, rows::insertMessage(m_connection, std::move(draft), m_writer));
    return rows::setLeaf(m_connection, made.conversation, made.id, true);
  }));
  emit conversationChanged(made.conversation);
  return made;
}

Result<std::pair<Message, Message>> ConversationStore::appendTurn(Message question,
                                                                  Message answer) {
  std::pair<Message, Message> made;
  VITRINE_TRY(sqlite::transaction(m_connection, [&]() -> Result<void> {
    VITRINE_ASSIGN(made.first, rows::insertMessage(m_connection, std::move(question), m_writer));
    answer.parent = made.first.id;
    VITRINE_ASSIGN(made.second, rows::insertMessage(m_connection, std::move(answer), m_writer));
    return rows::setLeaf(m_connection, made.second.conversation, made.second.id, true);
  }));
  emit conversationChanged(made.first.conversation);
  return made;
}

Result<Message> ConversationStore::restart(Message answer) {
  answer.text.clear();
  answer.tokenIds.clear();
  answer.error.clear();
  answer.state = MessageState::kStreaming;
  VITRINE_TRY(sqlite::transaction(m_connection, [&]() -> Result<void> {
    auto done = sqlite::run(
        m_connection,
        QStringLiteral("UPDATE messages SET text = '', token_ids = NULL, error = '', "
                       "state = 'streaming', writer = ?, metrics = ?, model = ? WHERE id = ?"),
        {m_writer, compactJson(answer.metrics),
         answer.model.isNull() ? QStringLiteral("") : answer.model, answer.id});
    if (!done) return tl::unexpected(done.error());
    return rows::setLeaf(m_connection, answer.conversation, answer.id, true);
  }));
  emit conversationChanged(answer.conversation);
  return answer;
}

Result<void> ConversationStore::saveProgress(const Message& message) {
  auto done = sqlite::run(m_connection,
                          QStringLiteral("UPDATE messages SET text = ?, token_ids = ? "
                                         "WHERE id = ?"),
                          {message.text.isNull() ? QStringLiteral("") : message.text,
                           toBlob(message.tokenIds), message.id});
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<void> ConversationStore::finish(const Message& message) {
  VITRINE_TRY(sqlite::transaction(m_connection, [&]() -> Result<void> {
    auto done = sqlite::run(
        m_connection,
        QStringLiteral("UPDATE messages SET text = ?, token_ids = ?, state = ?, error = ?, "
                       "metrics = ?, model = ?, writer = NULL WHERE id = ?"),
        {message.text.isNull() ? QStringLiteral("") : message.text, toBlob(message.tokenIds),
         nameOf(message.state), message.error.isNull() ? QStringLiteral("") : message.error,
         compactJson(message.metrics), message.model.isNull() ? QStringLiteral("") : message.model,
         message.id});
    if (!done) return tl::unexpected(done.error());
    auto touched = sqlite::run(m_connection,
                               QStringLiteral("UPDATE conversations SET updated = ? WHERE id = ?"),
                               {rows::now(), message.conversation});
    if (!touched) return tl::unexpected(touched.error());
    return {};
  }));
  checkpointIfLarge();
  emit conversationChanged(message.conversation);
  return {};
}

Result<void> ConversationStore::setMetrics(MessageId id, const QJsonObject& metrics) {
  auto done =
      sqlite::run(m_connection, QStringLiteral("UPDATE messages SET metrics = ? WHERE id = ?"),
                  {compactJson(metrics), id});
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<void> ConversationStore::setMessagePinned(MessageId id, bool pinned) {
  auto done = sqlite::run(
      m_connection, QStringLiteral("UPDATE messages SET pinned = ? WHERE id = ?"), {pinned, id});
  if (!done) return tl::unexpected(done.error());
  if (done->numRowsAffected() == 0) {
    return engine::fail(ErrorCode::kNotFound, "there is no message {}", id);
  }
  return {};
}

Result<void> ConversationStore::setActiveLeaf(ConversationId id, MessageId leaf) {
  return rows::setLeaf(m_connection, id, leaf, false);
}

}  // namespace vitrine::app

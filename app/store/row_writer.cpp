#include "app/store/row_writer.h"

#include <QUuid>
#include <QVariant>

#include "app/store/schema.h"
#include "app/store/sqlite.h"

namespace vitrine::app::rows {

using engine::Result;

qint64 now() {
  return QDateTime::currentMSecsSinceEpoch();
}

Result<Conversation> insertConversation(const QString& connection, Conversation draft) {
  if (draft.uuid.isEmpty()) draft.uuid = QUuid::createUuid().toString(QUuid::WithoutBraces);
  if (!draft.created.isValid()) draft.created = QDateTime::fromMSecsSinceEpoch(now());
  if (!draft.updated.isValid()) draft.updated = draft.created;
  draft.id = 0;
  draft.activeLeaf = 0;
  // The next of the eight colours after the conversation made last.
  VITRINE_ASSIGN(auto last,
                 sqlite::run(connection, QStringLiteral("SELECT colour FROM conversations "
                                                        "ORDER BY id DESC LIMIT 1")));
  draft.colour = last.next() ? (last.value(0).toInt() + 1) & 7 : 0;
  last.finish();
  const auto insert = [&] {
    return sqlite::run(
        connection,
        QStringLiteral("INSERT INTO conversations (%1) VALUES (%2)")
            .arg(QLatin1String(kConversationColumns), placeholders(kConversationColumns)),
        conversationValues(draft));
  };
  VITRINE_ASSIGN(auto query, insert());
  draft.id = query.lastInsertId().toLongLong();
  return draft;
}

Result<Message> insertMessage(const QString& connection, Message draft, const QString& writer) {
  if (!draft.created.isValid()) draft.created = QDateTime::fromMSecsSinceEpoch(now());
  draft.id = 0;
  QVariantList values = messageValues(draft);
  values.append(draft.state == MessageState::kStreaming ? QVariant(writer) : QVariant());
  VITRINE_ASSIGN(auto query, sqlite::run(connection,
                                         QStringLiteral("INSERT INTO messages (%1, writer) "
                                                        "VALUES (%2, ?)")
                                             .arg(QLatin1String(kMessageColumns),
                                                  placeholders(kMessageColumns)),
                                         values));
  draft.id = query.lastInsertId().toLongLong();
  return draft;
}

Result<void> setLeaf(const QString& connection, ConversationId id, MessageId leaf, bool touch) {
  auto done = sqlite::run(connection,
                          QStringLiteral("UPDATE conversations SET active_leaf = ?, "
                                         "updated = CASE WHEN ? THEN ? ELSE updated END "
                                         "WHERE id = ?"),
                          {leaf == 0 ? QVariant() : QVariant(leaf), touch, now(), id});
  if (!done) return tl::unexpected(done.error());
  return {};
}

}  // namespace vitrine::app::rows

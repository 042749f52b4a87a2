#include "app/store/schema.h"

#include <QJsonDocument>
#include <QtEndian>

namespace vitrine::app {
namespace {

// Times are milliseconds since 1970 (UTC). `writer` names the process that streams into a message
// (see live_writers.h), so that another one does not take it for interrupted.
const std::vector<sqlite::Migration> kMigrations = {
    {1,
     {"CREATE TABLE conversations ("
      " id INTEGER PRIMARY KEY AUTOINCREMENT,"
      " uuid TEXT NOT NULL UNIQUE,"
      " title TEXT NOT NULL DEFAULT '',"
      " title_automatic INTEGER NOT NULL DEFAULT 1,"
      " system_prompt TEXT NOT NULL DEFAULT '',"
      " system_prompt_use INTEGER NOT NULL DEFAULT 0,"
      " drop_oldest INTEGER NOT NULL DEFAULT 0,"
      " sampling TEXT NOT NULL DEFAULT '',"
      " colour INTEGER NOT NULL DEFAULT 0,"
      " pinned INTEGER NOT NULL DEFAULT 0,"
      " created INTEGER NOT NULL,"
      " updated INTEGER NOT NULL,"
      " trashed INTEGER,"
      " active_leaf INTEGER REFERENCES messages(id) ON DELETE SET NULL"
      ")",
      "CREATE TABLE messages ("
      " id INTEGER PRIMARY KEY AUTOINCREMENT,"
      " conversation INTEGER NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,"
      " parent INTEGER REFERENCES messages(id) ON DELETE CASCADE,"
      " role TEXT NOT NULL,"
      " text TEXT NOT NULL DEFAULT '',"
      " token_ids BLOB,"
      " state TEXT NOT NULL DEFAULT 'complete',"
      " error TEXT NOT NULL DEFAULT '',"
      " created INTEGER NOT NULL,"
      " metrics TEXT NOT NULL DEFAULT '',"
      " model TEXT NOT NULL DEFAULT '',"
      " writer TEXT"
      ")",
      "CREATE INDEX messages_of_conversation ON messages(conversation)",
      "CREATE INDEX messages_of_parent ON messages(parent)",
      "CREATE INDEX messages_streaming ON messages(state) WHERE state = 'streaming'"}},
    // A policy by name in place of drop_oldest, which stays as it was; pinned messages.
    {2,
     {"ALTER TABLE conversations ADD COLUMN context_policy TEXT NOT NULL DEFAULT ''",
      "UPDATE conversations SET context_policy = 'drop_oldest' WHERE drop_oldest = 1",
      "ALTER TABLE messages ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0"}},
};

QVariant orNull(qint64 id) {
  return id == 0 ? QVariant(QMetaType::fromType<qint64>()) : id;
}
QVariant orNull(const QDateTime& time) {
  return time.isValid() ? QVariant(time.toMSecsSinceEpoch())
                        : QVariant(QMetaType::fromType<qint64>());
}
// A null QString would be bound as NULL.
QString notNull(const QString& text) {
  return text.isNull() ? QStringLiteral("") : text;
}

QDateTime readTime(const QVariant& value) {
  return value.isNull() ? QDateTime() : QDateTime::fromMSecsSinceEpoch(value.toLongLong());
}

MessageState stateFromString(const QString& text) {
  for (const MessageState state :
       {MessageState::kStreaming, MessageState::kStopped, MessageState::kFailed}) {
    if (text == nameOf(state)) return state;
  }
  return MessageState::kComplete;
}

QJsonObject readJson(const QVariant& value) {
  return QJsonDocument::fromJson(value.toString().toUtf8()).object();
}

}  // namespace

std::span<const sqlite::Migration> conversationMigrations() {
  return kMigrations;
}

const char* const kConversationColumns =
    "id, uuid, title, title_automatic, system_prompt, system_prompt_use, context_policy, "
    "sampling, colour, pinned, created, updated, trashed, active_leaf";
const char* const kMessageColumns =
    "id, conversation, parent, role, text, token_ids, state, error, created, metrics, model, "
    "pinned";

Conversation readConversation(const QSqlQuery& row, int first) {
  Conversation c;
  c.id = row.value(first).toLongLong();
  c.uuid = row.value(first + 1).toString();
  c.title = row.value(first + 2).toString();
  c.titleIsAutomatic = row.value(first + 3).toBool();
  c.systemPrompt = row.value(first + 4).toString();
  c.systemPromptUse = static_cast<SystemPromptUse>(qBound(0, row.value(first + 5).toInt(), 2));
  c.contextPolicy = contextPolicyFromString(row.value(first + 6).toString());
  c.sampling = readJson(row.value(first + 7));
  c.colour = row.value(first + 8).toInt() & 7;
  c.pinned = row.value(first + 9).toBool();
  c.created = readTime(row.value(first + 10));
  c.updated = readTime(row.value(first + 11));
  c.trashed = readTime(row.value(first + 12));
  c.activeLeaf = row.value(first + 13).toLongLong();
  return c;
}

Message readMessage(const QSqlQuery& row, int first) {
  Message m;
  m.id = row.value(first).toLongLong();
  m.conversation = row.value(first + 1).toLongLong();
  m.parent = row.value(first + 2).toLongLong();
  m.role = roleFromString(row.value(first + 3).toString());
  m.text = row.value(first + 4).toString();
  m.tokenIds = idsFromBlob(row.value(first + 5).toByteArray());
  m.state = stateFromString(row.value(first + 6).toString());
  m.error = row.value(first + 7).toString();
  m.created = readTime(row.value(first + 8));
  m.metrics = readJson(row.value(first + 9));
  m.model = row.value(first + 10).toString();
  m.pinned = row.value(first + 11).toBool();
  return m;
}

QVariantList conversationValues(const Conversation& c) {
  return {
      orNull(c.id),
      notNull(c.uuid),
      notNull(c.title),
      c.titleIsAutomatic,
      notNull(c.systemPrompt),
      static_cast<int>(c.systemPromptUse),
      c.contextPolicy ? QString::fromLatin1(engine::nameOf(*c.contextPolicy)) : QStringLiteral(""),
      compactJson(c.sampling),
      c.colour,
      c.pinned,
      c.created.toMSecsSinceEpoch(),
      c.updated.toMSecsSinceEpoch(),
      orNull(c.trashed),
      orNull(c.activeLeaf)};
}

QVariantList messageValues(const Message& m) {
  return {orNull(m.id),           m.conversation,   orNull(m.parent),
          nameOf(m.role),         notNull(m.text),  toBlob(m.tokenIds),
          nameOf(m.state),        notNull(m.error), m.created.toMSecsSinceEpoch(),
          compactJson(m.metrics), notNull(m.model), m.pinned};
}

QString placeholders(const char* columns) {
  const auto count = QByteArray(columns).count(',') + 1;
  return QStringLiteral("?, ").repeated(count).chopped(2);
}

QByteArray toBlob(const std::vector<engine::TokenId>& ids) {
  QByteArray blob(static_cast<qsizetype>(ids.size() * sizeof(qint32)), Qt::Uninitialized);
  qToLittleEndian<qint32>(ids.data(), static_cast<qsizetype>(ids.size()), blob.data());
  return blob;
}

std::vector<engine::TokenId> idsFromBlob(const QByteArray& blob) {
  std::vector<engine::TokenId> ids(static_cast<std::size_t>(blob.size()) / sizeof(qint32));
  qFromLittleEndian<qint32>(blob.data(), static_cast<qsizetype>(ids.size()), ids.data());
  return ids;
}

QString compactJson(const QJsonObject& json) {
  if (json.isEmpty()) return QStringLiteral("");
  return QString::fromUtf8(QJsonDocument(json).toJson(QJsonDocument::Compact));
}

}  // namespace vitrine::app

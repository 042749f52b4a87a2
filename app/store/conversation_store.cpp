#include "app/store/conversation_store.h"

#include <QFileInfo>
#include <QUuid>
#include <QVariant>
#include <atomic>
#include <unordered_map>

#include "app/store/live_writers.h"
#include "app/store/repair.h"
#include "app/store/schema.h"
#include "app/store/sqlite.h"
#include "app/text.h"

namespace vitrine::app {
namespace {

using engine::Error;
using engine::ErrorCode;
using engine::Result;

qint64 now() {
  return QDateTime::currentMSecsSinceEpoch();
}

QString newConnectionName() {
  static std::atomic<int> count{0};
  return QStringLiteral("vitrine-store-%1").arg(++count);
}

// Opens, checks and brings up to date. A failure of kind kInvalidFile calls for a repair.
Result<void> openAndCheck(const QString& connection, const QString& file) {
  VITRINE_TRY(sqlite::openConnection(connection, file));
  VITRINE_ASSIGN(auto check, sqlite::run(connection, QStringLiteral("PRAGMA quick_check(1)")));
  if (!check.next() || check.value(0).toString() != QLatin1String("ok")) {
    return engine::fail(ErrorCode::kInvalidFile, "the conversation database is damaged: {}",
                        toUtf8(check.value(0).toString()));
  }
  check.finish();
  VITRINE_TRY(sqlite::migrate(connection, conversationMigrations()));
  for (const char* table : {"conversations", "messages"}) {
    const QString columns = QLatin1String(table[0] == 'c' ? kConversationColumns : kMessageColumns);
    const QString sql =
        QStringLiteral("SELECT %1 FROM %2 LIMIT 1").arg(columns, QLatin1String(table));
    if (auto probe = sqlite::run(connection, sql); !probe) {
      return engine::fail(ErrorCode::kInvalidFile,
                          "the conversation database has no usable table \"{}\": {}", table,
                          probe.error().message);
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ConversationStore>> ConversationStore::open(const QString& file) {
  const QString connection = newConnectionName();
  QString notice;
  Result<void> opened = openAndCheck(connection, file);
  if (!opened && sqlite::isDamage(opened.error())) {
    sqlite::closeConnection(connection);
    Result<QString> repaired = repairDatabase(file);
    if (!repaired) return tl::unexpected(repaired.error());
    notice = *repaired;
    opened = openAndCheck(connection, file);
  }
  if (!opened) {
    sqlite::closeConnection(connection);
    return tl::unexpected(opened.error());
  }
  std::unique_ptr<ConversationStore> store(new ConversationStore(file, connection));
  store->m_notice = notice;
  VITRINE_TRY(store->closeInterrupted());
  store->m_dataVersion = store->dataVersion();
  return store;
}

ConversationStore::ConversationStore(QString file, QString connection)
    : m_file(std::move(file)), m_connection(std::move(connection)), m_writer(registerWriter()) {}

ConversationStore::~ConversationStore() {
  unregisterWriter(m_writer);
  sqlite::closeConnection(m_connection);
}

// Answers that a killed program was writing are kept as stopped.
Result<void> ConversationStore::closeInterrupted() {
  QVariantList interrupted;
  {
    VITRINE_ASSIGN(auto query,
                   sqlite::run(m_connection, QStringLiteral("SELECT id, writer FROM messages "
                                                            "WHERE state = 'streaming'")));
    while (query.next()) {
      if (!isWriterAlive(query.value(1).toString())) interrupted.append(query.value(0));
    }
  }
  if (interrupted.isEmpty()) return {};
  return sqlite::transaction(m_connection, [&]() -> Result<void> {
    for (const QVariant& id : interrupted) {
      auto done = sqlite::run(m_connection,
                              QStringLiteral("UPDATE messages SET state = 'stopped', writer = NULL "
                                             "WHERE id = ? AND state = 'streaming'"),
                              {id});
      if (!done) return tl::unexpected(done.error());
    }
    return {};
  });
}

// ---------------------------------------------------------------- conversations

namespace {

std::vector<Conversation> readConversations(const QString& connection, const QString& condition) {
  std::vector<Conversation> result;
  auto query = sqlite::run(connection, QStringLiteral("SELECT %1 FROM conversations WHERE %2")
                                           .arg(QLatin1String(kConversationColumns), condition));
  if (!query) return result;
  while (query->next()) result.push_back(readConversation(*query));
  return result;
}

}  // namespace

std::vector<Conversation> ConversationStore::conversations() const {
  return readConversations(
      m_connection, QStringLiteral("trashed IS NULL ORDER BY pinned DESC, updated DESC, id DESC"));
}

std::vector<Conversation> ConversationStore::trash() const {
  return readConversations(m_connection,
                           QStringLiteral("trashed IS NOT NULL ORDER BY trashed DESC, id DESC"));
}

Result<Conversation> ConversationStore::conversation(ConversationId id) const {
  VITRINE_ASSIGN(auto query, sqlite::run(m_connection,
                                         QStringLiteral("SELECT %1 FROM conversations WHERE id = ?")
                                             .arg(QLatin1String(kConversationColumns)),
                                         {id}));
  if (query.next()) return readConversation(query);
  return engine::fail(ErrorCode::kNotFound, "there is no conversation {}", id);
}

Result<Conversation> ConversationStore::conversationByUuid(const QString& uuid) const {
  VITRINE_ASSIGN(auto query,
                 sqlite::run(m_connection,
                             QStringLiteral("SELECT %1 FROM conversations WHERE uuid = ?")
                                 .arg(QLatin1String(kConversationColumns)),
                             {uuid}));
  if (query.next()) return readConversation(query);
  return engine::fail(ErrorCode::kNotFound, "there is no conversation {}", toUtf8(uuid));
}

namespace {

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

}  // namespace

Result<Conversation> ConversationStore::create(Conversation draft) {
  Conversation made;
  VITRINE_TRY(sqlite::transaction(m_connection, [&]() -> Result<void> {
    VITRINE_ASSIGN(made, insertConversation(m_connection, std::move(draft)));
    return {};
  }));
  emit conversationAdded(made.id);
  return made;
}

Result<void> ConversationStore::update(ConversationId id, const char* column, const QVariant& value,
                                       bool touch) {
  VITRINE_TRY(sqlite::transaction(m_connection, [&]() -> Result<void> {
    VITRINE_ASSIGN(auto query,
                   sqlite::run(m_connection,
                               QStringLiteral("UPDATE conversations SET %1 = ?, updated = CASE "
                                              "WHEN ? THEN ? ELSE updated END WHERE id = ?")
                                   .arg(QLatin1String(column)),
                               {value, touch, now(), id}));
    if (query.numRowsAffected() == 0) {
      return engine::fail(ErrorCode::kNotFound, "there is no conversation {}", id);
    }
    return {};
  }));
  return {};
}

Result<void> ConversationStore::rename(ConversationId id, const QString& title) {
  VITRINE_TRY(sqlite::transaction(m_connection, [&]() -> Result<void> {
    VITRINE_ASSIGN(auto query, sqlite::run(m_connection,
                                           QStringLiteral("UPDATE conversations SET title = ?, "
                                                          "title_automatic = 0 WHERE id = ?"),
                                           {title.isNull() ? QStringLiteral("") : title, id}));
    if (query.numRowsAffected() == 0) {
      return engine::fail(ErrorCode::kNotFound, "there is no conversation {}", id);
    }
    return {};
  }));
  emit conversationChanged(id);
  return {};
}

Result<void> ConversationStore::setAutomaticTitle(ConversationId id, const QString& title) {
  auto done = sqlite::run(m_connection,
                          QStringLiteral("UPDATE conversations SET title = ? "
                                         "WHERE id = ? AND title_automatic = 1"),
                          {title.isNull() ? QStringLiteral("") : title, id});
  if (!done) return tl::unexpected(done.error());
  emit conversationChanged(id);
  return {};
}

Result<void> ConversationStore::setSystemPrompt(ConversationId id, const QString& text) {
  VITRINE_TRY(update(id, "system_prompt", text.isNull() ? QStringLiteral("") : text, false));
  emit conversationChanged(id);
  return {};
}

Result<void> ConversationStore::setSystemPromptUse(ConversationId id, SystemPromptUse use) {
  VITRINE_TRY(update(id, "system_prompt_use", static_cast<int>(use), false));
  emit conversationChanged(id);
  return {};
}

Result<void> ConversationStore::setDropOldest(ConversationId id, bool on) {
  VITRINE_TRY(update(id, "drop_oldest", on, false));
  emit conversationChanged(id);
  return {};
}

Result<void> ConversationStore::setSampling(ConversationId id, const QJsonObject& sampling) {
  VITRINE_TRY(update(id, "sampling", compactJson(sampling), false));
  emit conversationChanged(id);
  return {};
}

Result<void> ConversationStore::setPinned(ConversationId id, bool pinned) {
  VITRINE_TRY(update(id, "pinned", pinned, false));
  emit conversationChanged(id);
  return {};
}

Result<void> ConversationStore::setColour(ConversationId id, int colour) {
  VITRINE_TRY(update(id, "colour", colour & 7, false));
  emit conversationChanged(id);
  return {};
}

Result<void> ConversationStore::moveToTrash(ConversationId id) {
  VITRINE_TRY(update(id, "trashed", now(), false));
  emit conversationRemoved(id);
  return {};
}

Result<void> ConversationStore::restore(ConversationId id) {
  VITRINE_TRY(update(id, "trashed", QVariant(), false));
  emit conversationAdded(id);
  return {};
}

Result<void> ConversationStore::purge(ConversationId id) {
  auto done =
      sqlite::run(m_connection, QStringLiteral("DELETE FROM conversations WHERE id = ?"), {id});
  if (!done) return tl::unexpected(done.error());
  emit conversationRemoved(id);
  return {};
}

Result<void> ConversationStore::purgeTrashOlderThan(const QDateTime& time) {
  auto done =
      sqlite::run(m_connection, QStringLiteral("DELETE FROM conversations WHERE trashed < ?"),
                  {time.toMSecsSinceEpoch()});
  if (!done) return tl::unexpected(done.error());
  return {};
}

std::vector<ConversationId> ConversationStore::search(const QString& text) const {
  std::vector<ConversationId> found;
  // LIKE ignores letter case for ASCII only; the usual spellings cover the other letters.
  QStringList spellings{text};
  const QString capitalized = text.left(1).toUpper() + text.mid(1).toLower();
  for (const QString& other : {text.toLower(), text.toUpper(), capitalized}) {
    if (!spellings.contains(other)) spellings.append(other);
  }
  QStringList conditions;
  QVariantList values;
  for (QString pattern : spellings) {
    pattern.replace(QLatin1Char('\\'), QLatin1String("\\\\"));
    pattern.replace(QLatin1Char('%'), QLatin1String("\\%"));
    pattern.replace(QLatin1Char('_'), QLatin1String("\\_"));
    pattern = QLatin1Char('%') + pattern + QLatin1Char('%');
    conditions << QStringLiteral("title LIKE ? ESCAPE '\\'")
               << QStringLiteral(
                      "EXISTS (SELECT 1 FROM messages WHERE conversation = "
                      "conversations.id AND text LIKE ? ESCAPE '\\')");
    values << pattern << pattern;
  }
  auto query = sqlite::run(m_connection,
                           QStringLiteral("SELECT id FROM conversations WHERE trashed IS NULL AND "
                                          "(%1) ORDER BY updated DESC, id DESC")
                               .arg(conditions.join(QLatin1String(" OR "))),
                           values);
  while (query && query->next()) found.push_back(query->value(0).toLongLong());
  return found;
}

// ---------------------------------------------------------------- messages

std::vector<Message> ConversationStore::messages(ConversationId id) const {
  std::vector<Message> result;
  auto query = sqlite::run(m_connection,
                           QStringLiteral("SELECT %1 FROM messages WHERE conversation = ? "
                                          "ORDER BY id")
                               .arg(QLatin1String(kMessageColumns)),
                           {id});
  std::unordered_map<MessageId, bool> known;
  while (query && query->next()) {
    Message message = readMessage(*query);
    // A parent always has the lower number. One that does not, or is of another conversation, is
    // damage: the message becomes a root, so that no loop can be walked for ever.
    if (message.parent != 0 && !known.contains(message.parent)) message.parent = 0;
    known.emplace(message.id, true);
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
    VITRINE_ASSIGN(made, insertMessage(m_connection, std::move(draft), m_writer));
    return setLeaf(m_connection, made.conversation, made.id, true);
  }));
  emit conversationChanged(made.conversation);
  return made;
}

Result<std::pair<Message, Message>> ConversationStore::appendTurn(Message question,
                                                                  Message answer) {
  std::pair<Message, Message> made;
  VITRINE_TRY(sqlite::transaction(m_connection, [&]() -> Result<void> {
    VITRINE_ASSIGN(made.first, insertMessage(m_connection, std::move(question), m_writer));
    answer.parent = made.first.id;
    VITRINE_ASSIGN(made.second, insertMessage(m_connection, std::move(answer), m_writer));
    return setLeaf(m_connection, made.second.conversation, made.second.id, true);
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
    return setLeaf(m_connection, answer.conversation, answer.id, true);
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
         toString(message.state), message.error.isNull() ? QStringLiteral("") : message.error,
         compactJson(message.metrics), message.model.isNull() ? QStringLiteral("") : message.model,
         message.id});
    if (!done) return tl::unexpected(done.error());
    auto touched = sqlite::run(m_connection,
                               QStringLiteral("UPDATE conversations SET updated = ? WHERE id = ?"),
                               {now(), message.conversation});
    if (!touched) return tl::unexpected(touched.error());
    return {};
  }));
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

Result<void> ConversationStore::setActiveLeaf(ConversationId id, MessageId leaf) {
  return setLeaf(m_connection, id, leaf, false);
}

Result<Conversation> ConversationStore::importConversation(Conversation draft,
                                                           const std::vector<Message>& messages) {
  Conversation made;
  VITRINE_TRY(sqlite::transaction(m_connection, [&]() -> Result<void> {
    const MessageId wantedLeaf = draft.activeLeaf;                                    // 1 + index
    if (!draft.uuid.isEmpty() && conversationByUuid(draft.uuid)) draft.uuid.clear();  // a copy
    VITRINE_ASSIGN(made, insertConversation(m_connection, std::move(draft)));
    std::vector<MessageId> ids;
    for (Message message : messages) {
      const auto parent = static_cast<std::size_t>(message.parent);
      message.parent = parent >= 1 && parent <= ids.size() ? ids[parent - 1] : 0;
      message.conversation = made.id;
      if (message.state == MessageState::kStreaming) message.state = MessageState::kStopped;
      VITRINE_ASSIGN(const Message inserted, insertMessage(m_connection, message, m_writer));
      ids.push_back(inserted.id);
    }
    if (ids.empty()) return {};
    const auto leaf = static_cast<std::size_t>(wantedLeaf);
    made.activeLeaf = leaf >= 1 && leaf <= ids.size() ? ids[leaf - 1] : ids.back();
    return setLeaf(m_connection, made.id, made.activeLeaf, false);
  }));
  emit conversationAdded(made.id);
  return made;
}

// ---------------------------------------------------------------- other programs

// Changes when another connection commits, and not by our own writes.
qint64 ConversationStore::dataVersion() const {
  auto query = sqlite::run(m_connection, QStringLiteral("PRAGMA data_version"));
  return query && query->next() ? query->value(0).toLongLong() : 0;
}

bool ConversationStore::checkForChanges() {
  const qint64 version = dataVersion();
  if (version == m_dataVersion) return false;
  m_dataVersion = version;
  emit changedElsewhere();
  return true;
}

}  // namespace vitrine::app

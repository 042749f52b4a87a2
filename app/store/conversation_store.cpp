#include "app/store/conversation_store.h"

#include <QFileInfo>
#include <QVariant>

#include "app/store/live_writers.h"
#include "app/store/repair.h"
#include "app/store/row_writer.h"
#include "app/store/schema.h"
#include "app/store/sqlite.h"
#include "app/text.h"

namespace vitrine::app {
namespace {

using engine::Error;
using engine::ErrorCode;
using engine::Result;

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
  if (m_checkpoint.joinable()) m_checkpoint.join();
  unregisterWriter(m_writer);
  sqlite::closeConnection(m_connection);
}

// A log that grows for ever would make reading slow; moving it waits for the disk.
void ConversationStore::checkpointIfLarge() {
  constexpr qint64 kLargeBytes = 8 << 20;
  if (m_checkpointRuns || QFileInfo(m_file + QStringLiteral("-wal")).size() < kLargeBytes) return;
  if (m_checkpoint.joinable()) m_checkpoint.join();  // ended before
  m_checkpointRuns = true;
  m_checkpoint = std::jthread([this] {
    sqlite::checkpoint(m_file);
    m_checkpointRuns = false;
  });
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

Result<Conversation> ConversationStore::create(Conversation draft) {
  Conversation made;
  VITRINE_TRY(sqlite::transaction(m_connection, [&]() -> Result<void> {
    VITRINE_ASSIGN(made, rows::insertConversation(m_connection, std::move(draft)));
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
                               {value, touch, rows::now(), id}));
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

Result<void> ConversationStore::setContextPolicy(ConversationId id,
                                                 std::optional<engine::ContextPolicy> policy) {
  const QString name = policy ? QString::fromLatin1(engine::nameOf(*policy)) : QStringLiteral("");
  VITRINE_TRY(update(id, "context_policy", name, false));
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
  VITRINE_TRY(update(id, "trashed", rows::now(), false));
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

std::vector<int> ConversationStore::chatLengths() const {
  std::vector<int> lengths;
  // In SQL, so that texts and token times of long chats are not read for two numbers.
  auto query = sqlite::run(
      m_connection,
      QStringLiteral("SELECT json_extract(m.metrics, '$.prompt_tokens') + "
                     "json_extract(m.metrics, '$.generated_tokens') FROM conversations c "
                     "JOIN messages m ON m.id = c.active_leaf "
                     "WHERE c.trashed IS NULL AND json_valid(m.metrics)"));
  while (query && query->next()) {
    if (const int tokens = query->value(0).toInt(); tokens > 0) lengths.push_back(tokens);
  }
  return lengths;
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

Result<Conversation> ConversationStore::importConversation(Conversation draft,
                                                           const std::vector<Message>& messages) {
  Conversation made;
  VITRINE_TRY(sqlite::transaction(m_connection, [&]() -> Result<void> {
    const MessageId wantedLeaf = draft.activeLeaf;                                    // 1 + index
    if (!draft.uuid.isEmpty() && conversationByUuid(draft.uuid)) draft.uuid.clear();  // a copy
    VITRINE_ASSIGN(made, rows::insertConversation(m_connection, std::move(draft)));
    std::vector<MessageId> ids;
    for (Message message : messages) {
      const auto parent = static_cast<std::size_t>(message.parent);
      message.parent = parent >= 1 && parent <= ids.size() ? ids[parent - 1] : 0;
      message.conversation = made.id;
      if (message.state == MessageState::kStreaming) message.state = MessageState::kStopped;
      VITRINE_ASSIGN(const Message inserted, rows::insertMessage(m_connection, message, m_writer));
      ids.push_back(inserted.id);
    }
    if (ids.empty()) return {};
    const auto leaf = static_cast<std::size_t>(wantedLeaf);
    made.activeLeaf = leaf >= 1 && leaf <= ids.size() ? ids[leaf - 1] : ids.back();
    return rows::setLeaf(m_connection, made.id, made.activeLeaf, false);
  }));
  checkpointIfLarge();
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

#include "app/store/repair.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QFile>
#include <QFileInfo>
#include <QStringList>
#include <QUuid>
#include <functional>
#include <set>
#include <vector>

#include "app/store/schema.h"
#include "app/store/sqlite.h"
#include "app/text.h"

namespace vitrine::app {
namespace {

using engine::ErrorCode;
using engine::Result;

// Rows of a gap between two readable stretches are tried one by one, up to this many.
constexpr qint64 kMaxProbes = 200000;

using RowReader = std::function<void(const QSqlQuery&)>;

// Reads from one end of a table until damage stops it. Returns the last id read, or 0.
qint64 readRun(const QString& connection, const QString& select, bool ascending,
               std::set<qint64>& seen, const RowReader& take) {
  qint64 last = 0;
  auto query = sqlite::run(connection, select + (ascending ? QStringLiteral(" ORDER BY id")
                                                           : QStringLiteral(" ORDER BY id DESC")));
  while (query && query->next()) {
    last = query->value(0).toLongLong();
    if (!seen.insert(last).second) break;  // met the run from the other end
    take(*query);
  }
  return last;
}

// A file of an earlier version lacks the columns that came later: NULL in their place.
QString presentColumns(const QString& connection, const char* table, const char* columns) {
  std::set<QString> present;
  auto query = sqlite::run(
      connection,
      QStringLiteral("SELECT name FROM pragma_table_info('%1')").arg(QLatin1String(table)));
  while (query && query->next()) present.insert(query->value(0).toString());
  QStringList wanted = QString::fromLatin1(columns).split(QStringLiteral(", "));
  for (QString& column : wanted) {
    if (!present.empty() && !present.contains(column)) column = QStringLiteral("NULL");
  }
  return wanted.join(QStringLiteral(", "));
}

void readTable(const QString& connection, const char* table, const char* columns,
               const RowReader& take) {
  const QString select = QStringLiteral("SELECT %1 FROM %2")
                             .arg(presentColumns(connection, table, columns), QLatin1String(table));
  std::set<qint64> seen;
  const qint64 low = readRun(connection, select, true, seen, take);
  const qint64 high = readRun(connection, select, false, seen, take);
  for (qint64 id = low + 1; id < high && id - low < kMaxProbes; ++id) {
    if (seen.contains(id)) continue;
    auto query = sqlite::run(connection, select + QStringLiteral(" WHERE id = ?"), {id});
    if (query && query->next()) {
      seen.insert(id);
      take(*query);
    }
  }
}

struct Salvage {
  std::vector<Conversation> conversations;
  std::vector<Message> messages;
};

Salvage readAll(const QString& file) {
  const QString connection = QStringLiteral("vitrine-salvage");
  Salvage salvage;
  if (sqlite::openForRescue(connection, file)) {
    readTable(connection, "conversations", kConversationColumns, [&](const QSqlQuery& row) {
      salvage.conversations.push_back(readConversation(row));
    });
    readTable(connection, "messages", kMessageColumns,
              [&](const QSqlQuery& row) { salvage.messages.push_back(readMessage(row)); });
  }
  sqlite::closeConnection(connection);
  return salvage;
}

// Fills a new file. Foreign keys are off while it is written, and references that lead nowhere are
// cut here: a message without its conversation gets a new one.
Result<void> writeAll(const QString& connection, Salvage& salvage) {
  std::erase_if(salvage.conversations, [](const Conversation& c) { return c.id <= 0; });
  std::set<qint64> conversations, messages;
  for (const auto& c : salvage.conversations) conversations.insert(c.id);
  const qint64 strays = (conversations.empty() ? 0 : *conversations.rbegin()) + 1;
  // A row may be readable in part: what does not even hold a text is nothing.
  std::erase_if(salvage.messages,
                [](const Message& m) { return m.conversation <= 0 && m.text.isEmpty(); });
  for (auto& m : salvage.messages) {
    messages.insert(m.id);
    if (m.conversation <= 0) m.conversation = strays;
    if (conversations.insert(m.conversation).second) {
      Conversation orphaned;
      orphaned.id = m.conversation;
      orphaned.title = QCoreApplication::translate("ConversationStore", "Recovered chat");
      orphaned.created = orphaned.updated = m.created;
      orphaned.activeLeaf = m.id;
      salvage.conversations.push_back(orphaned);
    }
  }
  return sqlite::transaction(connection, [&]() -> Result<void> {
    std::set<QString> uuids;
    for (Conversation& c : salvage.conversations) {
      if (c.uuid.isEmpty() || !uuids.insert(c.uuid).second) {
        c.uuid = QUuid::createUuid().toString(QUuid::WithoutBraces);
        uuids.insert(c.uuid);
      }
      if (!messages.contains(c.activeLeaf)) c.activeLeaf = 0;
      auto done = sqlite::run(
          connection,
          QStringLiteral("INSERT INTO conversations (%1) VALUES (%2)")
              .arg(QLatin1String(kConversationColumns), placeholders(kConversationColumns)),
          conversationValues(c));
      if (!done) return tl::unexpected(done.error());
    }
    for (Message& m : salvage.messages) {
      if (!messages.contains(m.parent)) m.parent = 0;
      if (m.state == MessageState::kStreaming) m.state = MessageState::kStopped;
      auto done =
          sqlite::run(connection,
                      QStringLiteral("INSERT INTO messages (%1) VALUES (%2)")
                          .arg(QLatin1String(kMessageColumns), placeholders(kMessageColumns)),
                      messageValues(m));
      if (!done) return tl::unexpected(done.error());
    }
    return {};
  });
}

Result<void> buildNew(const QString& file, Salvage& salvage) {
  const QString connection = QStringLiteral("vitrine-rebuild");
  const auto build = [&]() -> Result<void> {
    VITRINE_TRY(sqlite::openConnection(connection, file));
    // One plain file without a log beside it, so that it can be renamed into place.
    for (const char* pragma : {"PRAGMA journal_mode = DELETE", "PRAGMA foreign_keys = OFF"}) {
      if (auto done = sqlite::run(connection, QLatin1String(pragma)); !done) {
        return tl::unexpected(done.error());
      }
    }
    VITRINE_TRY(sqlite::migrate(connection, conversationMigrations()));
    return writeAll(connection, salvage);
  };
  const Result<void> result = build();
  sqlite::closeConnection(connection);
  return result;
}

}  // namespace

Result<QString> repairDatabase(const QString& file) {
  const QFileInfo info(file);
  const QString stamp = QDateTime::currentDateTime().toString(QStringLiteral("yyyyMMdd-HHmmss"));
  QString aside = info.path() + QLatin1Char('/') + info.completeBaseName() +
                  QStringLiteral(".damaged-") + stamp + QStringLiteral(".sqlite");
  for (int i = 2; QFile::exists(aside); ++i) {
    aside = info.path() + QLatin1Char('/') + info.completeBaseName() + QStringLiteral(".damaged-") +
            stamp + QLatin1Char('-') + QString::number(i) + QStringLiteral(".sqlite");
  }

  Salvage salvage = readAll(file);
  const QString rebuilt = file + QStringLiteral(".rebuilt");
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    QFile::remove(rebuilt + QLatin1String(suffix));
  }
  VITRINE_TRY(buildNew(rebuilt, salvage));
  for (const char* suffix : {"-wal", "-shm", ""}) {
    const QString from = file + QLatin1String(suffix);
    if (QFile::exists(from) && !QFile::rename(from, aside + QLatin1String(suffix))) {
      return engine::fail(ErrorCode::kIo, "cannot move the damaged database {} aside",
                          toUtf8(from));
    }
  }
  if (!QFile::rename(rebuilt, file)) {
    return engine::fail(ErrorCode::kIo, "cannot put the repaired database into place: {}",
                        toUtf8(file));
  }
  return QCoreApplication::translate(
             "ConversationStore",
             "The conversation database was damaged. %1 conversations with %2 messages could be "
             "read and are here; the damaged file is kept as %3.")
      .arg(salvage.conversations.size())
      .arg(salvage.messages.size())
      .arg(aside);
}

}  // namespace vitrine::app

#include "app/store/sqlite.h"

#include <QSqlError>
#include <QThread>

#include "app/text.h"

namespace vitrine::app::sqlite {
namespace {

using engine::Error;
using engine::ErrorCode;
using engine::Result;

// Primary result codes of SQLite (sqlite3.h).
enum {
  kPerm = 3,
  kBusy = 5,
  kLocked = 6,
  kReadOnly = 8,
  kIoErr = 10,
  kCorrupt = 11,
  kFull = 13,
  kCantOpen = 14,
  kNotADatabase = 26
};

Error fromSql(const QSqlError& error) {
  const int code =
      error.nativeErrorCode().toInt() & 0xff;  // extended codes keep it in the low byte
  Error result;
  result.code =
      code == kCorrupt || code == kNotADatabase ? ErrorCode::kInvalidFile : ErrorCode::kIo;
  std::string reason = toUtf8(error.databaseText());
  if (reason.empty()) reason = toUtf8(error.driverText());
  switch (code) {
    case kFull:
      reason = "the disk is full";
      break;
    case kBusy:
    case kLocked:
      reason = "another program is writing to it and does not finish";
      break;
    case kReadOnly:
    case kPerm:
      reason = "the file or its folder cannot be written to";
      break;
    case kCantOpen:
      reason = "the file cannot be opened; check its folder's permissions";
      break;
    default:
      break;
  }
  result.message = "conversation database: " + reason;
  return result;
}

Result<QSqlQuery> runOn(const QSqlDatabase& db, const QString& sql, const QVariantList& values) {
  QSqlQuery query(db);
  query.setForwardOnly(true);
  if (!query.prepare(sql)) return tl::unexpected(fromSql(query.lastError()));
  for (const QVariant& value : values) query.addBindValue(value);
  if (!query.exec()) return tl::unexpected(fromSql(query.lastError()));
  return query;
}

}  // namespace

Error toError(const QSqlQuery& query) {
  return fromSql(query.lastError());
}

bool isDamage(const Error& error) {
  return error.code == ErrorCode::kInvalidFile;
}

namespace {

Result<void> openWith(const QString& connection, const QString& file,
                      std::initializer_list<const char*> pragmas) {
  QSqlDatabase db = QSqlDatabase::addDatabase(QStringLiteral("QSQLITE"), connection);
  if (!db.isValid()) {
    return engine::fail(ErrorCode::kUnsupported,
                        "Qt's SQLite driver is missing (Debian: libqt6sql6-sqlite)");
  }
  db.setDatabaseName(file);
  db.setConnectOptions(QStringLiteral("QSQLITE_BUSY_TIMEOUT=4000"));
  if (!db.open()) {
    Error error = fromSql(db.lastError());
    error.message += " (" + toUtf8(file) + ")";
    return tl::unexpected(error);
  }
  for (const char* pragma : pragmas) {
    if (auto done = runOn(db, QLatin1String(pragma), {}); !done) {
      Error error = done.error();
      error.message += " (" + toUtf8(file) + ")";
      return tl::unexpected(error);
    }
  }
  return {};
}

}  // namespace

// NORMAL does not wait for the disk at each commit: a killed program loses nothing, a power cut at
// most the last commits, and the file stays sound. SQLite's own checkpoints are off, because they
// do wait for the disk, in the middle of whatever commits: see checkpoint().
Result<void> openConnection(const QString& connection, const QString& file) {
  return openWith(
      connection, file,
      {"PRAGMA foreign_keys = ON", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL"});
}

Result<void> openForRescue(const QString& connection, const QString& file) {
  return openWith(connection, file, {"PRAGMA writable_schema = ON"});
}

void closeConnection(const QString& connection) {
  {
    QSqlDatabase db = QSqlDatabase::database(connection, false);
    if (db.isOpen()) db.close();
  }
  QSqlDatabase::removeDatabase(connection);
}

Result<QSqlQuery> run(const QString& connection, const QString& sql, const QVariantList& values) {
  return runOn(QSqlDatabase::database(connection, false), sql, values);
}

void checkpoint(const QString& file) {
  const QString connection = QStringLiteral("vitrine-checkpoint-%1")
                                 .arg(reinterpret_cast<quintptr>(QThread::currentThreadId()));
  if (openConnection(connection, file)) {
    (void)run(connection, QStringLiteral("PRAGMA wal_checkpoint(PASSIVE)"));
  }
  closeConnection(connection);
}

Result<void> transaction(const QString& connection, const std::function<Result<void>()>& body) {
  const QSqlDatabase db = QSqlDatabase::database(connection, false);
  if (auto begun = runOn(db, QStringLiteral("BEGIN IMMEDIATE"), {}); !begun) {
    return tl::unexpected(begun.error());
  }
  Result<void> result = body();
  if (result) {
    auto committed = runOn(db, QStringLiteral("COMMIT"), {});
    if (committed) return {};
    result = tl::unexpected(committed.error());
  }
  (void)runOn(db, QStringLiteral("ROLLBACK"), {});
  return result;
}

Result<void> migrate(const QString& connection, std::span<const Migration> migrations) {
  const auto version = [&]() -> Result<int> {
    VITRINE_ASSIGN(auto query, run(connection, QStringLiteral("PRAGMA user_version")));
    return query.next() ? query.value(0).toInt() : 0;
  };
  const int newest = migrations.empty() ? 0 : migrations.back().version;
  VITRINE_ASSIGN(int found, version());
  if (found > newest) {
    return engine::fail(ErrorCode::kUnsupported,
                        "the conversation database has schema version {}, this program knows {}; "
                        "it was written by a newer Vitrine",
                        found, newest);
  }
  if (found == newest) return {};
  return transaction(connection, [&]() -> Result<void> {
    VITRINE_ASSIGN(found, version());  // another program may have been faster
    for (const Migration& migration : migrations) {
      if (migration.version <= found) continue;
      for (const char* statement : migration.statements) {
        if (auto done = run(connection, QString::fromUtf8(statement)); !done) {
          return tl::unexpected(done.error());
        }
      }
      const QString stamp = QStringLiteral("PRAGMA user_version = %1").arg(migration.version);
      if (auto done = run(connection, stamp); !done) return tl::unexpected(done.error());
    }
    return {};
  });
}

}  // namespace vitrine::app::sqlite

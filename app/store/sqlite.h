#pragma once

#include <QSqlDatabase>
#include <QSqlQuery>
#include <QString>
#include <QVariantList>
#include <functional>
#include <span>

#include "engine/base/result.h"

// A thin layer over Qt SQL that turns failures into Results.

namespace vitrine::app::sqlite {

/// Opens (or makes) a file under a connection name: WAL, foreign keys, synchronous NORMAL, and
/// four seconds of patience with another writer.
engine::Result<void> openConnection(const QString& connection, const QString& file);
/// Opens a damaged file for reading what is left of it: SQLite then accepts a file that is shorter
/// than its header says.
engine::Result<void> openForRescue(const QString& connection, const QString& file);
void closeConnection(const QString& connection);

/// Moves what the log (FILE-wal) holds into the file itself, without blocking anybody; waits for
/// the disk, so call it from a thread of its own. The last connection to close does the same.
void checkpoint(const QString& file);

/// Prepares, binds in order and runs one statement.
engine::Result<QSqlQuery> run(const QString& connection, const QString& sql,
                              const QVariantList& values = {});
engine::Error toError(const QSqlQuery& query);
/// The file itself is damaged, or is no database: repairing it makes sense.
bool isDamage(const engine::Error& error);

/// Runs `body` in one write transaction, taken at once so that two programs queue up instead of
/// failing half-way; rolled back if it fails.
engine::Result<void> transaction(const QString& connection,
                                 const std::function<engine::Result<void>()>& body);

/// Brings a schema from one version to the next.
struct Migration {
  int version;  ///< the schema's after it; consecutive from 1
  std::vector<const char*> statements;
};
/// Applies what is missing; PRAGMA user_version holds the version. A file of a newer program is
/// refused (kUnsupported) and left as it is.
engine::Result<void> migrate(const QString& connection, std::span<const Migration> migrations);

}  // namespace vitrine::app::sqlite

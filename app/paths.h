#pragma once

#include <QString>

namespace vitrine::app {

/// Where things lie: platform directories (QStandardPaths), or everything below the folder named
/// by the environment variable VITRINE_HOME (tests, a portable copy). Folders are made on demand;
/// a path whose folder cannot be made is still returned, and opening it reports the error.
struct Paths {
  QString data;      ///< ~/.local/share/vitrine
  QString models;    ///< data/models
  QString database;  ///< data/conversations.sqlite
  QString settings;  ///< ~/.config/vitrine/vitrine.ini
  QString cache;     ///< ~/.cache/vitrine: may be deleted at any time

  /// KV of conversations: cache/kv.
  QString archive() const { return cache + QStringLiteral("/kv"); }
  /// Calibration profiles: data/calibration.
  QString calibration() const { return data + QStringLiteral("/calibration"); }

  /// Requires: nothing; sets the application's name to "vitrine" where none is set.
  static Paths standard();
  /// Everything below one folder.
  static Paths below(const QString& folder);
};

}  // namespace vitrine::app

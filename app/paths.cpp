#include "app/paths.h"

#include <QCoreApplication>
#include <QDir>
#include <QStandardPaths>

namespace vitrine::app {

Paths Paths::below(const QString& folder) {
  const QDir dir(folder);
  Paths paths;
  paths.data = dir.filePath(QStringLiteral("data"));
  paths.models = dir.filePath(QStringLiteral("data/models"));
  paths.database = dir.filePath(QStringLiteral("data/conversations.sqlite"));
  paths.settings = dir.filePath(QStringLiteral("config/vitrine.ini"));
  paths.cache = dir.filePath(QStringLiteral("cache"));
  for (const auto& made : {paths.models, dir.filePath(QStringLiteral("config")), paths.cache}) {
    QDir().mkpath(made);
  }
  return paths;
}

Paths Paths::standard() {
  const QString home = qEnvironmentVariable("VITRINE_HOME");
  if (!home.isEmpty()) return below(QDir(home).absolutePath());

  // QStandardPaths puts the application's (and organization's) name into the paths.
  if (QCoreApplication::applicationName() != QLatin1String("vitrine")) {
    QCoreApplication::setApplicationName(QStringLiteral("vitrine"));
  }
  QCoreApplication::setOrganizationName({});
  const auto folder = [](QStandardPaths::StandardLocation location) {
    const QString path = QStandardPaths::writableLocation(location);
    QDir().mkpath(path);
    return QDir(path);
  };
  Paths paths;
  const QDir data = folder(QStandardPaths::AppLocalDataLocation);
  paths.data = data.path();
  paths.models = data.filePath(QStringLiteral("models"));
  QDir().mkpath(paths.models);
  paths.database = data.filePath(QStringLiteral("conversations.sqlite"));
  paths.settings =
      folder(QStandardPaths::AppConfigLocation).filePath(QStringLiteral("vitrine.ini"));
  paths.cache = folder(QStandardPaths::CacheLocation).path();
  return paths;
}

}  // namespace vitrine::app

#include "app/studio/calibration_store.h"

#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "app/text.h"

namespace vitrine::app::studio {

using engine::CalibrationProfile;
using engine::CalibrationPtr;
using engine::ErrorCode;
using engine::fail;
using engine::Result;

namespace {

/// "Code and chat" → "code-and-chat": for a file's name.
QString slug(const QString& name) {
  constexpr int kLongest = 40;
  QString text;
  for (const QChar c : name.toLower()) {
    if (c.isLetterOrNumber()) {
      text += c;
    } else if (!text.isEmpty() && !text.endsWith(QLatin1Char('-'))) {
      text += QLatin1Char('-');
    }
  }
  text = text.left(kLongest);
  while (text.endsWith(QLatin1Char('-'))) text.chop(1);
  return text.isEmpty() ? QStringLiteral("profile") : text;
}

/// When it was made, for the order: what the profile says, else the file's time.
QString timeOf(const CalibrationStore::Entry& entry) {
  if (entry.profile) return toQString(entry.profile->created);
  return QFileInfo(entry.file).lastModified().toUTC().toString(Qt::ISODate);
}

}  // namespace

CalibrationStore::CalibrationStore(QString folder) : m_folder(std::move(folder)) {}

std::vector<CalibrationStore::Entry> CalibrationStore::list(
    const std::string& modelFingerprint) const {
  std::vector<Entry> entries;
  const QDir folder(m_folder);
  for (const QString& name : folder.entryList({QStringLiteral("*.json")}, QDir::Files)) {
    Entry entry;
    entry.file = folder.absoluteFilePath(name);
    auto profile = engine::loadProfile(toPath(entry.file));
    if (profile) {
      entry.profile = std::move(*profile);
    } else {
      entry.problem = toQString(profile.error().message);
    }
    const bool foreign = entry.profile && !modelFingerprint.empty() &&
                         entry.profile->modelFingerprint != modelFingerprint;
    if (!foreign) entries.push_back(std::move(entry));
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return timeOf(a) > timeOf(b); });
  return entries;
}

Result<QString> CalibrationStore::save(const CalibrationProfile& profile) const {
  if (!QDir().mkpath(m_folder)) {
    return fail(ErrorCode::kIo, "cannot make the folder {} for calibration profiles",
                toUtf8(m_folder));
  }
  // The id makes the name unlike that of any other profile; the same profile keeps its file.
  const QString id = toQString(profile.id).left(12);
  const QString file = QDir(m_folder).absoluteFilePath(
      QStringLiteral("%1-%2.json").arg(slug(toQString(profile.name)), slug(id)));
  const QString part = file + QStringLiteral(".part");
  auto saved = engine::saveProfile(profile, toPath(part));
  if (saved && std::rename(toUtf8(part).c_str(), toUtf8(file).c_str()) != 0) {
    saved = fail(ErrorCode::kIo, "cannot write {}: {}", toUtf8(file), std::strerror(errno));
  }
  if (!saved) {
    QFile::remove(part);
    return tl::unexpected(std::move(saved).error());
  }
  return file;
}

Result<void> CalibrationStore::remove(const QString& file) const {
  QFile target(file);
  if (target.remove()) return {};
  return fail(ErrorCode::kIo, "cannot delete {}: {}", toUtf8(file), toUtf8(target.errorString()));
}

}  // namespace vitrine::app::studio

#include "app/studio/profile_list.h"

#include <QDir>
#include <QMetaObject>
#include <algorithm>
#include <utility>

#include "app/studio/calibration_store.h"

namespace vitrine::app::studio {

ProfileList::ProfileList(const QString& folder, QObject* parent)
    : QObject(parent), m_folder(folder) {
  connect(&m_watcher, &QFileSystemWatcher::directoryChanged, this, &ProfileList::refresh);
  refresh();
}

ProfileList::~ProfileList() = default;

// The folder may not be there yet: then its parent tells when it is made.
void ProfileList::watch() {
  const QDir folder(m_folder);
  const QString place = folder.exists() ? m_folder : QDir::cleanPath(folder.filePath(".."));
  if (!m_watcher.directories().contains(place) && QDir(place).exists()) m_watcher.addPath(place);
}

void ProfileList::refresh() {
  watch();
  if (std::exchange(m_reading, true)) {
    m_again = true;
    return;
  }
  if (m_thread.joinable()) m_thread.join();  // it has ended
  m_thread = std::jthread([this, folder = m_folder] {
    std::vector<engine::CalibrationPtr> profiles;
    for (const CalibrationStore::Entry& entry : CalibrationStore(folder).list()) {
      if (entry.profile) profiles.push_back(entry.profile);
    }
    m_mailbox.post([this, profiles = std::move(profiles)]() mutable {
      m_reading = false;
      const bool same = std::equal(
          profiles.begin(), profiles.end(), m_profiles.begin(), m_profiles.end(),
          [](const auto& a, const auto& b) { return a->id == b->id && a->name == b->name; });
      if (!same) {
        m_profiles = std::move(profiles);
        emit changed();
      }
      if (std::exchange(m_again, false)) refresh();
    });
  });
}

}  // namespace vitrine::app::studio

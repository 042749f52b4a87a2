#pragma once

#include <QFileSystemWatcher>
#include <QObject>
#include <QString>
#include <thread>
#include <vector>

#include "app/mailbox.h"
#include "engine/quant/calibration_profile.h"

namespace vitrine::app::studio {

/// The calibration profiles of a folder, for panels: read on a thread (a profile is some megabytes
/// of text), again whenever the folder changes. Belongs to one thread (the window's).
class ProfileList final : public QObject {
  Q_OBJECT
 public:
  explicit ProfileList(const QString& folder, QObject* parent = nullptr);
  ~ProfileList() override;

  /// Readable ones of all models, newest first, as last read.
  const std::vector<engine::CalibrationPtr>& profiles() const { return m_profiles; }
  /// Reads the folder again, soon; changed() tells if there are others.
  void refresh();
  QString folder() const { return m_folder; }

 signals:
  void changed();

 private:
  void watch();

  QString m_folder;
  std::vector<engine::CalibrationPtr> m_profiles;
  QFileSystemWatcher m_watcher;
  bool m_reading = false, m_again = false;
  Mailbox m_mailbox{this};
  std::jthread m_thread;  // last: joins before the rest goes
};

}  // namespace vitrine::app::studio

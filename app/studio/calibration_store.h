#pragma once

#include <QString>
#include <vector>

#include "engine/quant/calibration_profile.h"

namespace vitrine::app::studio {

/// Calibration profiles on disk: one JSON file each in one folder. A file that cannot be read is
/// listed with its problem, never removed.
class CalibrationStore final {
 public:
  explicit CalibrationStore(QString folder);

  struct Entry {
    QString file;                    ///< absolute
    engine::CalibrationPtr profile;  ///< null: see `problem`
    QString problem;
  };
  /// Those of a model (by fingerprint; empty: all) and the unreadable ones, newest first.
  std::vector<Entry> list(const std::string& modelFingerprint = {}) const;
  /// Writes a profile under a name made of its own; the file. Whole or not at all.
  engine::Result<QString> save(const engine::CalibrationProfile& profile) const;
  engine::Result<void> remove(const QString& file) const;

 private:
  QString m_folder;
};

}  // namespace vitrine::app::studio

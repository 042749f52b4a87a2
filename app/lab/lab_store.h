#pragma once

#include <filesystem>
#include <vector>

#include "app/lab/lab_types.h"

namespace vitrine::app::lab {

/// Finished rows on disk, one file for a model, a machine and a configuration: what was measured
/// once need not be measured again, and a run that was stopped goes on with what is missing. A file
/// that cannot be read counts as empty. For one thread; two programs may use it, the last one wins.
class LabStore final {
 public:
  /// `folder` is made when the first row is kept.
  LabStore(std::filesystem::path folder, const Subject& subject);

  /// The rows in the order of the table.
  std::vector<LabRow> rows() const;
  /// Puts a row in place of the one with its id; whole or not at all.
  engine::Result<void> keep(const LabRow& row);
  /// Forgets these rows; all of them for none.
  void drop(const std::vector<std::string>& ids = {});

  const std::filesystem::path& file() const { return m_file; }

 private:
  engine::Result<void> write(const std::vector<LabRow>& rows) const;

  std::filesystem::path m_folder, m_file;
  std::string m_key;
};

}  // namespace vitrine::app::lab
